"""Layers: groups of operations that a simulation treats as one, in the form that a scenario takes.

A layer is a short chain of operations, such as convolution, batch norm and activation. Its gradients are reduced as
one set. Its work in the scenario is the sum over its operations, divided among the passes as follows:

* *forward*: all operations.
* *weight gradient*: the weight gradients of all operations, and the input gradients on which the first of them depends:
  those of the operations after the first one with parameters.
* *input gradient*: the other input gradients.
* *update*: the optimizer's work on each parameter that has a gradient (:mod:`~.optimizer`); by default, plain
  stochastic gradient descent, ``w = w - rate * g``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from syncline.models.calculus import NOTHING, Amount, Op
from syncline.models.data_types import bytes_of
from syncline.models.optimizer import SGD, Optimizer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.models.types import Types

Sharding = Literal["gather", "column", "row", "divided", "replicated", "exchange"]
"""How tensor parallelism divides a layer; the same words as in a scenario."""


@dataclass(frozen=True)
class Kept:
    """The activations that stay in memory from a layer's forward pass until its backward pass."""

    elements: int = 0
    """Elements of the data type."""
    wide: int = 0
    """Elements of at least four bytes."""
    masks: int = 0
    """Elements of one byte: the mask of dropped values."""

    def memory(self, data_type: str) -> int:
        """Bytes if elements have the type ``data_type``."""
        size = bytes_of(data_type)
        return size * self.elements + max(size, 4) * self.wide + self.masks


@dataclass(frozen=True)
class Layer:
    """A chain of operations on one NPU's share of the batch, before any tensor parallelism."""

    name: str
    """Name of the layer, unique within the model."""
    ops: tuple[Op, ...]
    """Its operations, in forward order."""
    sharding: Sharding = "gather"
    """How tensor parallelism divides it."""
    reads_data: bool = False
    """Whether its inputs are the training data, which need no gradient."""
    borrowed: bool = False
    """Whether its weights belong to another layer, which holds, reduces and updates them."""
    hands_on: int | None = None
    """Elements of the output activations, if they are not the result of the last operation."""
    updated: int | None = None
    """Parameters that an update changes, if not all: those that were looked up."""
    needed_by: str | None = None
    """The layer that first needs the outputs, if it is not the next one."""
    optimizer: Optimizer = SGD
    """The optimizer that updates the parameters."""
    block: int | None = None
    """Number of its block; a stage of a pipeline holds whole blocks."""
    heads: int | None = None
    """Number of parts into which tensor parallelism can divide it."""
    vocabulary: int | None = None
    """Number of different tokens by which tensor parallelism divides it; padded to a multiple of the ranks."""
    tokens: int | None = None
    """Tokens of a sample, which sequence parallelism divides."""
    selective: bool = False
    """Whether selective recomputation recomputes it."""
    kept: Kept | None = None
    """Activations that the forward pass keeps for the backward pass; None if unknown."""
    kept_selective: Kept | None = None
    """Activations that it keeps if it is recomputed because it is :attr:`selective`."""
    shares: str | None = None
    """The layer whose weights it uses if it is :attr:`borrowed`, for stages that do not hold that layer."""
    precise: bool = False
    """Whether it computes in the type of activations even if other layers with weights compute in a narrower type: the
    projection to a vocabulary (Micikevicius et al. 2022, 3)."""

    @cached_property
    def parameters(self) -> int:
        """Weights whose gradients this layer reduces."""
        return 0 if self.borrowed else sum(op.parameters for op in self.ops)

    @property
    def inputs(self) -> int:
        """Elements of the input activations: the inputs of the first operation that has any."""
        return next((op.inputs for op in self.ops if op.inputs), 0)

    @property
    def outputs(self) -> int:
        """Elements of the output activations."""
        return self.ops[-1].outputs if self.hands_on is None else self.hands_on

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the matrix products in the forward pass, counted as in publications about a network."""
        return sum(op.multiply_adds for op in self.ops)

    @cached_property
    def forward(self) -> Amount:
        """Work of the forward pass."""
        return _sum(op.forward for op in self.ops)

    @cached_property
    def input_grad(self) -> Amount:
        """Work of the input gradient."""
        if self.reads_data:
            return NOTHING
        return _sum(op.input_grad for op in self.ops[: self._pivot + 1])

    @cached_property
    def weight_grad(self) -> Amount:
        """Work of the weight gradient."""
        return _sum(op.weight_grad for op in self.ops) + _sum(op.input_grad for op in self.ops[self._pivot + 1 :])

    def update(self, types: Types) -> tuple[int, int]:
        """Operations and moved bytes of the parameter update."""
        updated = self.parameters if self.updated is None else self.updated
        return updated * self.optimizer.flop, updated * self.optimizer.moved(types)

    @property
    def masked(self) -> int:
        """Multiply-adds of the forward pass for scores that a mask hides; not part of :attr:`multiply_adds`."""
        return sum(op.masked for op in self.ops)

    def computes_in(self, types: Types) -> str | None:
        """The type that its operations compute in; None if it is ``types.compute``."""
        linear = any(op.parameters and op.multiply_adds for op in self.ops)
        return None if linear and not self.precise else types.others

    @cached_property
    def _pivot(self) -> int:
        """Index of the first operation with parameters, or of the last operation if none has parameters."""
        return next((i for i, op in enumerate(self.ops) if op.parameters), len(self.ops) - 1)

    def scenario(self, types: Types) -> dict[str, Any]:
        """Returns the layer in the form of a scenario, with elements of these types."""
        keys = ("needed_by", "block", "heads", "vocabulary", "tokens", "selective", "shares")
        marks = {key: getattr(self, key) for key in keys}
        flop, moved = self.update(types)
        data_type, other = types.activations, self.computes_in(types)
        return {
            "name": self.name,
            "forward": _work(self.forward, data_type, other),
            "input_grad": _work(self.input_grad, data_type, other),
            "weight_grad": _work(self.weight_grad, data_type, other),
            "update": {"ops": {"flop": f"{flop}FLOP", "memory": f"{moved}B"}} if moved else "none",
            "parameters": self.parameters,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "sharding": self.sharding,
            **{key: value for key, value in marks.items() if value},
            **{
                key: f"{kept.memory(data_type)}B"
                for key, kept in (("kept", self.kept), ("kept_selective", self.kept_selective))
                if kept is not None
            },
        }


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, NOTHING)


def _work(amount: Amount, data_type: str, other: str | None) -> Any:
    if amount == NOTHING:
        return "none"
    ops: dict[str, Any] = {"flop": f"{amount.flop}FLOP", "memory": f"{amount.memory(data_type)}B"}
    if amount.products:
        size = bytes_of(data_type)
        ops["products"] = [
            {"m": each.m, "k": each.k, "n": each.n, "count": each.count, "memory": f"{each.moved * size}B"}
            for each in amount.products
        ]
    if other is not None:
        ops["data_type"] = other
    return {"ops": ops}

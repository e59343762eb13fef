"""Layers: operations that a simulation treats as one, in the form that a scenario takes.

A layer is a short chain of operations, such as convolution, batch norm and activation. Its gradients are reduced as
one set. Its work in the scenario is the sum over its operations, divided among the passes as follows:

* *forward*: all operations.
* *weight gradient*: the weight gradients of all operations, and what has to be undone before the first of them can be
  had: the input gradients of the operations after the first one with parameters.
* *input gradient*: the input gradients of the others.
* *update*: plain stochastic gradient descent, ``w = w - rate * g``: 2 FLOP and 3 moved elements for each parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from syncline.models.calculus import NOTHING, Amount, Op
from syncline.models.data_types import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

Sharding = Literal["gather", "column", "row", "divided", "replicated"]
"""What model parallelism does to a layer; the words are the scenario's."""


@dataclass(frozen=True)
class Layer:
    """A chain of operations on one NPU's share of the batch, before any model parallelism."""

    name: str
    """Unique within the model."""
    ops: tuple[Op, ...]
    """In forward order."""
    sharding: Sharding = "gather"
    """What model parallelism does to it."""
    reads_data: bool = False
    """Whether its inputs are the training data, which need no gradient."""
    borrowed: bool = False
    """Whether its weights are another layer's, which then holds, reduces and updates them."""
    hands_on: int | None = None
    """Elements of the output activations, where they are not the result of the last operation."""

    @cached_property
    def parameters(self) -> int:
        """Weights whose gradients this layer reduces."""
        return 0 if self.borrowed else sum(op.parameters for op in self.ops)

    @property
    def inputs(self) -> int:
        """Elements of the input activations: what the first operation reads that reads more than weights."""
        return next((op.inputs for op in self.ops if op.inputs), 0)

    @property
    def outputs(self) -> int:
        """Elements of the output activations."""
        return self.ops[-1].outputs if self.hands_on is None else self.hands_on

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the forward pass in matrix products, as published counts of a network's cost add them up."""
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

    @property
    def update(self) -> Amount:
        """Work of the parameter update."""
        return Amount(2 * self.parameters, 3 * self.parameters)

    @cached_property
    def _pivot(self) -> int:
        """Index of the first operation with parameters, or of the last one where none has any."""
        return next((i for i, op in enumerate(self.ops) if op.parameters), len(self.ops) - 1)

    def scenario(self, data_type: str) -> dict[str, Any]:
        """Give the layer as a scenario holds it, where every element is of ``data_type``."""
        return {
            "name": self.name,
            "forward": _work(self.forward, data_type),
            "input_grad": _work(self.input_grad, data_type),
            "weight_grad": _work(self.weight_grad, data_type),
            "update": _work(self.update, data_type),
            "parameters": self.parameters,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "sharding": self.sharding,
        }


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, NOTHING)


def _work(amount: Amount, data_type: str) -> Any:
    if amount == NOTHING:
        return "none"
    ops: dict[str, Any] = {"flop": f"{amount.flop}FLOP", "memory": f"{amount.memory(data_type)}B"}
    if amount.products:
        size = bytes_of(data_type)
        ops["products"] = [
            {"m": each.m, "k": each.k, "n": each.n, "count": each.count, "memory": f"{each.moved * size}B"}
            for each in amount.products
        ]
    return {"ops": ops}

"""A call of an operator, as input of the cost rules: it has sizes, and does not depend on PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any


@dataclass(frozen=True)
class Operand:
    """A tensor."""

    shape: tuple[int, ...]
    floating: bool = True
    """Whether its elements are floating-point numbers; only these have gradients."""
    grad: bool = False
    """Whether a gradient with respect to it is needed."""
    weights: frozenset[str] = frozenset()
    """The parameters from which it is computed, if it is computed from parameters alone; else empty."""

    @property
    def elements(self) -> int:
        """Number of its elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Call:
    """One call of an operator."""

    name: str
    """PyTorch's name, without namespace and without the final underscore of an in-place operator."""
    args: tuple[Any, ...]
    """Positional arguments; tensors are operands."""
    kwargs: dict[str, Any]
    """Arguments by name."""
    outputs: tuple[Operand, ...]
    """Tensors that it returns."""
    parameters: int = 0
    """Elements of trained parameters that it is the first to use."""
    operands: tuple[Operand, ...] = field(init=False)
    """All tensors among its arguments, including those in lists."""

    def __post_init__(self) -> None:
        found = _operands([*self.args, *self.kwargs.values()])
        object.__setattr__(self, "operands", tuple(found))

    def arg(self, index: int, name: str, default: Any = None) -> Any:
        """The positional argument at ``index``, or else the keyword argument ``name``."""
        return self.args[index] if index < len(self.args) else self.kwargs.get(name, default)

    @property
    def activations(self) -> tuple[Operand, ...]:
        """Operands that are not weights."""
        return tuple(each for each in self.operands if not each.weights)

    @property
    def weights(self) -> tuple[Operand, ...]:
        """Operands that are computed from parameters alone."""
        return tuple(each for each in self.operands if each.weights)

    @property
    def inputs(self) -> int:
        """Elements of its activations."""
        return sum(each.elements for each in self.activations)

    @property
    def moved_weights(self) -> int:
        """Elements of its weights."""
        return sum(each.elements for each in self.weights)

    @property
    def written(self) -> int:
        """Elements of its result; of several results, those of the first."""
        return self.outputs[0].elements if self.outputs else 0

    @property
    def needs_input_grad(self) -> bool:
        """Whether an activation needs a gradient."""
        return any(each.grad for each in self.activations)

    @property
    def needs_weight_grad(self) -> bool:
        """Whether a weight needs a gradient."""
        return any(each.grad for each in self.weights)


def _operands(values: Any) -> list[Operand]:
    found: list[Operand] = []
    for value in values:
        if isinstance(value, Operand):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _operands(value)
    return found

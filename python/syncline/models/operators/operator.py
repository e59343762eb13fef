"""An operator of a model, and how it may be split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.models.layer import Layer

Kind = Literal[
    "dense", "convolution", "embedding", "attention", "concatenation", "elementwise", "norm", "pooling", "layer"
]


@dataclass(frozen=True)
class Operator:
    """One operator."""

    name: str
    """Name of the operator, unique within the model."""
    kind: Kind
    """What it computes."""
    inputs: tuple[str, ...]
    """Names of the operators whose output it reads."""
    part: Callable[[int, int], Layer]
    """The work of one part of its features on some samples: ``part(samples, parts)``."""
    features: int = 1
    """Parameters and features can be split into any number of parts that divides this; 1 if they cannot be split."""
    whole_batch: bool = False
    """Whether each part computes all samples: only the features may be split among servers."""
    element_wise: bool = False
    """Whether a part reads only the features that it computes itself, as a sum of two inputs does."""
    measured: str = ""
    """Its name in the tables of FlexFlow's profiler."""


@dataclass(frozen=True)
class OperatorModel:
    """A model as operators, each behind those that it reads."""

    name: str
    """Name of the model, for display."""
    operators: tuple[Operator, ...]
    """Its operators."""
    batch: int
    """Samples that an accelerator works on in a step, if every operator is split among all servers."""
    notes: tuple[str, ...] = ()
    """What it leaves out of the original model, one sentence for each omission."""

    @property
    def parameters(self) -> int:
        """Parameters of the model."""
        return sum(operator.part(1, 1).parameters for operator in self.operators)

"""Optimizers that a hub applies to gradients. Formulas and defaults are those of ``torch.optim``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Optimizer:
    """An optimizer by its name on the hub, and its parameters by their names."""

    name: str
    parameters: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Returns the optimizer as data for the hub."""
        return {"name": self.name, "parameters": {key: float(value) for key, value in self.parameters.items()}}


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent, like ``torch.optim.SGD``."""

    lr: float = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Returns the optimizer as data for the hub."""
        return Optimizer("sgd", asdict(self)).as_dict()


@dataclass(frozen=True)
class Adam:
    """Adam, like ``torch.optim.Adam``; with ``decoupled`` weight decay, like ``torch.optim.AdamW``."""

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Returns the optimizer as data for the hub."""
        return Optimizer("adam", asdict(self)).as_dict()

"""What the registry knows about a model."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from syncline.models.parameters import COMMON, Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from syncline.models.layer import Layer


@dataclass(frozen=True)
class ModelInfo:
    """A model that can be built by name."""

    description: str
    """What it is, in one sentence."""
    source: str
    """Where its architecture is from."""
    layers: Callable[..., list[Layer]]
    """The model's layers for checked parameters: all but ``precision``, because sizes are in elements, and
    ``optimizer``."""
    parameters: Mapping[str, Parameter]
    """What it may be told, by name; those common to all models come first."""
    notes: tuple[str, ...] = ()
    """What it leaves out of what it was asked for, one sentence each."""


def model(
    description: str, source: str, layers: Callable[..., list[Layer]], parameters: Mapping[str, Parameter]
) -> ModelInfo:
    """Describe a model that takes ``parameters`` and those common to all, which may have other defaults there."""
    return ModelInfo(description, source, layers, MappingProxyType({**COMMON, **parameters}))

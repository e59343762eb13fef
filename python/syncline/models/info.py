"""The registry's entry for a model."""

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
    """Description of the model, in one sentence."""
    source: str
    """Source of its architecture."""
    layers: Callable[..., list[Layer]]
    """Builds the layers from checked parameters: all except ``precision``, because sizes are in elements, and
    ``optimizer``."""
    parameters: Mapping[str, Parameter]
    """Parameters by name; those common to all models come first."""
    notes: tuple[str, ...] = ()
    """Notes about features of the requested model that are left out, one sentence each."""


def model(
    description: str, source: str, layers: Callable[..., list[Layer]], parameters: Mapping[str, Parameter]
) -> ModelInfo:
    """Describes a model that takes ``parameters`` and the common ones, whose defaults ``parameters`` may replace."""
    return ModelInfo(description, source, layers, MappingProxyType({**COMMON, **parameters}))

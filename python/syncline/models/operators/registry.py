"""Operator models by name."""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from syncline.models import registry
from syncline.models.errors import ModelError, ModelErrorKind, unknown_name
from syncline.models.operators import bert, candle, chain, dlrm, ncf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from syncline.models.info import ModelInfo
    from syncline.models.layer import Layer
    from syncline.models.operators.operator import OperatorModel

MODELS: Mapping[str, Callable[..., OperatorModel]] = MappingProxyType(
    {"dlrm": dlrm.build, "candle": candle.build, "bert": bert.build, "ncf": ncf.build}
)
"""Models with operators of their own. All others of :data:`syncline.models.registry.MODELS` are chains of layers."""

BATCH = {"vgg16": 64, "resnet50": 128}
"""Samples of an accelerator for chains (topoopt2022, Table 2, and its released code)."""

_ELSEWHERE = {"batch_per_npu": "parameters.batch", "optimizer": "optimizer", "precision": "precision"}
"""Parameters of chains that a search gives by keys of its own."""

MAX_VALUE = 1 << 40
"""Maximum value of a parameter."""
MAX_COUNT = 4096
"""Maximum value of a parameter that is a number of operators."""
_COUNTS = ("tables", "bottom_layers", "top_layers", "feature_layers", "layers", "blocks")


def names() -> list[str]:
    """Names of all models."""
    return [*MODELS, *(name for name in registry.MODELS if name not in MODELS)]


def build(name: str, parameters: Mapping[str, Any]) -> OperatorModel:
    """Builds a model with these parameters.

    Raises :class:`~syncline.models.errors.ModelError` for an unknown model or parameter, or a value that is not
    allowed.
    """
    if name not in MODELS:
        if name not in registry.MODELS:
            raise unknown_name("model", name, names(), kind=ModelErrorKind.MODEL)
        return from_layers(name, registry.MODELS[name], parameters)
    known = inspect.signature(MODELS[name]).parameters
    for key, value in parameters.items():
        if key not in known:
            raise unknown_name(key, key, known, kind=ModelErrorKind.UNKNOWN_KEY)
        check_range(key, value)
    return MODELS[name](**parameters)


def from_layers(name: str, model: ModelInfo, parameters: Mapping[str, Any]) -> OperatorModel:
    """Builds a chain of operators of a model's layers. ``parameters`` are the model's own, and ``batch``.

    Raises :class:`~syncline.models.errors.ModelError` for parameters that the model does not take.
    """
    own = dict(parameters)
    for key, instead in _ELSEWHERE.items():
        if key in own:
            raise ModelError(key, own[key], f"`{instead}`", problem=f"`{key}` is given elsewhere in a search")
    batch = own.pop("batch", BATCH.get(name, model.parameters["batch_per_npu"].default))
    check_range("batch", batch)

    def layers(samples: int) -> list[Layer]:
        built, errors = registry.request(model, {**own, "batch_per_npu": samples})
        for error in errors:
            raise error
        return built

    return chain.build(name, layers, batch=batch, notes=model.notes)


def check_range(key: str, value: Any) -> None:
    """Raises :class:`~syncline.models.errors.ModelError` for a parameter that is not a whole number in its range."""
    largest = MAX_COUNT if key in _COUNTS else MAX_VALUE
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        raise ModelError(key, value, f"a whole number from 1 to {largest}")

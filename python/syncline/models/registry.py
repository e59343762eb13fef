"""Models by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from syncline.models import mlp, resnet50, transformer, vgg16
from syncline.models.errors import ModelError, unknown
from syncline.models.parameters import problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.models.info import ModelInfo
    from syncline.models.layer import Layer

MODELS: Mapping[str, ModelInfo] = MappingProxyType(
    {
        "resnet50": resnet50.INFO,
        "vgg16": vgg16.INFO,
        "transformer": transformer.INFO,
        "transformer_big": transformer.BIG,
        "mlp": mlp.INFO,
    }
)
"""Every model. A new one is a file with the rhythm of the others and a line here."""

LARGEST = 1 << 63
"""No amount of a whole model may reach this: the simulation counts in unsigned 64-bit integers."""


def build(name: str, /, **params: Any) -> list[dict[str, Any]]:
    """Give the layers of model ``name`` as a scenario holds them, from input to output.

    Raises :class:`ModelError` for the first thing that is wrong; :func:`check` finds all of them.
    """
    model_layers = layers(name, **params)
    data_type = params.get("data_type", MODELS[name].parameters["data_type"].default)
    return [layer.scenario(data_type) for layer in model_layers]


def layers(name: str, /, **params: Any) -> list[Layer]:
    """Give the layers of model ``name``, with their operations, from input to output. Raises as :func:`build` does."""
    built, errors = request(name, params)
    for error in errors:
        raise error
    return built


def check(name: str, params: Mapping[str, Any]) -> list[ModelError]:
    """Everything that is wrong with a request for model ``name``."""
    return request(name, params)[1]


def request(name: str, params: Mapping[str, Any]) -> tuple[list[Layer], list[ModelError]]:
    """The layers of model ``name``, and everything that is wrong with asking for them: one of the two is empty."""
    if not isinstance(name, str) or name not in MODELS:
        return [], [unknown("model", name, MODELS)]
    known = MODELS[name].parameters
    errors = [unknown(key, key, known, problem=f"not a parameter of {name}") for key in params if key not in known]
    errors += [error for key, found in params.items() if key in known and (error := problem(key, known[key], found))]
    if errors:
        return [], errors
    try:
        return _layers(name, params), []
    except ModelError as error:
        return [], [error]


def _layers(name: str, params: Mapping[str, Any]) -> list[Layer]:
    """Give the layers for parameters that are valid one by one; the model checks how they fit together."""
    info = MODELS[name]
    defaults = {key: parameter.default for key, parameter in info.parameters.items()}
    chosen = {**defaults, **params}
    del chosen["data_type"]
    built = info.layers(**chosen)
    passes = [work for layer in built for work in (layer.forward, layer.input_grad, layer.weight_grad, layer.update)]
    widest = 8  # bytes of the largest data type
    largest = max(sum(work.flop for work in passes), widest * sum(work.moved for work in passes))
    if largest >= LARGEST:
        raise ModelError("model", name, "parameters whose work stays below 2^63 FLOP and bytes in one iteration")
    return built

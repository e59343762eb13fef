"""Models by name."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from syncline.models import decoder, dlrm, mlp, resnet50, transformer, vgg16
from syncline.models.errors import ModelError, ModelErrorKind, unknown_name
from syncline.models.info import ModelInfo
from syncline.models.optimizer import OPTIMIZERS
from syncline.models.parameters import parameter_error
from syncline.models.types import Types
from syncline.models.types import types as types_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from syncline.models.layer import Layer

MODELS: Mapping[str, ModelInfo] = MappingProxyType(
    {
        "resnet50": resnet50.INFO,
        "vgg16": vgg16.INFO,
        "transformer": transformer.INFO,
        "transformer_big": transformer.BIG,
        "decoder": decoder.INFO,
        "transformer_17b": decoder.TURING,
        "gpt3_175b": decoder.GPT3,
        "transformer_1t": decoder.TRILLION,
        "dlrm": dlrm.INFO,
        "mlp": mlp.INFO,
    }
)
"""Every model. To add one, write a file like the others, and add a line here."""

LARGEST = 1 << 63
"""Bound on all amounts of a whole model, since the simulation counts in unsigned 64-bit integers."""


def countable(built: Iterable[Layer]) -> bool:
    """Whether the operations of all layers, and their bytes in the widest data type, stay below :data:`LARGEST`."""
    flop = moved = 0
    for layer in built:
        for work in (layer.forward, layer.input_grad, layer.weight_grad):
            flop, moved = flop + work.flop, moved + work.memory("fp64")
        updating = layer.update(Types.uniform("fp64"))
        flop, moved = flop + updating[0], moved + updating[1]
    return max(flop, moved) < LARGEST


def build(name: str, /, *, types: Mapping[str, str] | None = None, **params: Any) -> list[dict[str, Any]]:
    """Returns the layers of model ``name`` in the form of a scenario, from input to output.

    ``types`` replaces types of the precision, with the names of :class:`~.types.Types`.
    Raises :class:`ModelError` for the first error; :func:`check` finds all errors.
    """
    model_layers = layers(name, **params)
    precision = params.get("precision", MODELS[name].parameters["precision"].default)
    return [layer.scenario(types_of(precision, types)) for layer in model_layers]


def layers(name: str, /, **params: Any) -> list[Layer]:
    """Returns the layers of model ``name``, with their operations, from input to output. Raises like :func:`build`."""
    built, errors = request(name, params)
    for error in errors:
        raise error
    return built


def check(name: str, params: Mapping[str, Any]) -> list[ModelError]:
    """Returns all errors in a request for model ``name``."""
    return request(name, params)[1]


def request(model: str | ModelInfo, params: Mapping[str, Any]) -> tuple[list[Layer], list[ModelError]]:
    """Returns the layers of a model, or the errors in the request: one of the two lists is empty.

    ``model`` is the name of an entry in :data:`MODELS`, or the description of any other model.
    """
    if not isinstance(model, ModelInfo):
        if not isinstance(model, str) or model not in MODELS:
            return [], [unknown_name("model", model, MODELS, kind=ModelErrorKind.MODEL)]
        name, model = model, MODELS[model]
    else:
        name = "this model"
    known = model.parameters
    errors = [
        unknown_name(key, key, known, kind=ModelErrorKind.UNKNOWN_KEY, problem=f"not a parameter of {name}")
        for key in params
        if key not in known
    ]
    errors += [
        error for key, found in params.items() if key in known and (error := parameter_error(key, known[key], found))
    ]
    if errors:
        return [], errors
    try:
        return _layers(model, name, params), []
    except ModelError as error:
        return [], [error]


def _layers(info: ModelInfo, name: str, params: Mapping[str, Any]) -> list[Layer]:
    """Returns the layers for parameters that are valid individually; the model checks them in combination."""
    defaults = {key: parameter.default for key, parameter in info.parameters.items()}
    chosen = {**defaults, **params}
    del chosen["precision"]
    sizes = tuple((key, tuple(value) if isinstance(value, list) else value) for key, value in chosen.items())
    built = _built(info.layers, sizes)
    if built is None:
        allowed = "parameters whose work stays below 2^63 FLOP and bytes in one iteration"
        raise ModelError("model", name, allowed, kind=ModelErrorKind.MODEL)
    return list(built)


@lru_cache(maxsize=8)
def _built(make: Callable[..., list[Layer]], sizes: tuple[tuple[str, Any], ...]) -> tuple[Layer, ...] | None:
    """The layers for these sizes; ``None`` if their amounts reach :data:`LARGEST`.

    Cached, since a search needs the same model on many fabrics; layers are immutable.
    """
    chosen = dict(sizes)
    optimizer = OPTIMIZERS[chosen.pop("optimizer")]
    built = tuple(replace(layer, optimizer=optimizer) for layer in make(**chosen))
    return built if countable(built) else None

"""The parameters of models, and their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from syncline.models.errors import ModelError, unknown_name
from syncline.models.optimizer import OPTIMIZERS
from syncline.models.types import PRECISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping


class Parameter(NamedTuple):
    """One parameter of a model."""

    type: Literal["integer", "boolean", "choice", "integers"]
    """``integers`` is a list of whole numbers."""
    default: Any
    """Default value."""
    meaning: str
    """Meaning of the parameter, with its unit."""
    range: tuple[Any, ...]
    """Smallest and largest whole number; or the values of a choice."""
    shortest: int = 2
    """Fewest entries of a list."""


def integer(default: int, meaning: str, low: int, high: int) -> Parameter:
    """Describes a whole number from ``low`` to ``high``."""
    return Parameter("integer", default, meaning, (low, high))


def boolean(meaning: str, *, default: bool) -> Parameter:
    """Describes a boolean."""
    return Parameter("boolean", default, meaning, (False, True))


def choice(default: str, meaning: str, *values: str) -> Parameter:
    """Describes one of several names."""
    return Parameter("choice", default, meaning, values)


def integers(default: tuple[int, ...], meaning: str, low: int, high: int, *, shortest: int = 2) -> Parameter:
    """Describes a list of ``shortest`` to :data:`LONGEST_LIST` whole numbers from ``low`` to ``high``."""
    return Parameter("integers", default, meaning, (low, high), shortest)


LONGEST_LIST = 10_000
"""Maximum number of entries of a list."""

COMMON: Mapping[str, Parameter] = {
    # astra2020 V-E trains with a local mini-batch of 32.
    "batch_per_npu": integer(
        32, "samples that one NPU works on in one iteration, or in one of its micro-batches", 1, 1 << 20
    ),
    "precision": choice(
        "fp32",
        "precision of training: `bf16` and `fp8` have gradients and optimizer states in fp32, `fp16` has only "
        "optimizer states in fp32; `types` sets element types one by one",
        *PRECISIONS,
    ),
    "optimizer": choice(
        "sgd",
        "optimizer: `sgd`, with 2 FLOP for each parameter and no states; `adam`, with 14 FLOP and two moments; `none`, "
        "without time for updates",
        *OPTIMIZERS,
    ),
}
"""Parameters that every model takes."""


def parameter_error(key: str, parameter: Parameter, found: object) -> ModelError | None:
    """Checks ``found`` as the value of ``parameter``; returns the error, or None if it is valid."""
    match parameter.type:
        case "integer":
            return _integer(key, parameter, found)
        case "boolean":
            return None if isinstance(found, bool) else ModelError(key, found, "true or false")
        case "choice":
            known = isinstance(found, str) and found in parameter.range
            return None if known else unknown_name(key, found, parameter.range)
        case "integers":
            if not isinstance(found, list | tuple) or not parameter.shortest <= len(found) <= LONGEST_LIST:
                low, high = parameter.range
                allowed = f"a list of {parameter.shortest} to {LONGEST_LIST} whole numbers from {low} to {high}"
                return ModelError(key, found, allowed)
            entries = (_integer(key, parameter, entry, at) for at, entry in enumerate(found))
            return next((entry for entry in entries if entry), None)


def _integer(key: str, parameter: Parameter, found: object, index: int | None = None) -> ModelError | None:
    low, high = parameter.range
    allowed = f"a whole number from {low} to {high}"
    if isinstance(found, int) and not isinstance(found, bool) and low <= found <= high:
        return None
    return ModelError(key, found, allowed, index=index)

"""The one error of this package."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from syncline.input.problem import nearest as nearest_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class ModelErrorKind(StrEnum):
    """What is wrong with a request for a model or an accelerator."""

    MODEL = "model"
    """The model is unknown, or its work cannot be counted."""
    VALUE = "value"
    """A value is not allowed."""
    UNKNOWN_KEY = "unknown_key"
    """There is no parameter of this name."""
    MISSING_KEY = "missing_key"
    """A required key is missing."""


class ModelError(ValueError):
    """A request for a model or an accelerator is invalid.

    The fields hold the details; ``str(error)`` is one sentence made of them.
    """

    def __init__(
        self,
        key: str,
        found: object,
        allowed: str,
        nearest: str | None = None,
        *,
        kind: ModelErrorKind = ModelErrorKind.VALUE,
        index: int | None = None,
        problem: str = "",
    ) -> None:
        self.kind = kind
        """What kind of error it is."""
        self.key = key
        """What is wrong: ``model``, ``accelerator`` or the name of a parameter, known or not."""
        self.path: tuple[str | int, ...] = (key,) if index is None else (key, index)
        """The key, and the index of the entry if one entry of a list is wrong."""
        self.found = found
        """The given value."""
        self.allowed = allowed
        """The allowed values, in words."""
        self.nearest = nearest
        """The nearest allowed value, or ``None`` if none is near."""
        self.problem = problem
        """A description of the problem, in place of the given value."""
        place = key if index is None else f"{key}[{index}]"
        missing = "missing" if kind is ModelErrorKind.MISSING_KEY else ""
        hint = f"; did you mean {nearest}?" if nearest is not None else ""
        super().__init__(f"{place}: {problem or missing or f'found {_short(found)}'}, allowed is {allowed}{hint}")


def unknown_name(
    key: str,
    found: object,
    known: Iterable[str],
    *,
    kind: ModelErrorKind = ModelErrorKind.VALUE,
    problem: str = "",
    likeness: float = 0.5,
) -> ModelError:
    """Make the error for a name that is not in ``known``; ``problem`` describes it in place of the found name.

    ``likeness`` is how similar a known name must be to be suggested: see :func:`~syncline.input.problem.nearest`.
    """
    names = list(known)
    near = nearest_of(found, names, likeness=likeness) if isinstance(found, str) else None
    return ModelError(key, found, f"one of {', '.join(names)}", near, kind=kind, problem=problem)


def _short(found: object) -> str:
    """Format ``found`` like ``repr``, cut to 80 characters."""
    try:
        text = repr(found)
    except ValueError:  # an integer with more digits than Python prints
        text = f"a very large {type(found).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."

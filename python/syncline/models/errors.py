"""The one error of this package."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ModelError(ValueError):
    """A request for a model or an accelerator is invalid.

    The fields hold the details; ``str(error)`` is one sentence made of them.
    """

    def __init__(self, key: str, found: object, allowed: str, nearest: str | None = None, *, problem: str = "") -> None:
        self.key = key
        """What is wrong: ``model``, ``accelerator`` or the name of a parameter, known or not."""
        self.found = found
        """The given value."""
        self.allowed = allowed
        """The allowed values, in words."""
        self.nearest = nearest
        """The nearest allowed value, or ``None`` if none is near."""
        self.problem = problem
        """A description of the problem, in place of the given value."""
        hint = f"; did you mean {nearest}?" if nearest is not None else ""
        super().__init__(f"{key}: {problem or f'found {_short(found)}'}, allowed is {allowed}{hint}")


def unknown_name(
    key: str, found: object, known: Iterable[str], *, problem: str = "", likeness: float = 0.5
) -> ModelError:
    """Make the error for a name that is not in ``known``; ``problem`` describes it in place of the found name.

    ``likeness``, from 0 to 1, is the similarity that a known name must have to be suggested.
    """
    names = list(known)
    # A number is not a misspelt name.
    near = _nearest(found, names, likeness) if isinstance(found, str) else None
    return ModelError(key, found, f"one of {', '.join(names)}", near, problem=problem)


def nearest_of(found: str, names: list[str], *, likeness: float) -> str | None:
    """Find the name most similar to ``found``, the first of equals; ``None`` below a similarity of ``likeness``."""
    return _nearest(found, names, likeness) if names else None


def _nearest(found: str, names: list[str], least: float) -> str | None:
    """Find the name most similar to ``found``, the first of equals; ``None`` below a similarity of ``least``."""

    def likeness(name: str) -> float:
        return SequenceMatcher(None, found[:100].lower(), name.lower()).ratio()

    best = max(names, key=likeness)
    return best if likeness(best) >= least else None


def _short(found: object) -> str:
    """Format ``found`` like ``repr``, cut to 80 characters."""
    try:
        text = repr(found)
    except ValueError:  # an integer with more digits than Python prints
        text = f"a very large {type(found).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."

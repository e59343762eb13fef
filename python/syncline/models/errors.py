"""The one error of this package."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ModelError(ValueError):
    """Something in a request for a model or an accelerator cannot be.

    The fields are data for whoever renders the error; the text is one sentence made of them.
    """

    def __init__(self, key: str, found: object, allowed: str, nearest: str | None = None, *, problem: str = "") -> None:
        self.key = key
        """What is wrong: ``model``, ``accelerator`` or the name of a parameter, known or not."""
        self.found = found
        """What was given."""
        self.allowed = allowed
        """What may be given, in words."""
        self.nearest = nearest
        """The nearest thing that may be given, or ``None`` where nothing is near."""
        self.problem = problem
        """What is wrong, where that says it better than what was given."""
        hint = f"; did you mean {nearest}?" if nearest is not None else ""
        super().__init__(f"{key}: {problem or f'found {_short(found)}'}, allowed is {allowed}{hint}")


def unknown(key: str, found: object, known: Iterable[str], *, problem: str = "", likeness: float = 0.5) -> ModelError:
    """Make the error for a name that is none of ``known``; ``problem`` says it better than what was found.

    ``likeness``, from 0 to 1, is how alike a name must be to be told as the nearest.
    """
    names = list(known)
    # A number is no misspelt name.
    near = _nearest(found, names, likeness) if isinstance(found, str) else None
    return ModelError(key, found, f"one of {', '.join(names)}", near, problem=problem)


def nearest_of(found: str, names: list[str], *, likeness: float) -> str | None:
    """Find the most alike of ``names``, the first of equals, if it is as alike as ``likeness`` says, from 0 to 1."""
    return _nearest(found, names, likeness) if names else None


def _nearest(found: str, names: list[str], least: float) -> str | None:
    """Find the most alike of ``names``, the first of equals, if it is at all alike."""

    def likeness(name: str) -> float:
        return SequenceMatcher(None, found[:100].lower(), name.lower()).ratio()

    best = max(names, key=likeness)
    return best if likeness(best) >= least else None


def _short(found: object) -> str:
    """Write ``found`` as Python does, cut to a length that a line can hold."""
    try:
        text = repr(found)
    except ValueError:  # an integer with more digits than Python prints
        text = f"a very large {type(found).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."

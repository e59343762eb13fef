"""Checks the arguments of calls from Python: wrong types and impossible numbers, each by its name, all at once."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.errors import Diagnostic


class Arguments:
    """Collects what is wrong with the arguments of a call; a context that raises all of it at its end.

    >>> with Arguments() as check:
    ...     check.whole("gpus", 512, most=1_000_000)
    """

    def __init__(self) -> None:
        self.problems: list[Diagnostic] = []
        """What is wrong so far."""

    def __enter__(self) -> Arguments:
        """Begins to collect."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Raises :class:`SynclineError` with all problems, unless another error is on its way."""
        if kind is None and self.problems:
            raise_errors(*self.problems)

    def whole(self, key: str, value: Any, *, least: int = 1, most: int) -> None:
        """A whole number from ``least`` to ``most``."""
        if isinstance(value, bool) or not isinstance(value, SupportsIndex) or not least <= index(value) <= most:
            self._wrong("not a whole number that is allowed", key, value, f"a whole number from {least:,} to {most:,}")

    def divisor(self, key: str, value: Any, of: str, whole: Any) -> None:
        """A whole number that divides another argument."""
        if isinstance(whole, bool) or not isinstance(whole, SupportsIndex):
            return  # that argument is wrong itself
        if isinstance(value, bool) or not isinstance(value, SupportsIndex) or index(value) < 1:
            self.whole(key, value, most=index(whole))
        elif index(whole) % index(value):
            self._wrong("not a divisor", key, value, f"a divisor of {of}, which is {index(whole)}")

    def number(self, key: str, value: Any, *, above: float = 0.0, most: float = 1e30) -> None:
        """A finite number above ``above``, at most ``most``."""
        if not _is_number(value) or not above < value <= most:
            self._wrong("not a number that is allowed", key, value, f"a number above {above:g}, at most {most:g}")

    def part(self, key: str, value: Any) -> None:
        """A number from 0, and below 1."""
        if not _is_number(value) or not 0 <= value < 1:
            self._wrong("not a part that is allowed", key, value, "a number from 0, and below 1")

    def flag(self, key: str, value: Any) -> None:
        """True or false."""
        if not isinstance(value, bool):
            self._wrong("neither true nor false", key, value, "True, False")

    def word(self, key: str, value: Any, words: Iterable[str]) -> None:
        """One of some words."""
        known = list(words)
        if not isinstance(value, str) or value not in known:
            near = nearest(value, known) if isinstance(value, str) else None
            self._wrong("value not allowed", key, value, ", ".join(known), near)

    def instance(self, key: str, value: Any, kind: type | tuple[type, ...], allowed: str) -> None:
        """A value of a class; ``allowed`` says what makes one."""
        if not isinstance(value, kind):
            self._wrong("a value of another class", key, value, allowed)

    def _wrong(self, message: str, key: str, value: Any, allowed: str, near: str | None = None) -> None:
        found = shown(value)
        if not isinstance(value, int | float | None) and shown(value) != repr(value):
            # `8` and `"8"` look alike otherwise.
            found = f"{found} ({type(value).__name__})"
        self.problems.append(error(Code.BAD_VALUE, message, key=key, found=found, allowed=allowed, nearest=near))


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False

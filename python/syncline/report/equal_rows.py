"""Groups equal rows, so that a model of eighty equal blocks takes one row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

Row = TypeVar("Row")


def group_equal(
    found: Iterable[Row],
    name: Callable[[Row], str],
    numbers: Callable[[Row], Iterable[float]],
    kind: Callable[[Row], Hashable] = lambda _: None,
) -> list[list[Row]]:
    """Groups rows of one kind whose names differ only in numbers, and whose values are equal to four digits."""
    groups: dict[Hashable, list[Row]] = {}
    for each in found:
        shown = tuple(f"{number:.4g}" for number in numbers(each))
        groups.setdefault((re.sub(r"\d+", "0", name(each)), kind(each), shown), []).append(each)
    return list(groups.values())


def group_label(names: Sequence[str]) -> str:
    """The label of a group: ``block.0``, or ``block.0 (80 equal)``."""
    return names[0] if len(names) == 1 else f"{names[0]} ({len(names)} equal)"

"""Finds what a list repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


def find(items: Sequence[Hashable], count: int) -> tuple[int, int] | None:
    """Start and length of the longest part that follows itself ``count`` times, as early as possible; None without one.

    If ``count`` is 1, it is the whole list. Takes time in proportion to the square of the list over ``count``.
    """
    if count == 1:
        return 0, len(items)
    numbers: dict[Hashable, int] = {}
    kinds = [numbers.setdefault(item, len(numbers)) for item in items]
    for length in range(len(items) // count, 0, -1):
        same = 0
        needed = length * (count - 1)
        for at in range(len(items) - length):
            same = same + 1 if kinds[at] == kinds[at + length] else 0
            if same == needed:
                return at + 1 - needed, length
    return None

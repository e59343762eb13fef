"""Lists of hosts as Slurm and others write them: ``gpu[001-016,020],login1``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from syncline.input import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?(?::([0-9]{1,9}))?")


class HostListError(ValueError):
    """What is wrong with a list; ``column`` is where, from 0, and ``width`` how long the wrong part is."""

    def __init__(self, message: str, column: int, width: int) -> None:
        super().__init__(message)
        self.column = column
        self.width = width


def expand(text: str, most: int = limits.MAX_VERTICES) -> list[str]:
    """The names in a list, in their order.

    :raises HostListError: the list is malformed, or has more than ``most`` names.
    """
    names: list[str] = []
    for start, entry in _entries(text):
        if not entry.strip():
            raise HostListError("a name is empty", start, max(len(entry), 1))
        names += _names(entry, start, most - len(names))
    return names


def _entries(text: str) -> Iterator[tuple[int, str]]:
    """The parts between commas outside brackets, and where each begins."""
    depth = start = 0
    for at, character in enumerate(text):
        if character == "[":
            if depth:
                raise HostListError("a bracket within brackets", at, 1)
            depth = 1
        elif character == "]":
            if not depth:
                raise HostListError("a bracket closes that was not opened", at, 1)
            depth = 0
        elif character == "," and not depth:
            yield start, text[start:at]
            start = at + 1
    if depth:
        opened = text.rindex("[")
        raise HostListError("a bracket is not closed", opened, len(text) - opened)
    yield start, text[start:]


def _names(entry: str, start: int, most: int) -> list[str]:
    """The names of one entry: the product of its ranges."""
    found = [""]
    for part in _PART.finditer(entry):
        if part[2] is not None:
            found = [name + part[2] for name in found]
            continue
        numbers = _numbers(part[1], start + part.start() + 1, most)
        if len(found) * len(numbers) > most:
            raise HostListError(f"more than {limits.MAX_VERTICES} names", start, len(entry))
        found = [name + number for name in found for number in numbers]
    return [name.strip() for name in found]


def _numbers(text: str, start: int, most: int) -> list[str]:
    """The numbers in brackets, with the zeros in front that the first one has."""
    numbers: list[str] = []
    for each in text.split(","):
        found = _RANGE.fullmatch(each.strip())
        if found is None:
            raise HostListError("not a number or a range of numbers", start, max(len(each), 1))
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or step < 1:
            raise HostListError("a range that ends before it begins", start, len(each))
        if (last - first) // step + 1 > most - len(numbers):
            raise HostListError(f"more than {limits.MAX_VERTICES} names", start, len(each))
        numbers += [f"{number:0{len(found[1])}d}" for number in range(first, last + 1, step)]
        start += len(each) + 1
    return numbers

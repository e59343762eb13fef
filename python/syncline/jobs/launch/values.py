"""Values of shell variables: text with the place of every part, and the words that it makes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from syncline.input.node import Mark
from syncline.jobs.launch.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WORD = re.compile(r"(?:\\\r?\n|[^\s])+")
_JOIN = re.compile(r"\\\r?\n")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a value that is written in one place."""

    text: str
    """As it is written, with escaped ends of lines."""
    mark: Mark
    """Where it begins."""
    splits: bool = False
    """Whether blanks in it separate words: it comes from a variable outside quotes."""
    unknown: str | None = None
    """Why it is not known before the script runs."""

    def at(self, offset: int, width: int) -> Mark:
        """The place of a stretch of the text."""
        before = self.text[:offset]
        down = before.count("\n")
        column = offset - before.rfind("\n") if down else self.mark.column + offset
        return Mark(self.mark.text, self.mark.line + down, column, width)

    @property
    def joined(self) -> str:
        """The text without escaped ends of lines."""
        return _JOIN.sub("", self.text)


Value: TypeAlias = tuple[Part, ...]
"""The text of a variable, or of an element of an array."""


@dataclass(frozen=True, slots=True)
class Break:
    """The end of an element of an array within a word."""


def joined(parts: Iterable[Part | Break]) -> Value:
    """The value of parts as one text, in which a blank stands between elements of an array."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Part):
            found.append(part)
        elif found:
            found.append(Part(" ", found[-1].mark))
    return tuple(found)


def text_of(value: Value) -> str:
    """The text of a value; unknown parts are empty."""
    return "".join(each.joined for each in value)


def unknown_of(value: Value) -> str | None:
    """Why a value is not known; None if it is."""
    return next((each.unknown for each in value if each.unknown), None)


def splitting(value: Value, *, splits: bool) -> Value:
    """The value, whose blanks separate words or do not."""
    return tuple(replace(each, splits=splits) for each in value)


def split(parts: Iterable[Part | Break]) -> Iterator[Value]:
    """The values of the words that parts make, one after the other without a blank between them."""
    current: list[Part] = []
    for part in parts:
        if isinstance(part, Break):
            if current:
                yield tuple(current)
                current = []
        elif not part.splits or part.unknown:
            current.append(replace(part, splits=False))
        else:
            found = list(_WORD.finditer(part.text))
            if part.text[:1].isspace() and current:
                yield tuple(current)
                current = []
            for index, each in enumerate(found):
                if text := _JOIN.sub("", each[0]):
                    current.append(Part(text, part.at(each.start(), len(each[0]))))
                if current and (index < len(found) - 1 or part.text[-1:].isspace()):
                    yield tuple(current)
                    current = []
    # What is unset outside quotes makes no word.
    if current:
        yield tuple(current)


def word(value: Value) -> Word:
    """The word that a value is."""
    mark = next((each.mark for each in value if each.text), value[0].mark)
    return Word(text_of(value), mark, unknown_of(value))

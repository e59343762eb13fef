"""Words of a command, with the places where they are written."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command."""

    text: str
    mark: Mark
    unknown: str | None = None
    """Why the text is not known before the script runs; None if it is known."""


def of_text(text: str, name: str) -> list[Word]:
    """The words of a text of arguments, by the shell's rules for quotes and comments; nothing is expanded.

    :raises SynclineError: a quote is not closed.
    """
    lines = text.split("\n")
    held = Text(name, lines)
    found: list[Word] = []
    for number, line in enumerate(lines, start=1):
        try:
            words = shlex.split(line.rstrip().removesuffix("\\"), comments=True)
        except ValueError:
            raise_errors(error(Code.BAD_SYNTAX, "a quote is not closed", mark=Mark(held, number, 1, 0)))
        found += [Word(each, _place(held, number, line, each)) for each in words]
    return found


def of_arguments(given: Sequence[str]) -> list[Word]:
    """The words of the command line of ``syncline`` itself."""
    line = " ".join(given)
    held = Text("the arguments", [line])
    return [Word(each, _place(held, 1, line, each)) for each in given]


def _place(text: Text, number: int, line: str, word: str) -> Mark:
    column = line.find(word)
    return Mark(text, number, column + 1 if column >= 0 else 1, len(word) if column >= 0 else 0)

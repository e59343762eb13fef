"""A text that a tool printed, and errors that name its lines and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.errors import Diagnostic

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""What terminals take as colours and underlines."""
MOST_PROBLEMS = 20
"""Most errors of a text that are reported one by one."""


@dataclass(frozen=True)
class Printed:
    """What a tool printed."""

    file: str
    """Path as the user gave it."""
    content: str

    @cached_property
    def lines(self) -> list[str]:
        """Its lines, without codes for terminals."""
        return [_ESCAPE.sub("", line) for line in self.content.splitlines()]

    @cached_property
    def _text(self) -> Text:
        return Text(self.file, self.lines)

    def mark(self, line: int = 0, column: int = 0, width: int = 0) -> Mark:
        """A stretch of a line, both counted from 1; without a line, the whole text."""
        return Mark(self._text, line, column, width)

    def wrong(
        self,
        message: str,
        at: tuple[int, int, int] | None = None,
        *,
        code: Code = Code.BAD_SYNTAX,
        found: str | None = None,
        allowed: str | None = None,
        nearest: str | None = None,
        help: str | None = None,
        notes: Iterable[str] = (),
    ) -> Diagnostic:
        """An error in the text; ``at`` is line, column and width."""
        return error(
            code,
            message,
            mark=self.mark(*(at or (0, 0, 0))),
            found=found,
            allowed=allowed,
            nearest=nearest,
            help=help,
            notes=notes,
        )


class TextReader:
    """Reads a text, and collects its errors, so that several are reported at once."""

    def __init__(self, printed: Printed) -> None:
        self.printed = printed
        self.problems: list[Diagnostic] = []

    @property
    def full(self) -> bool:
        """Whether as many errors are collected as are reported."""
        return len(self.problems) >= MOST_PROBLEMS

    def wrong(
        self,
        message: str,
        at: tuple[int, int],
        text: str,
        *,
        code: Code = Code.BAD_SYNTAX,
        found: str | None = None,
        allowed: str | None = None,
        nearest: str | None = None,
        help: str | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        """Collects an error about ``text``, which begins at this line and column, both counted from 1."""
        self.problems.append(
            self.printed.wrong(
                message,
                (*at, len(text)),
                code=code,
                found=shown(found or text),
                allowed=allowed,
                nearest=nearest,
                help=help,
                notes=notes,
            )
        )

    def stop(self, message: str, line: int, found: str | None = None, allowed: str | None = None) -> NoReturn:
        """Raises an error about a line, after which reading cannot go on."""
        raise_errors(self.printed.wrong(message, (line, 1, 1), found=found, allowed=allowed))

    def raise_problems(self) -> None:
        """Raises the errors so far, if there are any.

        :raises SynclineError: with the first :data:`MOST_PROBLEMS` of them.
        """
        if self.problems:
            raise_errors(*self.problems[:MOST_PROBLEMS])

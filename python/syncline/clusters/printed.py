"""A text that a tool printed, and errors that name its lines and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.errors import Diagnostic

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""What terminals take as colours and underlines."""


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

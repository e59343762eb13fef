"""Tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.measure import Measurement
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

_WIDEST = 1000
"""Greatest width of a table, in columns of the terminal."""
_WORD = 40
"""Longest word that is never broken, in letters; longer ones, such as paths, may be broken."""


class Bare(Table):
    """A table that breaks lines only between words, and leaves out spare columns if it is too wide."""

    spare: tuple[str, ...] = ()
    """Headings of columns that may be left out, the least important first."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Fits the table into the available width, then prints it."""
        needed = self._fit(console, options.max_width)
        yield from super().__rich_console__(console, options.update(max_width=max(needed, options.max_width)))

    def _fit(self, console: Console, width: int) -> int:
        """Makes the table as narrow as words and numbers allow, and returns its width."""
        for column in self.columns:
            texts = [str(cell) for cell in (column.header, *column.cells)]
            words = texts if column.no_wrap else [word for text in texts for word in text.split() if len(word) <= _WORD]
            column.min_width = max([column.min_width or 0, *map(len, words)])
        for heading in self.spare:
            if self._least(console) <= width:
                break
            self.columns = [column for column in self.columns if column.header != heading]
            for number, column in enumerate(self.columns):
                column._index = number  # noqa: SLF001 - rich has no way to take a column out
        return self._least(console)

    def _least(self, console: Console) -> int:
        return Measurement.get(console, console.options.update(max_width=_WIDEST), self).minimum


def bare(spare: Iterable[str] = ()) -> Bare:
    """A table without columns, with a line below its headings and no other lines.

    Columns with a heading in ``spare`` are left out if there is no room for them.
    """
    made = Bare(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), header_style="dim")
    made.spare = tuple(spare)
    return made


def of_numbers(*headings: str, spare: Iterable[str] = ()) -> Bare:
    """A table whose first column is text and whose others are numbers; columns in ``spare`` may be left out."""
    table = bare(spare)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index == 0 else "right", overflow="fold", no_wrap=index > 0)
    return table


def of_columns(columns: Mapping[str, Sequence[str]], spare: Iterable[str] = (), bold: Sequence[bool] = ()) -> Bare:
    """A table of columns by their headings, without those that have no text. The first one is text, others are numbers.

    ``bold`` says which rows are.
    """
    kept = {heading: cells for heading, cells in columns.items() if any(cells)}
    table = of_numbers(*kept, spare=spare)
    for number, row in enumerate(zip(*kept.values(), strict=True)):
        table.add_row(*row, style="bold" if bold and bold[number] else None)
    return table

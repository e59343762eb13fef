"""How tables look on a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table


def bare() -> Table:
    """A table with a line below its headings and no other, to which columns are added."""
    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), header_style="dim")


def of_numbers(*headings: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = bare()
    for index, heading in enumerate(headings):
        least = len(heading) if index == 0 else None
        table.add_column(
            heading, justify="left" if index == 0 else "right", overflow="fold", no_wrap=index > 0, min_width=least
        )
    return table

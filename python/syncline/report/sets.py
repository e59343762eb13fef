"""The table of collectives of a workload that is nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from syncline.report.quantity import counted, percent, rate, size, time

if TYPE_CHECKING:
    from syncline.result import Result

SHOWN = 8
"""Collectives that are listed one by one."""


def sets(result: Result, width: int) -> Table | None:
    """The longest collectives with their bandwidths, and how near they come to the bound of their plan."""
    columns = result.table("collectives")
    kinds = columns["kind"]
    if not kinds:
        return None
    order = sorted(range(len(kinds)), key=lambda index: (-columns["duration_s"][index], index))
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("collective", overflow="fold")
    headings = ["size", "time", "bus bandwidth", *(["of the bound"] if width >= 70 else [])]
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for index in order[: SHOWN if len(order) > SHOWN + 1 else None]:
        duration, bound = columns["duration_s"][index], columns["bound_s"][index]
        cells = [size(columns["size_bytes"][index]), time(duration), rate(columns["bus_bytes_per_s"][index])]
        if width >= 70:
            cells.append(percent(bound / duration) if duration else "")
        table.add_row(kinds[index], *cells)
    if len(order) > SHOWN + 1:
        table.add_row(counted(len(order) - SHOWN, "shorter one"), style="dim")
    return table

"""The table of layers: those that matter most one by one, the rest as a sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

from syncline.report.quantity import counted, scaled, time

if TYPE_CHECKING:
    from syncline.result import Result

SHOWN = 8
"""Layers that are listed one by one."""


def layers(result: Result, width: int) -> Table | None:
    """The layers with the most exposed communication, then the most communication, then the most compute."""
    columns = result.table("layers")
    names = columns["layer"]
    if not names:
        return None
    keys = ("exposed_communication_s", "communication_s", "compute_s", "collective_bytes")
    rows = list(zip(*(columns[key] for key in keys), strict=True))
    order = sorted(range(len(names)), key=lambda index: (*(-value for value in rows[index][:3]), index))
    # One more layer takes no more room than "1 other layer".
    shown = order if len(order) <= SHOWN + 1 else order[:SHOWN]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("layer", overflow="fold")
    wide = width >= 72
    for heading in ("exposed", "communication", "compute", "bytes" if wide else ""):
        if heading:
            table.add_column(heading, justify="right", no_wrap=True)

    def add(name: str, values: tuple[float, ...], style: str | None = None) -> None:
        cells = [time(values[0]), time(values[1]), time(values[2])]
        table.add_row(name, *cells, *([scaled(values[3], "B")] if wide else []), style=style)

    for index in shown:
        add(names[index], rows[index])
    rest = order[len(shown) :]
    if rest:
        sums = tuple(sum(rows[index][column] for index in rest) for column in range(len(keys)))
        add(counted(len(rest), "other layer"), sums, "dim")
    return table

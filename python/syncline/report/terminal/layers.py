"""The table of layers: the most important layers, and the sum of the rest.

Equal layers share a row; in a model of many blocks, so do the layers of one kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import counted, scaled, time
from syncline.report.equal_rows import group_equal, group_label
from syncline.report.grouping import counted_kind, kinds, views
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.table import Table

    from syncline.run import Run

SHOWN = 8
"""Maximum number of rows: each is a layer, or several equal layers."""


def layers(result: Run, width: int) -> Table | None:
    """The layers with the most exposed communication, then the most communication, then the most compute.

    Equal layers share a row, which has their sums; in a model of many blocks (:func:`of_blocks`), so do the layers of
    one kind.
    """
    columns = result.table("layers")
    names = columns["layer"]
    if not names:
        return None
    keys = ("exposed_communication_s", "communication_s", "compute_s", "collective_bytes")
    layer = list(zip(names, *(columns[key] for key in keys), strict=True))
    label: Callable[[Sequence[str]], str] = group_label
    if of_blocks(result):
        groups, label = [[layer[row] for row in kind] for kind in kinds(names)], counted_kind
    else:
        groups = group_equal(layer, lambda each: each[0], lambda each: each[1:])
    rows = [(label([each[0] for each in group]), _sums(each[1:] for each in group), len(group)) for group in groups]
    # Sorting is stable: equal rows stay in the order of the model.
    rows.sort(key=lambda row: tuple(-value for value in row[1][:3]))
    # If one row is left over, it takes no more room than "1 other layer".
    shown = rows if len(rows) <= SHOWN + 1 else rows[:SHOWN]
    table = bare()
    table.add_column("layer", overflow="fold")
    wide = width >= 72
    for heading in ("exposed", "communication", "compute", "bytes" if wide else ""):
        if heading:
            table.add_column(heading, justify="right", no_wrap=True)

    def add(name: str, values: tuple[float, ...], style: str | None = None) -> None:
        cells = [time(values[0]), time(values[1]), time(values[2])]
        table.add_row(name, *cells, *([scaled(values[3], "B")] if wide else []), style=style)

    for name, values, _ in shown:
        add(name, values)
    if rest := rows[len(shown) :]:
        count = sum(each for *_, each in rest)
        add(counted(count, "other layer"), _sums(values for _, values, _ in rest), "dim")
    return table


def of_blocks(result: Run) -> bool:
    """Whether the layers form many blocks, which the report can also draw block by block."""
    return len(views(result.table("layers")["layer"])) > 1


def _sums(rows: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))

"""Prints errors of collectives on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from syncline.quantity import counted
from syncline.terminal.prose import lines
from syncline.terminal.table import of_numbers
from syncline.validation.collectives import KINDS, of_kind, repeats
from syncline.validation.outcome import Spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from syncline.validation.collectives import Group

_LEGEND = (
    "Errors are |predicted / measured - 1| in percent: median, mean, 90th percentile and largest. In sample: the "
    "constants of the machine, calibrated with these rows. Sizes out: constants from every second size predict the "
    "others; median / p90. GPUs out: constants from other numbers of GPUs predict this one; median / p90. Repeats: how "
    "far repeated measurements of one call are from their median. Simulated: simulations with the constants of the "
    "machine; median / p90. Narrow terminals leave out mean, largest and repeats."
)
_HEADINGS = (
    "machine",
    "operation",
    "GPUs",
    "rows",
    "median",
    "mean",
    "p90",
    "largest",
    "sizes out",
    "GPUs out",
    "repeats",
)
_SPARE = ("repeats", "mean", "largest")


def screen(groups: Sequence[Group], width: int) -> Iterator[RenderableType]:
    """The screen for a terminal of ``width`` columns."""
    simulated = any(group.errors("simulated") for group in groups)
    table = of_numbers(*_HEADINGS, *(["simulated"] if simulated else []), spare=_SPARE)
    table.columns[1].justify = "left"
    last = ""
    for group in groups:
        where = str(group.gpus) if group.nodes == 1 else f"{group.gpus} in {group.nodes} nodes"
        kinds = {kind: group.errors(kind) for kind in KINDS}
        table.add_row(
            group.machine if group.machine != last else "",
            group.operation,
            where,
            str(len(group.points)),
            *_cells(kinds, repeats([point.row for point in group.points]), simulated=simulated),
        )
        last = group.machine
    for nodes, what in ((True, "one node"), (False, "several nodes")):
        points = [point for group in groups if (group.nodes == 1) == nodes for point in group.points]
        if points:
            kinds = {kind: Spread.of(of_kind(points, kind)) for kind in KINDS}
            cells = _cells(kinds, repeats([point.row for point in points]), simulated=simulated)
            table.add_row(Text("all", "bold"), Text(what, "bold"), "", str(len(points)), *cells)
    yield table
    yield ""
    yield Text(lines(_LEGEND, width), "dim")
    if without := sorted({group.machine for group in groups if group.errors("in_sample") is None}):
        yield Text(
            lines(f"No constants in the package for {counted(len(without), 'machine')}: {', '.join(without)}.", width)
        )


def _cells(kinds: dict[str, Spread | None], spread: float | None, *, simulated: bool) -> list[str]:
    known, sizes, gpus, of_simulations = (kinds[kind] for kind in KINDS)
    return [
        *([_percent(each) for each in (known.median, known.mean, known.p90, known.largest)] if known else ["-"] * 4),
        *(_pair(each) for each in (sizes, gpus)),
        "-" if spread is None else _percent(spread),
        *([_pair(of_simulations)] if simulated else []),
    ]


def _pair(errors: Spread | None) -> str:
    return "-" if errors is None else f"{_percent(errors.median)} / {_percent(errors.p90)}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"

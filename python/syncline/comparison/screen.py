"""Prints a comparison on a terminal: the answer first, then the details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncline.comparison.facts import fact
from syncline.comparison.inputs import foremost, tally
from syncline.comparison.pairs import merge_equal_collectives, merge_equal_layers
from syncline.quantity import counted, digits, percent, signed, time, worth
from syncline.report import subject
from syncline.terminal import streams
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.comparison.comparison import Comparison
    from syncline.comparison.pairs import CostPair, LayerPair, Pair

LAYERS = 8
SETS = 8
PHASES = 5
"""Maximum number of rows of each table."""


def screen(found: Comparison, width: int) -> RenderableType:
    """The screen for a terminal of ``width`` columns."""
    return Group(*_parts(found, width))


def as_text(found: Comparison, width: int = 80) -> str:
    """The screen as text."""
    return streams.as_text(screen(found, width), width)


def _parts(found: Comparison, width: int) -> Iterator[RenderableType]:
    yield _titles(found)
    yield ""
    yield Text(lines(found.answer, width), "bold")
    for warning in found.warnings:
        yield Text(lines(f"Note: {warning}", width), "yellow")
    if found.identical and not found.changes:
        return
    if not found.identical:
        yield ""
        yield _step(found)
    yield ""
    yield from _inputs(found)
    if found.identical:
        return
    for title, table in (
        ("Parts of the critical path; making the largest one faster helps most", _path(found)),
        ("Cost of the networks, and training performance per dollar", _cost_table(found)),
        ("How much of the network is used", _dimensions(found)),
        ("Layers, in a step: compute and exposed communication, and how much each of the two changed", _layers(found)),
        ("Collectives, from first issue to last result", _collectives(found)),
        ("Phases of collectives, mean delays", _phases(found)),
        ("What else differs", _facts(found)),
    ):
        if table is not None:
            yield ""
            yield Text(title, "dim")
            yield table


def _titles(found: Comparison) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(overflow="fold")
    for letter, label, result in zip("AB", found.labels, (found.a, found.b), strict=True):
        table.add_row(Text(letter, "bold"), Text(label, "bold"), Text(", ".join(subject.facts(result)), "dim"))
    return table


def _table(*headings: str, spare: tuple[str, ...] = ()) -> Table:
    table = bare(spare)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=bool(number), overflow="fold")
    return table


def _texts(*headings: str) -> Table:
    table = bare()
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _ratio(pair: Pair) -> str:
    if pair.ratio is None or pair.ratio > 9_999:
        return "-"
    return f"{digits(pair.ratio)}x"


def _style(difference: float) -> str:
    return "green" if difference < 0 else "red" if difference > 0 else "dim"


def _cells(pair: Pair) -> list[RenderableType]:
    return [time(pair.a_s), time(pair.b_s), Text(signed(pair.difference_s), _style(pair.difference_s)), _ratio(pair)]


def _step(found: Comparison) -> Table:
    table = _table("", "A", "B", "difference", "B / A")
    # A job of communication alone has only one part.
    parts = found.parts if any(each.summary.compute_s for each in (found.a, found.b)) else found.parts[:1]
    for number, each in enumerate(parts):
        name = each.name if number else _whole(found)
        table.add_row(f"  {name}" if number else Text(name, "bold"), *_cells(each))
    for each in found.per_work:
        table.add_row(f"for {each.name}", *_cells(each))
    return table


def _cost_table(found: Comparison) -> Table | None:
    if not found.cost_and_performance:
        return None
    table = _table("", "A", "B", "difference", "B / A")
    for each in found.cost_and_performance:
        table.add_row(*_cost_row(each))
    return table


def _cost_row(each: CostPair) -> list[RenderableType]:
    """A row about the cost of the fabric or performance per dollar; green if it got better: cheaper, or faster."""
    difference = each.difference
    cell = Text("-", "dim")
    if difference is not None:
        better = difference if each.key.startswith("iterations") else -difference
        cell = Text(worth(each.key, difference, signed=True), _style(-better))
    ratio = "-" if each.ratio is None else f"{digits(each.ratio)}x"
    return [each.name, worth(each.key, each.a), worth(each.key, each.b), cell, ratio]


def _whole(found: Comparison) -> str:
    summaries = (found.a.summary, found.b.summary)
    if not all(each.iterations for each in summaries):
        return "time so far"
    return "step time" if any(each.compute_s for each in summaries) else "time"


def _inputs(found: Comparison) -> Iterator[RenderableType]:
    if found.changes is None:
        return
    if not found.changes:
        yield Text("Inputs: the same, key by key", "dim")
        return
    yield Text(f"Inputs differ in {tally(found.changes)}", "dim")
    shown, more = foremost(found.changes)
    table = _texts("key", "A", "B")
    table.columns[0].min_width = min(max(len(each.key) for each in shown), 44)
    for each in shown:
        key = Text.assemble(each.key, (f"\n  in {each.where}" if each.entries else "", "dim"))
        example = "" if each.uniform else ", ..."
        factor = "" if each.uniform or not each.factor else f"\nall times {each.factor:g}"
        cells = (f"{each.a}{example}", f"{each.b}{example}{factor}")
        table.add_row(key, *cells, style=None if each.decides else "dim")
    yield table
    if more:
        yield Text(f"and {counted(more, 'other key')} (--json lists all)", "dim")


def _moved(pair: tuple[float | None, float | None]) -> str:
    return " to ".join(percent(each) for each in pair if each is not None)


def _dimensions(found: Comparison) -> Table | None:
    if not found.dimensions:
        return None
    table = _table("dimension", "whole run", "while busy", "busiest link", spare=("busiest link",))
    for each in found.dimensions:
        a, b = each.utilization
        only = "" if a is not None and b is not None else f"  only in {'B' if a is None else 'A'}"
        shares = (each.utilization, each.utilization_while_busy, each.busiest_link_busy)
        table.add_row(Text.assemble(each.name, (only, "dim")), *map(_moved, shares))
    return table


def _path(found: Comparison) -> Table | None:
    if not found.critical_path:
        return None
    table = _table("part", "A", "B")
    for each in found.critical_path:
        table.add_row(each.name, *(f"{share / 10:.1f} %" for share in (each.a, each.b)))
    return table


def _layers(found: Comparison) -> Table | None:
    groups = merge_equal_layers(found.layers, found.step.difference_s)
    rows = [each for each in groups if each.compute.difference_s or each.exposed.difference_s or each.only]
    if not rows or not (found.a.summary.compute_s or found.b.summary.compute_s):
        return None
    table = _table("layer", "A", "B", "compute", "exposed", "of all", spare=("exposed", "compute"))
    shown = rows if len(rows) <= LAYERS + 1 else rows[:LAYERS]

    def add(name: Text | str, each: list[LayerPair], style: str | None = None) -> None:
        seconds = [sum(getattr(layer.whole, side) for layer in each) for side in ("a_s", "b_s")]
        moved = [sum(getattr(layer, part).difference_s for layer in each) for part in ("compute", "exposed")]
        share = "-" if each[0].share is None else f"{100 * sum(layer.share or 0.0 for layer in each):.1f} %"
        differences = [Text(signed(value), style or _style(value)) for value in moved]
        table.add_row(name, *map(time, seconds), *differences, share, style=style)

    for each in shown:
        add(Text.assemble(each.name, (f"  only in {each.only.upper()}" if each.only else "", "dim")), [each])
    if rest := rows[len(shown) :]:
        add(counted(sum(each.count for each in rest), "other layer"), rest, "dim")
    return table


def _collectives(found: Comparison) -> Table | None:
    """The table of collectives; None for jobs that compute, for which the table of layers shows more."""
    rows = [each for each in merge_equal_collectives(found.collectives) if each.duration.difference_s or each.only]
    if not rows or found.a.summary.compute_s or found.b.summary.compute_s:
        return None
    table = _table("collective", "A", "B", "difference", "B / A")
    shown = rows if len(rows) <= SETS + 1 else rows[:SETS]
    for each in shown:
        name = Text.assemble(each.name, (f"  only in {each.only.upper()}" if each.only else "", "dim"))
        table.add_row(name, *_cells(each.duration))
    if len(rows) > len(shown):
        table.add_row(f"and {len(rows) - len(shown)} others", style="dim")
    return table


def _phases(found: Comparison) -> Table | None:
    rows = [
        each
        for each in found.phases
        if each.only or any(pair.difference_s for pair in (each.queue, each.network, each.reduction))
    ]
    if not rows:
        return None
    table = _table("phase", "queue A", "B", "network A", "B")
    shown = rows if len(rows) <= PHASES + 1 else rows[:PHASES]
    for each in shown:
        sides = [
            "-" if each.only and each.only != side else time(getattr(pair, f"{side}_s"))
            for pair in (each.queue, each.network)
            for side in ("a", "b")
        ]
        table.add_row(each.name, *sides)
    if len(rows) > len(shown):
        table.add_row(f"and {counted(len(rows) - len(shown), 'other phase')}", style="dim")
    return table


def _facts(found: Comparison) -> Table | None:
    if not found.facts:
        return None
    table = _texts("", "A", "B")
    for each in found.facts:
        table.add_row(each.name, *(fact(each.key, value) for value in (each.a, each.b)))
    return table

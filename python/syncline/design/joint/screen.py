"""Prints the results of a search for strategy and topology on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.design.joint.sentences import answer, models, strategy_rows, topology
from syncline.input.units import bytes_per_s
from syncline.quantity import digits, money, rate, time
from syncline.terminal.prose import lines
from syncline.terminal.table import of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from syncline.design.joint.answer import Found

OPERATORS = 8
"""Maximum number of rows of the strategy."""


def screen(found: Found, width: int) -> RenderableType:
    """The screen for a terminal of ``width`` columns."""
    return Group(*_parts(found, width))


def _parts(found: Found, width: int) -> Iterator[RenderableType]:
    spec = found.request.spec
    model = found.request.model
    subject = f"{model.name} on {spec.servers} servers of {spec.server.accelerators} {found.request.accelerator.name}"
    yield Text.assemble((found.request.name, "bold"), (f"  {subject}", "dim"))
    yield ""
    yield Text(lines(answer(found), width), "bold")
    yield ""
    yield _comparison(found)
    yield ""
    yield Text(lines(topology(found), width))
    yield ""
    yield Text("Strategy, by kind of operator", "dim")
    yield _strategy(found)
    yield ""
    yield Text(lines(models(found), width), "dim")
    for note in found.notes:
        yield Text(lines(f"Note: {note}", width), "dim")


def _comparison(found: Found) -> Table:
    first = "data parallel" if found.answer.data_parallel_fits else found.start_name
    table = of_numbers("network", "per server", "price", "step", first, "relative", spare=(first, "per server"))
    spec, best = found.request.spec, found.answer
    total_rate = spec.degree * bytes_per_s(spec.link)
    table.add_row("direct links", rate(total_rate), money(found.usd), time(best.step_s), time(found.start_s), "")
    for each in found.others:
        usd, start_s = each.baseline.usd, each.answer.start_s
        table.add_row(
            each.baseline.title,
            rate(each.baseline.rate / 8),
            "-" if usd is None else money(usd),
            time(each.answer.step_s),
            "-" if start_s is None else time(start_s),
            f"{digits(each.answer.step_s / best.step_s)}x",
        )
    return table


def _strategy(found: Found) -> Table:
    table = of_numbers("operators", "number", "batch splits", "parameter splits", "servers", spare=("number",))
    rows = strategy_rows(found)
    for row in rows[:OPERATORS]:
        table.add_row(*row)
    if len(rows) > OPERATORS:
        table.add_row(f"{len(rows) - OPERATORS} more in design.json", "", "", "", "")
    return table

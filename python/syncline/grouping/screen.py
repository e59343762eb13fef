"""Prints groups of hosts on a terminal."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.grouping.heat_map import heat_map, shown
from syncline.quantity import counted, digits, percent
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from syncline.grouping.grouping import Grouping

LISTED = 8
"""Most hosts of a group that are listed."""


def screen(found: Grouping, width: int) -> RenderableType:
    """The screen for a terminal of ``width`` columns."""
    return Group(*_parts(found, width))


def answer(found: Grouping) -> str:
    """The result in one or two sentences."""
    if not found.found:
        return (
            "No structure found: the measurements do not show that some hosts are nearer to each other than others. "
            "They may all be in one rack, or noise may hide the racks."
        )
    sizes = sorted(len(group) for group in found.members)
    of = f"{sizes[0]}" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
    return f"{counted(found.count, 'group')} of {of} hosts."


def certainty(found: Grouping) -> str:
    """How sure the groups are, in a sentence."""
    return (
        f"A pair in one group is nearer than a pair of two groups with probability {percent(found.score)}, on "
        f"measurements that did not help to place the hosts (p = {found.p_value:.1g}). Agreement with Ward's method "
        f"(adjusted Rand index): {digits(found.agreement)}."
    )


def _parts(found: Grouping, width: int) -> Iterator[RenderableType]:
    subject = f"{counted(len(found.hosts), 'host')}, {counted(len(found.values), 'measured pair')}"
    yield Text.assemble((found.source or "measurements", "bold"), (f"  {subject}", "dim"))
    yield ""
    yield Text(lines(answer(found), width), "bold")
    if not found.found:
        return
    yield Text(lines(certainty(found), width))
    yield ""
    yield _table(found)
    yield ""
    order = [host for group in found.members for host in group]
    yield from heat_map(found.values, order, found.by, width, ordered="in the order of groups")


def _table(found: Grouping) -> Table:
    what = "round trip" if found.by == "rtt" else "rate"
    table = bare()
    for heading in ("group", "hosts"):
        table.add_column(heading, justify="right")
    table.add_column(f"median {what}", justify="right")
    table.add_column("names", overflow="fold")
    for number, group in enumerate(found.members):
        own = set(group)
        inside = [value for (a, b), value in found.values.items() if a in own and b in own]
        names = [found.hosts[host] for host in group[:LISTED]]
        more = [f"and {len(group) - LISTED} more"] if len(group) > LISTED else []
        table.add_row(
            f"{number}",
            f"{len(group)}",
            shown(median(inside) if inside else None, found.by),
            ", ".join([*names, *more]),
        )
    table.add_row("all", f"{len(found.hosts)}", shown(found.inside, found.by), "inside groups")
    table.add_row("", "", shown(found.between, found.by), "between groups")
    return table

"""Prints groups of hosts on a terminal."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.quantity import counted, digits, percent, rate, time
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from syncline.grouping.grouping import Grouping

CELLS = 32
"""Most rows and columns of the heat map; of more hosts, a cell is the median of several."""
LISTED = 8
"""Most hosts of a group that are listed."""
SHADES = "█▓▒░ "
"""Characters of the heat map, from near to far. Each is printed twice, because characters are twice as high as wide."""


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
    yield from _heat_map(found, width)


def _shown(found: Grouping, value: float | None) -> str:
    return "-" if value is None else time(value) if found.by == "rtt" else rate(value)


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
            f"{number}", f"{len(group)}", _shown(found, median(inside) if inside else None), ", ".join([*names, *more])
        )
    table.add_row("all", f"{len(found.hosts)}", _shown(found, found.inside), "inside groups")
    table.add_row("", "", _shown(found, found.between), "between groups")
    return table


def _heat_map(found: Grouping, width: int) -> Iterator[Text]:
    """Medians of the values of hosts, in the order of groups, as shaded cells with a legend."""
    order = [host for group in found.members for host in group]
    cells = min(CELLS, len(order), max((width - 2) // 2, 1))
    cell = {host: at * cells // len(order) for at, host in enumerate(order)}
    values: dict[tuple[int, int], list[float]] = {}
    for (a, b), value in found.values.items():
        x, y = cell[a], cell[b]
        values.setdefault((x, y), []).append(value)
        if x != y:
            values.setdefault((y, x), []).append(value)
    medians = {place: median(each) for place, each in values.items()}
    ranked = sorted(medians.values())
    near, far = (ranked[round(share * (len(ranked) - 1))] for share in (0.02, 0.98))
    near, far = (near, far) if found.by == "rtt" else (far, near)
    # Even steps of the logarithm: what noise does to a value is relative.
    bounds = [near * (far / near) ** (step / len(SHADES)) for step in range(1, len(SHADES))]

    def shade(value: float | None) -> str:
        if value is None:
            return "·"
        beyond = sum(value > bound if found.by == "rtt" else value < bound for bound in bounds)
        return SHADES[beyond]

    what = "Round trips" if found.by == "rtt" else "Rates"
    yield Text(f"{what} between hosts, in the order of groups", "dim")
    for row in range(cells):
        yield Text("".join(2 * shade(medians.get((row, column))) for column in range(cells)))
    ends = [_shown(found, bound) for bound in bounds]
    sign = "up to" if found.by == "rtt" else "from"
    legend = [f"{SHADES[at]}{SHADES[at]} {sign} {end}" for at, end in enumerate(ends)]
    rest = "more" if found.by == "rtt" else "less"
    yield Text(lines(f"{', '.join(legend)}, blank {rest}, ·· not measured", width), "dim")

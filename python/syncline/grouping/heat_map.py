"""Heat maps made of characters: what was measured between hosts, with near hosts beside each other."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from rich.text import Text

from syncline.quantity import rate, time
from syncline.terminal.prose import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from syncline.distances.summary import By

CELLS = 32
"""Most rows and columns; of more hosts, a cell is the median of several."""
SHADES = "█▓▒░ "
"""Characters from near to far. Each is printed twice, because characters are twice as high as wide."""


def shown(value: float | None, by: By) -> str:
    """A round trip or a rate for people; ``-`` for None."""
    return "-" if value is None else time(value) if by == "rtt" else rate(value)


def heat_map(
    values: Mapping[tuple[int, int], float],
    order: Sequence[int],
    by: By,
    width: int,
    *,
    ordered: str,
    names: Sequence[str] | None = None,
) -> Iterator[Text]:
    """Shaded cells for hosts in an order, with a legend, for ``width`` columns.

    ``ordered`` says what the order is. ``names`` has a name for each host, which its row begins with if every host has
    a row and there is room.
    """
    cells = min(CELLS, len(order), max((width - 2) // 2, 1))
    titles = [""] * cells
    if names is not None and cells == len(order):
        longest = max(map(len, names))
        if longest + 1 + 2 * cells <= width:
            titles = [f"{names[host]:>{longest}} " for host in order]
    cell = {host: at * cells // len(order) for at, host in enumerate(order)}
    found: dict[tuple[int, int], list[float]] = {}
    for (a, b), value in values.items():
        x, y = cell[a], cell[b]
        found.setdefault((x, y), []).append(value)
        if x != y:
            found.setdefault((y, x), []).append(value)
    medians = {place: median(each) for place, each in found.items()}
    ranked = sorted(medians.values())
    near, far = (ranked[round(share * (len(ranked) - 1))] for share in (0.02, 0.98))
    near, far = (near, far) if by == "rtt" else (far, near)
    # Even steps of the logarithm: what noise does to a value is relative.
    bounds = [near * (far / near) ** (step / len(SHADES)) for step in range(1, len(SHADES))]

    def shade(row: int, column: int) -> str:
        value = medians.get((row, column))
        if value is None:
            return "\\" if row == column and cells == len(order) else "·"
        beyond = sum(value > bound if by == "rtt" else value < bound for bound in bounds)
        return SHADES[beyond]

    what = "Round trips" if by == "rtt" else "Rates"
    yield Text(f"{what} between hosts, {ordered}", "dim")
    for row in range(cells):
        yield Text(titles[row] + "".join(2 * shade(row, column) for column in range(cells)))
    ends = [shown(bound, by) for bound in bounds]
    sign = "up to" if by == "rtt" else "from"
    legend = [f"{SHADES[at]}{SHADES[at]} {sign} {end}" for at, end in enumerate(ends)]
    rest = "more" if by == "rtt" else "less"
    yield Text(lines(f"{', '.join(legend)}, blank {rest}, ·· not measured", width), "dim")

"""The table of collectives, for a workload of collectives alone; and the plans that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import counted, percent, rate, size, time
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from rich.table import Table

    from syncline.run import Run

SHOWN = 8
"""Maximum number of rows. Collectives with equal cells share a row."""


def plans(result: Run) -> str:
    """The algorithms that run, such as ``all_reduce by ring reduce_scatter + ring all_gather (chosen)``.

    Lists the plan of the largest collective of each kind, and how many other plans there are. Empty if the run has no
    collectives. Older run folders may lack the column ``chosen``.
    """
    columns = result.table("collectives")
    chosen = columns.get("chosen") or [False] * len(columns["kind"])
    largest: dict[str, dict[tuple[str, bool], int]] = {}
    rows = zip(columns["kind"], columns["algorithm"], chosen, columns["size_bytes"], strict=True)
    for kind, algorithm, own, nbytes in rows:
        if algorithm:
            sizes = largest.setdefault(kind, {})
            sizes[algorithm, own] = max(nbytes, sizes.get((algorithm, own), 0))
    said = []
    for kind, sizes in largest.items():
        algorithm, own = max(sizes, key=sizes.__getitem__)
        others = f", smaller ones by {counted(len(sizes) - 1, 'other plan')}" if len(sizes) > 1 else ""
        said.append(f"{kind} by {algorithm.removesuffix(f' {kind}')}{' (chosen)' if own else ''}{others}")
    return "; ".join(said)


def collectives(result: Run) -> Table | None:
    """The longest collectives with their bandwidths, and their bound as a fraction of their time.

    With several jobs, each row names its job; older run folders may lack that column.
    """
    columns = result.table("collectives")
    kinds = columns["kind"]
    if not kinds:
        return None
    order = sorted(range(len(kinds)), key=lambda index: (-columns["duration_s"][index], index))
    jobs = columns.get("job") if result.summary.jobs else None
    table = bare(spare=("of the bound", "size"))
    if jobs:
        table.add_column("job", overflow="fold")
    table.add_column("collective", overflow="fold")
    for heading in ("size", "time", "bus bandwidth", "of the bound"):
        table.add_column(heading, justify="right", no_wrap=True)
    alike: dict[tuple[str, ...], int] = {}
    for index in order:
        duration, bound = columns["duration_s"][index], columns["bound_s"][index]
        cells = [
            size(columns["size_bytes"][index]),
            time(duration),
            rate(columns["bus_bytes_per_s"][index]),
            percent(bound / duration) if duration else "",
        ]
        row = (jobs[index] if jobs else "", kinds[index], *cells)
        alike[row] = alike.get(row, 0) + 1
    rows = list(alike.items())
    cut = SHOWN if len(rows) > SHOWN + 1 else len(rows)
    for (job, kind, *cells), count in rows[:cut]:
        table.add_row(*([job] if jobs else []), f"{kind} x{count}" if count > 1 else kind, *cells)
    if others := sum(count for _, count in rows[cut:]):
        table.add_row(counted(others, "shorter one"), style="dim")
    return table

"""The table of what NCCL chose for collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import counted, size, time
from syncline.report.nccl_choices import choices
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from rich.table import Table

    from syncline.run import Run

SHOWN = 8
"""Maximum number of rows."""


def nccl(result: Run) -> Table | None:
    """NCCL's choices by group, operation and size; None without a calibrated NCCL."""
    found = choices(result.table("collectives"))
    if not found:
        return None
    table = bare(spare=("channels", "calls"))
    table.add_column("group", overflow="fold")
    table.add_column("collective", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("NCCL", no_wrap=True)
    for heading in ("channels", "calls", "alone", "in the run"):
        table.add_column(heading, justify="right", no_wrap=True)
    cut = SHOWN if len(found) > SHOWN + 1 else len(found)
    for each in found[:cut]:
        table.add_row(
            f"{each.group} ({each.ranks})",
            each.kind,
            size(each.nbytes),
            f"{each.algorithm} {each.protocol}".rstrip() if each.algorithm else "unknown",
            each.channels,
            str(each.calls),
            time(each.alone_s) if each.algorithm else "",
            time(each.mean_s),
        )
    if others := len(found) - cut:
        table.add_row(counted(others, "other kind"), style="dim")
    return table

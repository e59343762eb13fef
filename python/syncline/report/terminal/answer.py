"""The screen that ``simulate`` prints: the step time, what it is spent on and why, and how it was obtained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from syncline.quantity import percent, scaled, time
from syncline.report import subject
from syncline.report.terminal.collectives import collectives, plans
from syncline.report.terminal.layers import layers, of_blocks
from syncline.report.terminal.nccl import nccl
from syncline.terminal import streams
from syncline.terminal.bar import bar
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.run import Run
    from syncline.summary import Summary


def answer(result: Run, width: int, *, ascii_only: bool = False) -> RenderableType:
    """The screen for a terminal of ``width`` columns."""
    return Group(*_parts(result, width, ascii_only=ascii_only))


def as_text(result: Run, width: int = 80) -> str:
    """The screen as text."""
    return streams.as_text(answer(result, width), width)


def _parts(result: Run, width: int, *, ascii_only: bool) -> Iterator[RenderableType]:
    summary = result.summary
    yield _title(result)
    if summary.ended != "finished":
        yield Text(subject.ENDED[summary.ended], "bold yellow")
    if not summary.iterations:
        yield Text(subject.NO_STEP, "bold yellow")
    yield ""
    yield Padding(_times(summary, width, ascii_only=ascii_only), (0, 0, 0, 2))
    if summary.overload:
        yield Text(subject.overload(summary), "yellow")
    for work in subject.work(summary):
        yield Padding(Text(work), (0, 0, 0, 2))
    if summary.jobs:
        yield ""
        yield Padding(jobs(summary), (0, 0, 0, 2))
    if summary.dims:
        yield ""
        yield Padding(_dimensions(summary, width, ascii_only=ascii_only), (0, 0, 0, 2))
    yield ""
    bottleneck = Text.assemble("Bottleneck: ", (summary.bottleneck.name, "bold"))
    yield bottleneck.append(f". {summary.reason}")
    if summary.cost_usd is not None:
        said = Text(subject.cost(summary))
        if worth := subject.values(summary):
            said.append(" Performance: ").append(worth, "bold").append(".")
        yield said
    if summary.packets:
        yield Text(subject.packets(summary))
    if worst := subject.worst_ports(result):
        yield Text(worst)
    yield Text(
        f"Models: network {summary.network_model}, compute {summary.compute_model}; {subject.calibration(summary)}",
        "dim",
    )
    if algorithms := plans(result):
        yield Text(f"Plans: {algorithms}", "dim")
    if summary.faults:
        yield Text(subject.faults(summary), "yellow")
    some = subject.simulated(summary)
    if some:
        yield Text(f"Simulated: {', '.join(some)}; the others do the same (--no-symmetry simulates all)", "dim")
    for note in summary.notes:
        yield Text(f"Note: {note}", "dim")
    choices = nccl(result)
    if choices is not None:
        yield ""
        yield choices
    details = layers(result, width) if summary.compute_s > 0 else collectives(result)
    if details is not None:
        yield ""
        if summary.compute_s > 0:
            each = ("per step of its job" if summary.jobs else "per step") if summary.iterations else "so far"
            rows = "all blocks together" if of_blocks(result) else "equal ones share a row"
            yield Text(f"Layers, {each} ({rows}); communication may overlap other work", "dim")
        yield details


def _title(result: Run) -> Text:
    return Text.assemble((subject.name(result), "bold"), (f"  {', '.join(subject.facts(result))}", "dim"))


def _times(summary: Summary, width: int, *, ascii_only: bool) -> Table:
    bars = max(min(width - 56, 30), 0)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    if bars:
        table.add_column(no_wrap=True)
    steps = max(summary.iterations, 1)

    def row(name: str, seconds: float, style: str = "", *, head: bool = False) -> None:
        share = seconds / summary.total_time_s if summary.total_time_s else 0.0
        cells: list[RenderableType] = [Text(name, style), Text(time(seconds / steps), style)]
        cells.append("" if head else percent(share))
        if bars:
            cells.append("" if head else Text(bar(share, bars, ascii_only=ascii_only), style or "blue"))
        table.add_row(*cells)

    whole = "step time" if summary.compute_s and not summary.jobs else "time"
    row(whole if summary.iterations else "time so far", summary.total_time_s, "bold", head=True)
    if summary.compute_s:
        row("  compute", summary.compute_s, "green")
        row("  exposed communication", summary.exposed_communication_s, "red")
        for name, seconds in subject.axes(summary):
            row(f"    {name}", seconds, "red")
        for name, seconds, style in (
            ("bubble", summary.bubble_s, "magenta"),
            ("skew", summary.skew_s, "magenta"),
            ("idle", summary.idle_s, "dim"),
        ):
            # A smaller amount is rounding error.
            if seconds > 1e-9 * summary.total_time_s:
                row(f"  {name}", seconds, style)
    if summary.exposed_memory_s:
        row("  exposed memory", summary.exposed_memory_s, "yellow")
    if summary.compute_s and summary.communication_s:
        row("communication under way", summary.communication_s)
    return table


def jobs(summary: Summary) -> Table:
    """A table of several jobs: step time, exposed communication, and slowdown by the other jobs."""
    table = bare()
    table.add_column("job", overflow="fold", min_width=9)
    for heading in ("ranks", "steps", "start", "step time", "exposed", "alone", "slowdown"):
        table.add_column(heading, justify="right", no_wrap=True)
    for job in summary.jobs:
        table.add_row(
            job.name,
            str(job.ranks),
            str(job.iterations),
            time(job.start_s),
            time(job.step_time_s),
            percent(job.exposed_fraction),
            "-" if job.alone_step_time_s is None else time(job.alone_step_time_s),
            "-" if job.slowdown is None else f"{job.slowdown:.3f}",
        )
    return table


def _dimensions(summary: Summary, width: int, *, ascii_only: bool) -> Table:
    names = min(max([9, *(len(dim.name) for dim in summary.dims)]), 20)
    bars = max(min(width - 49 - names, 30), 0)
    table = bare()
    table.add_column("dimension", overflow="fold", min_width=names)
    table.add_column("utilisation", justify="right", no_wrap=True)
    if bars:
        table.add_column("", no_wrap=True)
    table.add_column("while busy", justify="right", no_wrap=True)
    table.add_column("carried", justify="right", no_wrap=True)
    for dim in summary.dims:
        bound = dim.name == summary.bottleneck.tier
        cells: list[RenderableType] = [Text(dim.name, "bold" if bound else ""), percent(dim.utilization)]
        if bars:
            cells.append(Text(bar(dim.utilization, bars, ascii_only=ascii_only), "red" if bound else "blue"))
        # Traffic without a dimension of its own has no busy time.
        while_busy = percent(dim.utilization_while_busy) if dim.utilization_while_busy or not dim.carried_bytes else "-"
        table.add_row(*cells, while_busy, scaled(dim.carried_bytes, "B"))
    return table

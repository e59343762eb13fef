"""Figure 9: round-trip times of the connections in the all-reduces of Figure 7, median and tail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.all_reduce import (
    CHOICES,
    NETWORKS,
    SIZES,
    Grid,
    Single,
    cases,
    column,
    configurations,
    lost,
)
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from syncline.quantity import time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

SHOOTS_UP = Claim(
    "dlrm-fig09",
    "Fig. 9, obs. 1",
    "A2A, 64 MB of switch buffer: from 8 MB to 16 MB the average round-trip time shoots up.",
)


def measure(runner: Runner) -> Findings:
    """Takes the percentiles of the round-trip times of every run."""
    grid = Grid(runner)
    tables = [
        grid.table("rtt_p50", f"Round-trip time, 50th percentile {_OVER}", "_s", lambda run: run.packets.rtt_p50_s),
        grid.table("rtt_p99", f"Round-trip time, 99th percentile {_OVER}", "_s", lambda run: run.packets.rtt_p99_s),
    ]
    return Findings(tables, [_shoots_up(grid)])


_OVER = "over connections; each takes one sample a millisecond and averages its samples"


def _mean(run: Single) -> float:
    return run.packets.rtt_mean_s


def _shoots_up(grid: Grid) -> Verdict:
    first, second = (grid["A2A", "64 MB", size] for size in SIZES[:2])
    times = second.median(_mean) / first.median(_mean)
    return SHOOTS_UP.judged(
        times >= 2,
        f"{first.said(_mean, time)} at 8 MB, {second.said(_mean, time)} at 16 MB: {times:.3g} times",
        f"At 16 MB: {lost(second)} A round trip includes the wait in the sender's own queue, which contains a window "
        "for each other node. That queue grows until windows are full, whether or not the switch has a queue.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the median on the left, the 99th percentile on the right."""
    figure, panels = plot.new(2, height=3.0, sharey=True)
    for axes, name in zip(panels, ("rtt_p50", "rtt_p99"), strict=True):
        table = findings.table(name)
        x = table.column("size_bytes")
        for index, (algorithm, buffer) in enumerate(configurations()):
            values = [1e6 * value for value in table.column(column(algorithm, buffer, "_s"))]
            plot.line(axes, x, values, f"{algorithm}, {buffer}", index)
        axes.set_yscale("log")
        plot.decimal_ticks(axes.yaxis)
        axes.set_title(name.replace("rtt_", ""))
        plot.sizes_below(axes, x)
    panels[0].set_ylabel("round-trip time [µs]")
    panels[0].legend()
    figure.supxlabel("size of the all-reduce", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "round-trip times, median and 99th percentile, of the all-reduces of Figure 7",
    (SHOOTS_UP,),
    measure,
    draw,
    CHOICES,
    NETWORKS,
    cases,
)

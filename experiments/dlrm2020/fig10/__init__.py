"""Figure 10: mean round-trip times, and retransmitted packets, in the all-reduces of Figure 7."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.all_reduce import (
    CHOICES,
    NETWORKS,
    SIZES,
    Grid,
    again,
    cases,
    column,
    configurations,
    lost,
    of_magnitude,
    timeouts,
    whole,
)
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

AGAIN = Claim(
    "dlrm-04",
    "Fig. 10, obs. 1",
    "A2A, 64 MB of switch buffer, 8 MB: 907 packets are sent again, and there is no RTO.",
)
SHOOTS_UP = Claim(
    "dlrm-fig10",
    "Fig. 10, obs. 1",
    "A2A, 64 MB of switch buffer: from 8 MB to 16 MB the number of retransmissions shoots up.",
)


def measure(runner: Runner) -> Findings:
    """Takes the mean round-trip times and the retransmissions of every run."""
    grid = Grid(runner)
    tables = [
        grid.table(
            "rtt_mean",
            "Round-trip time, mean over connections; each takes one sample a millisecond and averages its samples",
            "_s",
            lambda run: run.packets.rtt_mean_s,
        ),
        grid.table("retransmissions", "Segments sent again, over all connections", "", again),
    ]
    return Findings(tables, [_again(grid), _shoots_up(grid)])


def _again(grid: Grid) -> Verdict:
    draws = grid["A2A", "64 MB", SIZES[0]]
    return AGAIN.judged(
        of_magnitude(draws.median(again), 907) and draws.median(timeouts) == 0,
        f"{draws.said(again, whole)} sent again, {draws.said(timeouts, whole)} time-outs",
        lost(draws),
    )


def _shoots_up(grid: Grid) -> Verdict:
    first, second = (grid["A2A", "64 MB", size] for size in SIZES[:2])
    before, after = first.median(again), second.median(again)
    return SHOOTS_UP.judged(
        after > 0 and after >= 2 * before,
        f"{first.said(again, whole)} at 8 MB, {second.said(again, whole)} at 16 MB",
        f"At 16 MB: {lost(second)}",
    )


def draw(findings: Findings) -> Figure:
    """Draws retransmissions above, mean round-trip times below."""
    trips, repairs = findings.table("rtt_mean"), findings.table("retransmissions")
    figure, (above, below) = plot.new(1, 2, height=4.6, sharex=True)
    x = trips.column("size_bytes")
    for index, (algorithm, buffer) in enumerate(configurations()):
        label = f"{algorithm}, {buffer}"
        plot.line(above, x, repairs.column(column(algorithm, buffer, "")), label, index)
        values = [1e6 * value for value in trips.column(column(algorithm, buffer, "_s"))]
        plot.line(below, x, values, label, index)
    above.set_yscale("symlog", linthresh=1)
    below.set_yscale("log")
    for axes in (above, below):
        plot.decimal_ticks(axes.yaxis)
    above.set_ylabel("packets sent again")
    below.set_ylabel("mean round-trip time [µs]")
    plot.sizes_below(below, x)
    above.legend(ncols=2)
    figure.supxlabel("size of the all-reduce", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "mean round-trip times and retransmissions of the all-reduces of Figure 7",
    (AGAIN, SHOOTS_UP),
    measure,
    draw,
    CHOICES,
    NETWORKS,
    cases,
)

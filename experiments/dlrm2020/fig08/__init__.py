"""Figure 8: how much of the links the all-reduces of Figure 7 use, and how often senders time out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.dlrm2020.all_reduce import (
    CHOICES,
    NETWORKS,
    SIZES,
    Grid,
    cases,
    column,
    configurations,
    lost,
    near,
    of_magnitude,
    timeouts,
    used,
    whole,
)
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from syncline.quantity import percent, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

USED = Claim("dlrm-03", "Fig. 8", "A2A, 64 MB of switch buffer, 8 MB: the average link utilisation is 81 %.")
TIMEOUTS = Claim("dlrm-06", "obs. 1", "A2A, 64 MB of switch buffer, 16 MB: there are 997 RTO events.")
HANDFUL = Claim(
    "dlrm-08",
    "obs. 2",
    "64 MB of switch buffer, 32 MB: 5 RTO events collapse the utilisation of DBT; A2A has 2000, and slightly less "
    "utilisation.",
)
HALF = Claim("dlrm-10", "obs. 3", "A2A, 1 GB of switch buffer, 256 MB: the link utilisation falls to 52 %.")


def measure(runner: Runner) -> Findings:
    """Takes the utilisation and the time-outs of every run."""
    grid = Grid(runner)
    tables = [
        grid.table(
            "utilization",
            "Bytes on the wire, including headers and acknowledgements, over what all links could have carried",
            "_fraction",
            used,
        ),
        grid.table("timeouts", "Retransmission time-outs (RTO) of all connections", "", timeouts),
    ]
    return Findings(tables, [_used(grid), _timeouts(grid), _handful(grid), _half(grid)])


def _used(grid: Grid) -> Verdict:
    draws = grid["A2A", "64 MB", SIZES[0]]
    return USED.judged(near(draws.median(used), 0.81), draws.said(used, percent), lost(draws))


def _timeouts(grid: Grid) -> Verdict:
    draws = grid["A2A", "64 MB", SIZES[1]]
    like = of_magnitude(draws.median(timeouts), 997)
    return TIMEOUTS.judged(like, f"{draws.said(timeouts, whole)} time-outs", lost(draws))


def _handful(grid: Grid) -> Verdict:
    tree, direct = (grid[algorithm, "64 MB", SIZES[2]] for algorithm in ("DBT", "A2A"))
    like = of_magnitude(tree.median(timeouts), 5) and of_magnitude(direct.median(timeouts), 2000)
    collapsed = direct.median(used) <= tree.median(used) < 0.5
    return HANDFUL.judged(
        like and collapsed,
        f"DBT {tree.said(timeouts, whole)} time-outs, {tree.said(used, percent)} used; "
        f"A2A {direct.said(timeouts, whole)}, {direct.said(used, percent)}",
        f"DBT: {lost(tree)} Such a sender delays all nodes that depend on it, up the tree and down again. "
        f"A2A: {lost(direct)}",
    )


def _half(grid: Grid) -> Verdict:
    draws = grid["A2A", "1 GB", grid.sizes[-1]]
    return HALF.judged(
        near(draws.median(used), 0.52), f"{draws.said(used, percent)} at {size(grid.sizes[-1])}", lost(draws)
    )


def draw(findings: Findings) -> Figure:
    """Draws utilisation as bars, time-outs above them."""
    links, losses = findings.table("utilization"), findings.table("timeouts")
    figure, (above, below) = plot.new(1, 2, height=4.6, sharex=True)
    plot.grouped(
        below,
        {
            f"{algorithm}, {buffer}": [100 * each for each in links.column(column(algorithm, buffer, "_fraction"))]
            for algorithm, buffer in configurations()
        },
    )
    plot.grouped(
        above,
        {
            f"{algorithm}, {buffer}": losses.column(column(algorithm, buffer, ""))
            for algorithm, buffer in configurations()
        },
    )
    above.set_yscale("symlog", linthresh=1)
    plot.decimal_ticks(above.yaxis)
    above.set_ylabel("RTO events")
    below.set_ylabel("average link utilisation [%]")
    below.set_ylim(0, 105)
    sizes = links.column("size_bytes")
    below.set_xticks(range(len(sizes)), labels=[size(each) for each in sizes])
    above.legend(ncols=2)
    figure.supxlabel("size of the all-reduce", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "average link utilisation and time-outs of the all-reduces of Figure 7",
    (USED, TIMEOUTS, HANDFUL, HALF),
    measure,
    draw,
    CHOICES,
    NETWORKS,
    cases,
)

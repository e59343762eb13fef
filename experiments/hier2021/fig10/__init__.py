"""Figure 10: Transformer-1T with equal bandwidths, and how much of them is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.hier2021.layers import CHOICES, TOPOLOGIES, System, near
from syncline.quantity import percent, time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

UTILIZATION = Claim(
    "hier-02",
    "Fig. 10",
    "Transformer-1T, 300 GB/s per NPU, EqualBW: the average utilisation is 57.53 % on 2D, 39.02 % on 3D, and 66.74 % "
    "on 4D.",
)
BOUND = Claim(
    "hier-03",
    "Fig. 10",
    "with all bandwidth used, training would be 1.39, 1.83 and 1.29 times as fast.",
)
GROWTH = Claim("hier-fig10", "Fig. 10, caption", "training time increases with the number of dimensions.")
CLAIMED = ((0.5753, 0.3902, 0.6674), (1.39, 1.83, 1.29))
BUDGET = 300


def measure(runner: Runner) -> Findings:
    """Simulates one layer on each network."""
    times = Table(
        "times",
        f"A layer of Transformer-1T, {BUDGET} GB/s per NPU divided equally: simulated, and by closed forms",
        (
            "topology",
            "time_s",
            "compute_s",
            "closed_form_s",
            "utilization_fraction",
            "closed_utilization_fraction",
            "bound_ratio",
        ),
    )
    for topology in TOPOLOGIES:
        run = System("Transformer-1T", topology, runner).run("EqualBW", BUDGET)
        compute = run.result.summary.compute_s
        bound = run.time / (compute + run.communication * run.utilization)
        times.add(topology, run.time, compute, run.ideal, run.utilization, run.ideal_utilization, bound)
    return Findings([times], [_utilization(times), _bound(times), _growth(times)])


def _utilization(times: Table) -> Verdict:
    found, ideal = times.column("utilization_fraction"), times.column("closed_utilization_fraction")
    return UTILIZATION.judged(
        all(near(each, claimed, 0.03) for each, claimed in zip(found, CLAIMED[0], strict=True)),
        ", ".join(f"{top} {percent(each)}" for top, each in zip(TOPOLOGIES, found, strict=True)),
        "The utilisation of an exchange is its bytes over what its dimensions could carry; this is the mean over "
        f"exchanges, weighted by their times. Closed forms give {', '.join(percent(each) for each in ideal)}; the "
        "difference is the time in which chunks fill and empty the pipeline.",
    )


def _bound(times: Table) -> Verdict:
    found = times.column("bound_ratio")
    return BOUND.judged(
        all(near(each, claimed, 0.03) for each, claimed in zip(found, CLAIMED[1], strict=True)),
        ", ".join(f"{top} {each:.3g}" for top, each in zip(TOPOLOGIES, found, strict=True)),
        "Compute and exchanges do not overlap; with all bandwidth used, the time of exchanges would be multiplied by "
        "their utilisation.",
    )


def _growth(times: Table) -> Verdict:
    found = times.column("time_s")
    return GROWTH.judged(
        found[0] < found[1] < found[2],
        ", ".join(f"{top} {time(each)}" for top, each in zip(TOPOLOGIES, found, strict=True)),
        "4D is between 2D and 3D: its first dimension has 2 NPUs and carries 4/7 of the bytes of one with 8, so an "
        "equal share of the budget is less of a bottleneck there.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the times of compute and exchanges over the time on 2D, labelled with the utilisation."""
    times = findings.table("times")
    figure, axes = plot.new(height=3.0)
    first = times.column("time_s")[0]
    compute = [each / first for each in times.column("compute_s")]
    rest = [each / first - own for each, own in zip(times.column("time_s"), compute, strict=True)]
    parts = [plot.Part("compute", compute, plot.BLUE), plot.Part("exchanges", rest, plot.ORANGE)]
    plot.stacked(axes, range(len(compute)), parts, width=0.5)
    for at, (top, used) in enumerate(zip(compute, times.column("utilization_fraction"), strict=True)):
        axes.annotate(f"{percent(used)} used", (at, top + rest[at]), ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(compute)), labels=times.column("topology"))
    axes.set_ylabel("time of a layer over that on 2D")
    axes.margins(y=0.12)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "Transformer-1T on three networks with 300 GB/s per NPU, divided equally",
    (UTILIZATION, BOUND, GROWTH),
    measure,
    draw,
    CHOICES,
    ("analytical",),
)

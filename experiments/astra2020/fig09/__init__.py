"""Figure 9: alltoall against torus, 8 NPUs in one dimension."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020.bandwidth_test import COLLECTIVES, agreement, busiest_link, collective, sizes
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Choice, Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import percent, size, time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
TORUS, ALLTOALL = FOLDER / "torus.yaml", FOLDER / "alltoall.yaml"

PEERS = {
    "dims": [
        {
            "name": "alltoall",
            "shape": "fully_connected",
            "size": 8,
            "rate": "25GB/s",
            "latency": "400ns",
            "efficiency": 0.94,
        }
    ]
}
"""A fabric with a separate switch for each pair of NPUs, modelled as a link of twice the latency."""

ALL_TO_ALL = Claim(
    "astra-01",
    "Fig. 9",
    "all-to-all of 256 KB to 32 MB on 8 NPUs: the alltoall topology is faster than the torus at every size, and its "
    "lead shrinks as the size grows.",
)
ALL_REDUCE = Claim(
    "astra-02",
    "Fig. 9",
    "all-reduce, otherwise the same: the torus overtakes the alltoall topology as the size grows, because the alltoall "
    "topology leaves 1 of 8 links unused.",
)


def measure(runner: Runner) -> Findings:
    """Times both collectives on both topologies at every size."""
    # In a ring all-reduce every message crosses one link; in the other cases messages share links.
    alone = agreement(runner, ((TORUS, "all_reduce", each, {}) for each in sizes(runner)))
    times = Table(
        "times",
        f"Time of one collective; for the all-reduce on the torus, {alone}",
        ("collective", "size_bytes", "alltoall_s", "torus_s", "torus_over_alltoall_ratio"),
    )
    for kind in COLLECTIVES:
        for each in sizes(runner):
            alltoall, torus = (
                collective(runner, scenario, kind, each).summary.total_time_s for scenario in (ALLTOALL, TORUS)
            )
            times.add(kind, each, alltoall, torus, torus / alltoall)
    return Findings([times], [_all_to_all(runner, times), _all_reduce(runner, times)])


def _all_to_all(runner: Runner, times: Table) -> Verdict:
    tried = sizes(runner)
    leads = times.column("torus_over_alltoall_ratio", collective="all_to_all")
    worst = max(after / before - 1 for before, after in pairwise(leads))
    # The paper's bars cannot be read more precisely than 5 %.
    shrinks = leads[-1] < leads[0] and worst < 0.05
    small, large = (collective(runner, TORUS, "all_to_all", each) for each in (tried[0], tried[-1]))
    _, across, busy = busiest_link(large)
    _, direct, _ = busiest_link(collective(runner, ALLTOALL, "all_to_all", tried[-1]))
    return ALL_TO_ALL.judged(
        min(leads) > 1 and shrinks,
        f"torus over alltoall: {leads[0]:.2f} at {size(tried[0])}, {leads[-1]:.2f} at {size(tried[-1])}, "
        f"never below {min(leads):.2f}; "
        + (f"from one size to the next it grows by up to {percent(worst)}" if worst > 0 else "it never grows"),
        f"At {size(tried[0])} the torus takes {time(small.summary.total_time_s)}: messages go over up to 4 links in 7 "
        f"steps, and its busiest link sends only {percent(busiest_link(small)[2])} of the time. At {size(tried[-1])} "
        f"bandwidth decides: {size(across)} on a link of the torus, busy for {percent(busy)}, and {size(direct)} on "
        f"one of the alltoall. Messages that pass through other NPUs keep the ratio above 1 at any size.",
    )


def _all_reduce(runner: Runner, times: Table) -> Verdict:
    tried = sizes(runner)
    leads = times.column("torus_over_alltoall_ratio", collective="all_reduce")
    overtaken = [each for each, lead in zip(tried, leads, strict=True) if lead < 1]
    holds = leads[0] > 1 and leads[-1] < 1 and overtaken == list(tried[-len(overtaken) :])
    pair = [busiest_link(collective(runner, each, "all_reduce", tried[-1])) for each in (TORUS, ALLTOALL)]
    (_, torus, torus_busy), (_, alltoall, alltoall_busy) = pair
    return ALL_REDUCE.judged(
        holds,
        f"torus over alltoall: {leads[0]:.2f} at {size(tried[0])}, {leads[-1]:.2f} at {size(tried[-1])}; "
        + (f"the torus is faster from {size(overtaken[0])} on" if overtaken else "the torus is never faster"),
        f"At {size(tried[-1])} links are busy for {percent(torus_busy)} (torus) and {percent(alltoall_busy)} "
        f"(alltoall) of the time; the busiest carries {size(torus)} and {size(alltoall)}, a ratio of 7/8. Latency "
        "bounds small sets: 14 steps in a ring, 2 through a switch.",
    )


def draw(findings: Findings) -> Figure:
    """Times above, their ratio below."""
    times = findings.table("times")
    figure, axes = plot.new(2, 2, height=4.4, sharex=True, sharey="row", gridspec_kw={"height_ratios": [3, 2]})
    for column, kind in enumerate(COLLECTIVES):
        above, below = axes[0][column], axes[1][column]
        x = times.column("size_bytes", collective=kind)
        for index, topology in enumerate(("alltoall", "torus")):
            values = [1e6 * value for value in times.column(f"{topology}_s", collective=kind)]
            plot.line(above, x, values, topology, index)
        plot.line(below, x, times.column("torus_over_alltoall_ratio", collective=kind), "", 6, markersize=4)
        below.axhline(1, color=plot.GREY, linewidth=0.8, linestyle="--")
        above.set_yscale("log")
        plot.decimal_ticks(above.yaxis)
        above.set_title(kind.replace("_", "-"))
        below.set_ylim(bottom=0)
        plot.sizes_below(below, x)
    axes[0][0].legend()
    axes[0][0].set_ylabel("time [µs]")
    axes[1][0].set_ylabel("torus / alltoall")
    figure.supxlabel("size of the collective", fontsize=9)
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "alltoall 1x8 through 7 switches against torus 1x8x1 of 4 rings both ways",
    (ALL_TO_ALL, ALL_REDUCE),
    measure,
    draw,
    (
        Choice("16 chunks", {"collectives.chunks": 16}),
        Choice("256 chunks", {"collectives.chunks": 256}),
        Choice("a link of its own to each peer", {"alltoall:fabric": PEERS, "alltoall:collectives.queues": 7}),
        Choice(
            "rings run one way: 8 rings", {"torus:fabric.package.rings": 8, "torus:fabric.package.direction": "one-way"}
        ),
        Choice(
            "unlimited chunks in flight",
            {"collectives.active_chunks": "unlimited", "collectives.issue_threshold": "unlimited"},
        ),
    ),
)

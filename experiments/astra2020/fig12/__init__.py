"""Figure 12: from 8 to 64 NPUs, and where a chunk spends its time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020.bandwidth_test import MIB, agreement, collective, sizes
from experiments.astra2020.delays import PARTS, delays, parts
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Choice, Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import percent, size, time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
TORUS = FOLDER / "torus.yaml"
SYSTEMS = ("2x2x2", "2x4x2", "2x4x4", "2x4x8")
BROKEN_DOWN = 4 * MIB
"""Size of the all-reduce whose delays are drawn."""

GROWTH = Claim(
    "astra-08",
    "Fig. 12a",
    "enhanced all-reduce on 2x2x2 to 2x4x8: the time grows less from 2x4x2 to 2x4x4 than from 2x4x4 to 2x4x8.",
)
QUEUE = Claim("astra-09", "Fig. 12b", "on 2x4x4 the queue delay of phase 2 (Queue P2) dominates.")


def measure(runner: Runner) -> Findings:
    """Times the all-reduce on all systems at every size, and takes the delays of its phases."""
    cases = [(TORUS, "all_reduce", each, {"fabric.torus": system}) for system in SYSTEMS for each in sizes(runner)]
    times = Table(
        "times",
        f"Time of one all-reduce; growth: over the next smaller system; {agreement(runner, cases)}",
        (
            "size_bytes",
            *(f"{system}_s" for system in SYSTEMS),
            "growth_to_2x4x4_fraction",
            "growth_to_2x4x8_fraction",
        ),
    )
    shares = Table("delays", "Delays at every size: means over chunks and messages", ("size_bytes", "system", *PARTS))
    shares.listed = False
    for each in sizes(runner):
        results = [collective(runner, TORUS, "all_reduce", each, {"fabric.torus": system}) for system in SYSTEMS]
        total = [result.summary.total_time_s for result in results]
        times.add(each, *total, total[2] / total[1] - 1, total[3] / total[2] - 1)
        for system, result in zip(SYSTEMS, results, strict=True):
            shares.add(each, system, *delays(result)[0])
    drawn = Table(
        "delays_drawn",
        f"Delays of the all-reduce of {size(BROKEN_DOWN)}: mean over chunks (queue) and messages (network)",
        ("delay", *(f"{system}_s" for system in SYSTEMS)),
    )
    for part in PARTS:
        drawn.add(part.removesuffix("_s"), *shares.column(part, size_bytes=BROKEN_DOWN))
    return Findings([times, drawn, shares], [_growth(runner, times), _queue(shares)])


def _growth(runner: Runner, times: Table) -> Verdict:
    tried = times.column("size_bytes")
    first, second = times.column("growth_to_2x4x4_fraction"), times.column("growth_to_2x4x8_fraction")
    busy = []
    for system in SYSTEMS:
        result = collective(runner, TORUS, "all_reduce", tried[-1], {"fabric.torus": system})
        vertical, horizontal = (
            next(dim.busiest_link_busy or 0.0 for dim in result.summary.dims if dim.name == name)
            for name in ("vertical", "horizontal")
        )
        busy.append(f"{system} {percent(vertical)} and {percent(horizontal)}")
    return GROWTH.judged(
        all(before < after for before, after in zip(first, second, strict=True)),
        f"{percent(first[0])} against {percent(second[0])} at {size(tried[0])}, {percent(first[-1])} against "
        f"{percent(second[-1])} at {size(tried[-1])}",
        "An NPU sends 2(n - 1)/n of its part in a ring of n: 1 in a ring of 2, 1.5 in one of 4, 1.75 in one of 8, so "
        "no dimension of 2x4x4 takes longer than the horizontal one of 2x4x2. Share of the time in which "
        f"vertical and horizontal links send at {size(tried[-1])}: {', '.join(busy)}.",
    )


def _queue(shares: Table) -> Verdict:
    dominates, ratios = True, []
    for each in shares.column("size_bytes", system="2x4x4"):
        values = {part: shares.column(part, size_bytes=each, system="2x4x4")[0] for part in PARTS}
        queue = values.pop("queue_P2_s")
        dominates = dominates and queue > max(values.values())
        ratios.append(queue / max(values.values()))
    largest = shares.column("size_bytes")[-1]
    (wide,) = shares.column("queue_P2_s", size_bytes=largest, system="2x4x4")
    (third,) = shares.column("queue_P3_s", size_bytes=largest, system="2x4x4")
    (before,) = shares.column("queue_P3_s", size_bytes=largest, system="2x4x2")
    return QUEUE.judged(
        dominates,
        f"Queue P2 is {min(ratios):.2f} to {max(ratios):.2f} times the next largest delay, over all sizes",
        f"Phase 1 runs over local links of 8 times the rate, so chunks arrive at phase 2 (vertical) faster than it can "
        f"process them; at {size(largest)} they wait there for {time(wide)}. Phase 2 is not faster than phase 3 "
        f"(horizontal), where chunks wait for {time(third)}; on 2x4x2, with a shorter vertical ring, they wait for "
        f"phase 3 for {time(before)}.",
    )


def draw(findings: Findings) -> Figure:
    """Draws times by size on the left, delays at one size on the right."""
    times, drawn = findings.table("times"), findings.table("delays_drawn")
    figure, (left, right) = plot.new(2, height=3.4)
    x = times.column("size_bytes")
    for index, system in enumerate(SYSTEMS):
        plot.line(left, x, [1e6 * value for value in times.column(f"{system}_s")], system, index)
    left.set_xlabel("size of the all-reduce")
    left.set_ylabel("time [µs]")
    left.set_yscale("log")
    plot.decimal_ticks(left.yaxis)
    left.set_title("a  total time")
    left.legend()
    plot.sizes_below(left, x)
    columns = [drawn.column(f"{system}_s") for system in SYSTEMS]
    plot.stacked(right, range(len(SYSTEMS)), parts(columns, 1e6), width=0.6)
    right.set_xticks(range(len(SYSTEMS)), labels=SYSTEMS)
    right.set_ylabel("mean delay [µs]")
    right.set_title(f"b  delays at {size(BROKEN_DOWN)}")
    handles, labels = right.get_legend_handles_labels()
    right.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "enhanced all-reduce on the hierarchical torus from 8 to 64 NPUs, and its delays by phase",
    (GROWTH, QUEUE),
    measure,
    draw,
    (
        Choice("16 chunks", {"collectives.chunks": 16}),
        Choice("256 chunks", {"collectives.chunks": 256}),
        Choice("first in, first out", {"collectives.order": "fifo"}),
        Choice("1 chunk at a time in a queue", {"collectives.active_chunks": 1}),
        Choice("unlimited chunks in a queue", {"collectives.active_chunks": "unlimited"}),
        Choice(
            "all chunks issued at once",
            {"collectives.issue_threshold": "unlimited", "collectives.issue_batch": "unlimited"},
        ),
    ),
)

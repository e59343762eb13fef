"""Section 2.3: when a hub in each rack pays off, by the condition and by simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.luo2020 import racks
from experiments.luo2020.exchange import CHUNK
from syncline.hub import two_levels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
SCENARIO = FOLDER / "condition.yaml"
NBYTES = 8 << 20
WORKERS = 8
"""Workers of a rack; one of them is on the hub's host."""
WORKER, HUB = 10, 80
"""Rates of a worker's and a hub's link in Gb/s."""
CORES = (5, 10, 20, 30, 34, 36, 38, 40, 50, 80, 160)
"""Gb/s from a rack to the core, swept."""
SHAPES = ((2, CORES), (4, (10, 20, 40, 50, 55, 60, 70, 120)))
"""Numbers of racks, and rates from a rack to the core in Gb/s."""
GAIN = 0.05
"""Hubs in racks pay off if the exchange is faster by more than this fraction."""
PAYS = Claim(
    "luo-03",
    "2.3",
    "a two-level reduction pays off if N (R - 1) / (R B_core) > max(N / B_hub, 1 / B_worker) + C: where this holds, "
    "the simulated exchange is shorter with hubs in racks.",
)
ONLY = Claim(
    "luo-sec23-only", "2.3", "where the condition does not hold, hubs in racks do not shorten the simulated exchange."
)
BOTH = Claim(
    "luo-sec23-both",
    "2.3, with answers",
    "the condition with B_core / 2, because links to the core carry answers as well as pushes, holds exactly where the "
    "simulated exchange is shorter with hubs in racks.",
)


def network(count: int, core: float) -> dict[str, Any]:
    """A fabric of racks with one hub each, with links as in the scenario."""
    hubs, workers = range(count), range(count, count * WORKERS)
    ends: list[tuple[str, str, float]] = [(f"npu{hub}", f"switch{hub}", HUB) for hub in hubs]
    ends += [(f"npu{each}", f"switch{(each - count) // (WORKERS - 1)}", WORKER) for each in workers]
    ends += [(f"switch{hub}", f"switch{count}", core) for hub in hubs]
    links = [{"from": a, "to": b, "rate": f"{rate}Gb/s"} for a, b, rate in ends]
    return {"npus": count * WORKERS, "switches": count + 1, "links": links}


def seconds(runner: Runner, way: str, count: int, core: float) -> float:
    """Simulated time of an exchange in seconds."""
    plan = racks.plan(runner.store.place / "plans", way, count, count * WORKERS)
    changes = {
        "fabric": network(count, core),
        "collectives.plans": {"all_reduce": plan},
        "collectives.chunks": NBYTES // (count * CHUNK),
        "workload.bytes": f"{NBYTES}B",
    }
    return runner.simulate(SCENARIO, changes).summary.total_time_s


def measure(runner: Runner) -> Findings:
    """Simulates both ways at every rate of the core."""
    found = Table(
        "swept",
        "An exchange of 8 MiB: each hub serves all racks (flat), or its own rack, then hubs exchange (two levels)",
        ("racks", "core Gb/s", "condition", "with answers", "flat_s", "two levels_s", "gain_ratio"),
    )
    for count, cores in SHAPES[: 1 if runner.quick else None]:
        for core in cores[::3] if runner.quick else cores:
            rates = [rate * 1e9 / 8 for rate in (HUB, core, WORKER)]
            asked, halved = (
                two_levels(count, WORKERS, hub_rate=rates[0], core_rate=rates[1] / part, worker_rate=rates[2]).pays
                for part in (1, 2)
            )
            flat, levels = (seconds(runner, way, count, core) for way in ("flat", "sharded"))
            said = ("pays" if each else "does not" for each in (asked, halved))
            found.add(count, core, *said, flat, levels, flat / levels)
    return Findings([found], [_pays(found), _only(found), _both(found)])


def _pays(found: Table) -> Verdict:
    gains = found.column("gain_ratio", condition="pays")
    return PAYS.judged(
        min(gains) > 1 + GAIN,
        f"where it holds, {min(gains):.2f} to {max(gains):.2f} times as fast, in {len(gains)} cases",
        "If the core is slow, the bytes that cross it decide: N vectors per rack without hubs in racks, one with them.",
    )


def _only(found: Table) -> Verdict:
    gains = found.column("gain_ratio", condition="does not")
    late = [gain for gain in gains if gain > 1 + GAIN]
    return ONLY.judged(
        not late,
        f"where it does not hold, {min(gains):.2f} to {max(gains):.2f} times as fast; more than {GAIN:.0%} faster in "
        f"{len(late)} of {len(gains)}",
        "The condition counts only what workers push across the core. But in each direction a rack's link to the core "
        "carries both pushes and answers of hubs to workers, which is twice as much. The same is true of hubs that "
        "exchange.",
    )


def _both(found: Table) -> Verdict:
    wrong = [
        (racks, core, gain)
        for racks, core, said, gain in zip(
            *(found.column(column) for column in ("racks", "core Gb/s", "with answers", "gain_ratio")), strict=True
        )
        if (said == "pays") != (gain > 1 + GAIN)
    ]
    agree = len(found.rows) - len(wrong)
    said = f"in {agree} of {len(found.rows)} cases"
    if wrong:
        said += "; not for " + ", ".join(f"{racks} racks, {core} Gb/s ({gain:.2f})" for racks, core, gain in wrong)
    return BOTH.judged(
        not wrong,
        said,
        "The rest comes from overlap: the condition adds the time of the exchange between hubs to that in racks, as if "
        "one began after the other. With chunks of 32 KiB they overlap, so hubs in racks still pay off at slightly "
        "higher rates of the core.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the gain by the core's rate; markers are filled where the condition holds."""
    found = findings.table("swept")
    counts = sorted(set(found.column("racks")))
    figure, axes = plot.new(height=3.0)
    for index, count in enumerate(counts):
        cores, gains = found.column("core Gb/s", racks=count), found.column("gain_ratio", racks=count)
        plot.line(axes, cores, gains, f"{count} racks", index)
        holds = [each == "pays" for each in found.column("condition", racks=count)]
        spots = [(core, gain) for core, gain, pays in zip(cores, gains, holds, strict=True) if not pays]
        axes.plot([x for x, _ in spots], [y for _, y in spots], "o", color="white", markersize=3)
    axes.axhline(1.0, color=plot.GREY, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plot.decimal_ticks(axes.xaxis)
    plot.decimal_ticks(axes.yaxis)
    axes.set_xlabel("core [Gb/s a rack]; white where the condition does not hold")
    axes.set_ylabel("flat over two levels")
    axes.legend()
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "when a hub in each rack pays off, by the condition and by simulation",
    (PAYS, ONLY, BOTH),
    measure,
    draw,
    networks=("queued", "packet"),
)

"""Figure 6.5: exchanges without compute, by number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.luo2020 import beside
from experiments.luo2020.beside import CALIBRATED, COLUMNS, Pair, pair, source
from experiments.luo2020.exchange import gloo, hub, sharded
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
STAR = FOLDER / "star.yaml"
NBYTES = 45_000_000
"""ResNet 18 (Table 6.1)."""
WORKERS = (1, 2, 4, 8)
ARMS = ("hub", "shards", "Gloo")

TWICE = Claim(
    "luo-05",
    "Fig. 6.5",
    "ResNet 18, 8 workers, no compute: a hub on its own host gives twice the throughput of colocated shards of the "
    "same software.",
)
LINEAR = Claim("luo-fig0605-linear", "Fig. 6.5", "the hub's throughput grows linearly to 8 workers.")
ABOVE = Claim("luo-fig0605-gloo", "Fig. 6.6", "the hub sustains a higher throughput than Gloo, without compute.")
NEAR = beside.claim("fig0605")
TWO, LINE = 0.15, 0.10
"""Tolerances of the claims "twice" and "linear"."""


def measure(runner: Runner) -> Findings:
    """Predicts and measures exchanges of the whole model."""
    times = Table(
        "times",
        "An exchange of 45 MB: workers at 500 Mb/s, the hub's host at 4 Gb/s",
        ("workers", "arm", *COLUMNS),
    )
    pairs: dict[tuple[int, str], Pair] = {}
    for workers in WORKERS[-2:] if runner.quick else WORKERS:
        hosts = range(1, workers + 1)
        arms = {"hub": hub(STAR, workers, NBYTES)}
        if workers > 1:
            arms |= {"shards": sharded(STAR, hosts, NBYTES), "Gloo": gloo(STAR, hosts, NBYTES)}
        for arm, exchange in arms.items():
            found = pairs[workers, arm] = pair(runner, f"{arm}, {counted(workers, 'worker')}", exchange)
            times.add(workers, arm, *found.cells())
    most = WORKERS[-1]
    verdicts = [
        _twice(pairs[most, "hub"], pairs[most, "shards"]),
        _linear([pairs[each, "hub"] for each in WORKERS if (each, "hub") in pairs]),
        _above(pairs[most, "hub"], pairs[most, "Gloo"]),
        beside.judged(NEAR, list(pairs.values()), WHY),
    ]
    return Findings([times], verdicts)


WHY = (
    "Links decide, and the simulator models them accurately. Effects that it leaves out make runs longer: hosts share "
    "the machine's cores, and a queue of 1 MB occasionally overflows if several hosts send to one at a time."
)


def _twice(hub: Pair, shards: Pair) -> Verdict:
    ratio = shards.best_s / hub.best_s
    return TWICE.judged(
        abs(ratio / 2 - 1) <= TWO,
        f"{ratio:.2f} times, predicted {shards.predicted_s / hub.predicted_s:.2f}{source([hub, shards])}",
        "A colocated shard's link carries the worker's pushes and the shard's answers: 2 (N - 1) / N times the model "
        "in each direction. The link of a hub's worker carries the model once. The ratio is 1.75 with 8 workers, and "
        "approaches 2 with many.",
    )


def _linear(hubs: Sequence[Pair]) -> Verdict:
    first, last = hubs[0], hubs[-1]
    grown = first.best_s / last.best_s
    return LINEAR.judged(
        grown >= 1 - LINE,
        f"each of {len(last.exchange.hosts) - 1} workers has {grown:.2f} times the throughput that each of "
        f"{len(first.exchange.hosts) - 1} has{source([first, last])}",
        "The hub's link is as fast as those of all workers together, so each worker gets the full rate of its own "
        "link. Any loss beyond the prediction is due to the machine, whose cores the hub and all workers share.",
    )


def _above(hub: Pair, gloo: Pair) -> Verdict:
    ratio = gloo.best_s / hub.best_s
    return ABOVE.judged(
        ratio > 1,
        f"{ratio:.2f} times Gloo's throughput with 8 workers{source([hub, gloo])}",
        "A ring sends 2 (N - 1) / N times the model over every link. The hub's network has one more host, with a link "
        "that is eight times as fast.",
    )


def draw(findings: Findings) -> Figure:
    """Draws throughput by number of workers: lines are predicted, crosses measured."""
    times = findings.table("times")
    figure, axes = plot.new(height=3.2)
    for index, arm in enumerate(ARMS):
        workers = times.column("workers", arm=arm)
        for column, more in (("predicted_s", {}), ("measured_s", {"linestyle": "", "marker": "x"})):
            points = [
                (each, each / seconds)
                for each, seconds in zip(workers, times.column(column, arm=arm), strict=True)
                if not isinstance(seconds, str)
            ]
            label = arm if not more else f"{arm}, measured"
            plot.line(axes, [x for x, _ in points], [y for _, y in points], label, index, **more)
    axes.set_xticks(WORKERS)
    axes.set_xlabel("workers")
    axes.set_ylabel("exchanges of all workers [1/s]")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "exchanges without compute, with a hub, colocated shards, and Gloo",
    (TWICE, LINEAR, ABOVE, NEAR),
    measure,
    draw,
    networks=("packet",),
    calibrated=CALIBRATED,
    runs=True,
)

"""Figure 6.10: a hub in each of several racks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.luo2020 import beside, racks
from experiments.luo2020.beside import CALIBRATED, COLUMNS, Pair, pair, source
from experiments.luo2020.exchange import racked
from syncline.report.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
RACKS = FOLDER / "racks.yaml"
NBYTES = 25 << 20
MOST, WORKERS = 4, 2
"""Racks, and workers of each."""
COUNTS = (1, 2, 4)
WAYS = ("ring", "sharded")
LOSS = Claim(
    "luo-fig0610",
    "Fig. 6.10",
    "with a hub in each rack and a ring between them, a job that is bound by the network loses some of its throughput "
    "as racks are added, and no more than a tenth.",
)
NEAR = beside.claim("fig0610")
TENTH = 0.10


def measure(runner: Runner) -> Findings:
    """Exchanges over one rack, two and four."""
    times = Table(
        "racks",
        "An exchange of 25 MiB, by racks of a hub and two workers, and by how hubs exchange",
        ("racks", "between hubs", *COLUMNS),
    )
    pairs: dict[tuple[int, str], Pair] = {}
    for count in COUNTS[:2] if runner.quick else COUNTS:
        hosts = [*range(count), *range(MOST, MOST + WORKERS * count)]
        for way in WAYS if count > 1 else WAYS[:1]:
            plan = racks.plan(runner.store.place / "plans", way, count, len(hosts))
            found = pair(runner, f"{counted(count, 'rack')}, {way}", racked(RACKS, count, hosts, NBYTES, way, plan))
            pairs[count, way] = found
            times.add(count, way if count > 1 else "", *found.cells())
    return Findings([times], [_loss(pairs), beside.judged(NEAR, list(pairs.values()), WHY)])


WHY = (
    "Workers' links decide at any number of racks, as hubs exchange a chunk while others are on their way. What is "
    "beyond the prediction is the machine: what crosses racks passes more of its queues, and takes more of its cores."
)


def _loss(pairs: Mapping[tuple[int, str], Pair]) -> Verdict:
    most = max(count for count, _ in pairs)
    one, many = pairs[1, "ring"], pairs[most, "ring"]
    loss = 1 - one.best_s / many.best_s
    return LOSS.judged(
        loss <= TENTH,
        f"{100 * loss:.1f} % at {most} racks, predicted {100 * (1 - one.predicted_s / many.predicted_s):.1f} %"
        f"{source([one, many])}",
        "Rounds between hubs add latency once, at the end, and hubs have room for 2 (R - 1) / R vectors besides "
        f"those of {WORKERS} workers. What is lost beyond the prediction is the machine's, whose cores more hosts "
        "share. One vector a rack crosses the core where without hubs in racks it is one a worker. The paper emulates "
        "the ring within one box; here it crosses links.",
    )


def draw(findings: Findings) -> Figure:
    """Throughput by racks."""
    table = findings.table("racks")
    figure, axes = plot.new(height=3.0)
    first = {key: table.column(key, racks=1) for key in ("predicted_s", "measured_s")}
    for index, way in enumerate(WAYS):
        for key, more in (("predicted_s", {}), ("measured_s", {"linestyle": "", "marker": "x"})):
            counts = [1, *table.column("racks", **{"between hubs": way})]
            seconds = [*first[key], *table.column(key, **{"between hubs": way})]
            points = [(x, 1 / y) for x, y in zip(counts, seconds, strict=True) if not isinstance(y, str)]
            label = way if not more else f"{way}, measured"
            plot.line(axes, [x for x, _ in points], [y for _, y in points], label, index, **more)
    axes.set_xticks(COUNTS)
    axes.set_xlabel("racks")
    axes.set_ylabel("exchanges [1/s]")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left")
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "a hub in each of several racks",
    (LOSS, NEAR),
    measure,
    draw,
    networks=("packet",),
    calibrated=CALIBRATED,
    runs=True,
)

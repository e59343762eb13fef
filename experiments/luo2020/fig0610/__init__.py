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
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
RACKS = FOLDER / "racks.yaml"
NBYTES = 25 << 20
MAX_RACKS, WORKERS = 4, 2
"""Maximum number of racks, and workers per rack."""
COUNTS = (1, 2, 4)
WAYS = ("ring", "sharded")
LOSS = Claim(
    "luo-fig0610",
    "Fig. 6.10",
    "with a hub in each rack and a ring between hubs, a job that is bound by the network loses some of its throughput "
    "as racks are added, but no more than a tenth.",
)
NEAR = beside.claim("fig0610")
TENTH = 0.10


def measure(runner: Runner) -> Findings:
    """Predicts and measures exchanges over one, two and four racks."""
    times = Table(
        "racks",
        "An exchange of 25 MiB, by number of racks, each with a hub and two workers, and by the exchange between hubs",
        ("racks", "between hubs", *COLUMNS),
    )
    pairs: dict[tuple[int, str], Pair] = {}
    for count in COUNTS[:2] if runner.quick else COUNTS:
        hosts = [*range(count), *range(MAX_RACKS, MAX_RACKS + WORKERS * count)]
        for way in WAYS if count > 1 else WAYS[:1]:
            plan = racks.plan(runner.store.place / "plans", way, count, len(hosts))
            found = pair(runner, f"{counted(count, 'rack')}, {way}", racked(RACKS, count, hosts, NBYTES, way, plan))
            pairs[count, way] = found
            times.add(count, way if count > 1 else "", *found.cells())
    return Findings([times], [_loss(pairs), beside.judged(NEAR, list(pairs.values()), WHY)])


WHY = (
    "Workers' links decide for any number of racks, because hubs exchange a chunk while others are still arriving. Any "
    "time beyond the prediction is due to the machine: messages across racks pass more queues and use more CPU time."
)


def _loss(pairs: Mapping[tuple[int, str], Pair]) -> Verdict:
    most = max(count for count, _ in pairs)
    one, many = pairs[1, "ring"], pairs[most, "ring"]
    loss = 1 - one.best_s / many.best_s
    return LOSS.judged(
        loss <= TENTH,
        f"{100 * loss:.1f} % at {most} racks, predicted {100 * (1 - one.predicted_s / many.predicted_s):.1f} %"
        f"{source([one, many])}",
        "Rounds between hubs add latency once, at the end, and the hubs' links have room for 2 (R - 1) / R vectors in "
        f"addition to those of {WORKERS} workers. Any loss beyond the prediction is due to the machine, whose cores "
        "more hosts share. One vector per rack crosses the core, instead of one per worker without hubs in racks. The "
        "paper emulates the ring within one box; here it crosses links.",
    )


def draw(findings: Findings) -> Figure:
    """Draws throughput by number of racks."""
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

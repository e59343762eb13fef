"""Figure 16: where the chunks of ResNet-50's layers spend their time, with FIFO and with LIFO order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020 import training
from experiments.astra2020.delays import PARTS, delays, parts
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Choice, Experiment, Findings
from experiments.harness.rows import layers, rows
from experiments.harness.table import Table
from syncline.quantity import percent, time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from syncline import Result

FOLDER = Path(__file__).parent
ORDERS = ("lifo", "fifo")

SAME = Claim(
    "astra-11", "Fig. 16", "ResNet-50, data-parallel, 2x4x4, 2 iterations: FIFO and LIFO give nearly the same result."
)
QUEUE = Claim("astra-fig16", "Fig. 16", "After a few initial layers, most of the delay of a chunk is in Queue P2.")
NEARLY = 0.02
"""Times count as nearly the same if they differ by at most this fraction."""
INITIAL = 4
"""Number of layers, in the order of back-propagation, that count as "a few initial" ones."""


def measure(runner: Runner) -> Findings:
    """Runs both orders, and takes the delays of every layer's reduction in the first iteration."""
    results = {order: runner.simulate(training.RESNET50, {"collectives.order": order}) for order in ORDERS}
    answers = Table(
        "orders",
        "Two iterations; apart: largest difference of a layer's raw communication between the orders, over the largest",
        ("order", "total_s", "exposed_s", "raw_communication_s", "layers_apart_fraction"),
    )
    detail = Table(
        "delays",
        "Delays of each layer's reduction in the first iteration: mean over chunks (queue) and messages (network)",
        ("order", "layer", *PARTS),
        listed=False,
    )
    raw = {order: [layer["communication_s"] for layer in layers(results[order])] for order in ORDERS}
    apart = max(abs(left - right) for left, right in zip(*raw.values(), strict=True)) / max(raw[ORDERS[0]])
    for order, result in results.items():
        answer = result.summary
        answers.add(order, answer.total_time_s, answer.exposed_communication_s, sum(raw[order]), apart)
        pairs = zip(rows(result, "collectives"), delays(result), strict=True)
        first = [(each["issue_s"], each["layer"], delay) for each, delay in pairs if each["iteration"] == 0]
        for _, layer, delay in sorted(first):
            detail.add(order, layer, *delay)
    return Findings([answers, _summed(detail), detail], [_same(results["lifo"], answers), _queue(detail)])


def _summed(detail: Table) -> Table:
    summed = Table("parts", "The same delays, mean over layers", ("delay", *(f"{order}_s" for order in ORDERS)))
    for name in PARTS:
        means = []
        for order in ORDERS:
            values = detail.column(name, order=order)
            means.append(sum(values) / len(values))
        summed.add(name.removesuffix("_s"), *means)
    return summed


def _same(lifo: Result, answers: Table) -> Verdict:
    def difference(column: str) -> float:
        left, right = answers.column(column)
        return float(abs(left - right) / max(left, right)) if left != right else 0.0

    total, raw = difference("total_s"), difference("raw_communication_s")
    (layer, _) = answers.column("layers_apart_fraction")
    sets = rows(lifo, "collectives")
    under_way = training.overlapping((each["issue_s"], each["finish_s"]) for each in sets)
    return SAME.judged(
        max(total, raw, layer) <= NEARLY,
        f"total time {percent(total)} apart, raw communication {percent(raw)}, that of single layers at most "
        f"{percent(layer)}",
        f"The order matters only to chunks of different layers that wait for phase 1 together. Of {len(sets)} "
        f"reductions {under_way} begin before an earlier one has ended, and a chunk waits in the ready queue for "
        f"{time(sum(delay[0] for delay in delays(lifo)) / len(sets))} on average.",
    )


def _queue(detail: Table) -> Verdict:
    later = [row for row in detail.rows if row[0] == "lifo"][INITIAL:]
    at = detail.columns.index("queue_P2_s")
    shares = []
    for row in later:
        values = [value for value in row[2:] if isinstance(value, float)]
        shares.append(values[at - 2] / sum(values))
    large = [(share, row[1]) for share, row in zip(shares, later, strict=True)]
    most = sum(share > 0.5 for share in shares)
    least, layer = min(large)
    return QUEUE.judged(
        most > len(shares) / 2,
        f"more than half of the delay in {most} of {len(shares)} layers; {percent(min(shares))} to "
        f"{percent(max(shares))}",
        f"Queue P2 is the wait for links between packages, which are slower than those of phase 1. Its share is "
        f"smallest for layers with few chunks ({layer}, {percent(least)}): sets below 256 KiB have fewer than 64.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the stacked delays of each layer, one panel for each order."""
    detail = findings.table("delays")
    figure, axes = plot.new(1, 2, width=7.4, height=4.6, sharex=True, sharey=True)
    for panel, order in zip(axes, ORDERS, strict=True):
        columns = [[float(value or 0) for value in row[2:]] for row in detail.rows if row[0] == order]
        plot.stacked(panel, range(len(columns)), parts(columns, 1e6), width=0.85)
        panel.set_title(order.upper())
        panel.set_ylabel("mean delay [µs]")
    stages = [training.part(layer) for layer in detail.column("layer", order="lifo")]
    plot.stages(axes[0], stages, named=False)
    plot.stages(axes[1], stages)
    axes[1].set_xlabel("layer, in the order of back-propagation")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right center")
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "delays of ResNet-50's reductions on 2x4x4 by layer, FIFO and LIFO",
    (SAME, QUEUE),
    measure,
    draw,
    (*training.READINGS, training.MANY_CHUNKS, Choice("compute power 8", {"compute.compute_power": 8})),
)

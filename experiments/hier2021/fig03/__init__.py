"""Figure 3: bytes on the last dimension, and the number of network cards that they need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.hier2021.layers import TOPOLOGIES, WORKLOADS, systems
from syncline.quantity import digits, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

DIMENSIONS = Claim(
    "hier-fig03-dims", "Fig. 3", "with more dimensions, less is sent on the last one: 2D, 3D, 4D, for every model."
)
MODELS = Claim("hier-fig03-models", "Fig. 3", "the traffic of the last dimension grows with the size of the model.")


def measure(runner: Runner) -> Findings:
    """Counts the bytes that an NPU sends on the last dimension for a layer, from the layer's plans."""
    sent = Table(
        "sent",
        "Bytes that an NPU sends on the last dimension for a layer, and the number of cards of equal rate that it "
        "needs to finish as fast as on 4D",
        ("model", *(f"{topology}_bytes" for topology in TOPOLOGIES), *(f"cards_{topology}" for topology in TOPOLOGIES)),
    )
    for model in WORKLOADS:
        last = [
            sum(each.bytes[-1] for each in system.demand.exchanges)
            for system in systems(runner)
            if system.workload == model
        ]
        sent.add(model, *last, *(each / last[-1] for each in last))
    return Findings([sent], [_dimensions(sent), _models(sent)])


def _dimensions(sent: Table) -> Verdict:
    rows = {model: [sent.column(f"{topology}_bytes", model=model)[0] for topology in TOPOLOGIES] for model in WORKLOADS}
    texts = [f"{model} {', '.join(size(each) for each in row)}" for model, row in rows.items()]
    return DIMENSIONS.judged(
        all(row[0] > row[1] > row[2] for row in rows.values()),
        "; ".join(texts),
        "A hierarchical all-reduce divides its data by the number of NPUs in the lower dimensions before it sends on "
        "the next one. If tensor-parallel ranks extend into the last dimension, they also send activations there: "
        "GPT-3 in 2D, Transformer-1T in 2D and 3D.",
    )


def _models(sent: Table) -> Verdict:
    grows = {topology: sent.column(f"{topology}_bytes") for topology in TOPOLOGIES}
    texts = [f"{topology} {', '.join(size(each) for each in values)}" for topology, values in grows.items()]
    return MODELS.judged(
        all(values[0] < values[1] < values[2] for values in grows.values()),
        "; ".join(texts),
        "These are bytes per layer. Tensor-parallel ranks, 16 for GPT-3 and 128 for Transformer-1T, divide the "
        "gradients of a layer first, so an NPU reduces fewer bytes of a larger model. Because of its activations, "
        f"Transformer-1T still sends {digits(grows['2D'][2] / grows['2D'][1])} times as much as GPT-3 in 2D. Larger "
        "models also have more layers.",
    )


def draw(findings: Findings) -> Figure:
    """Draws bytes on the left, cards on the right."""
    sent = findings.table("sent")
    figure, (left, right) = plot.new(2, height=3.0)
    models = sent.column("model")
    for axes, prefix, suffix, unit in ((left, "", "_bytes", 1e6), (right, "cards_", "", 1.0)):
        groups = {top: [each / unit for each in sent.column(f"{prefix}{top}{suffix}")] for top in TOPOLOGIES}
        plot.grouped(axes, groups)
        axes.set_xticks(range(len(models)), labels=models)
        axes.set_yscale("log")
        plot.decimal_ticks(axes.yaxis)
    left.set_ylabel("sent on the last dimension [MB]")
    right.set_ylabel("cards for the time of 4D")
    left.legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "bytes that an NPU sends on the last dimension of three networks for a layer of three models",
    (DIMENSIONS, MODELS),
    measure,
    draw,
    (),
    ("analytical",),
)

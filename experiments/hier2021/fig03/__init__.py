"""Figure 3: bytes on the last dimension, and the network cards that they take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.hier2021.layers import TOPOLOGIES, WORKLOADS, systems
from syncline.report.quantity import digits, size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

DIMENSIONS = Claim(
    "hier-fig03-dims", "Fig. 3", "with more dimensions, less is sent on the last one: 2D, 3D, 4D, for every model."
)
MODELS = Claim("hier-fig03-models", "Fig. 3", "the traffic of the last dimension grows with the size of the model.")


def measure(runner: Runner) -> Findings:
    """Bytes that an NPU sends on the last dimension for a layer, as its plans send them."""
    sent = Table(
        "sent",
        "What an NPU sends on the last dimension for a layer, and cards of the same rate that it needs to be done as "
        "soon as on 4D",
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
        "A hierarchical all-reduce leaves the dimension above what it held over the NPUs of those below. Where "
        "model-parallel ranks reach into the last dimension, they send their activations there too: GPT-3 in 2D, "
        "Transformer-1T in 2D and 3D.",
    )


def _models(sent: Table) -> Verdict:
    grows = {topology: sent.column(f"{topology}_bytes") for topology in TOPOLOGIES}
    texts = [f"{topology} {', '.join(size(each) for each in values)}" for topology, values in grows.items()]
    return MODELS.judged(
        all(values[0] < values[1] < values[2] for values in grows.values()),
        "; ".join(texts),
        "Per layer. Gradients of a layer are cut by the model-parallel ranks first, 16 for GPT-3 and 128 for "
        "Transformer-1T, so an NPU reduces fewer bytes of a larger model; "
        f"{digits(grows['2D'][2] / grows['2D'][1])} times as much as GPT-3 in 2D is sent by Transformer-1T, for its "
        "activations. A model also has more layers.",
    )


def draw(findings: Findings) -> Figure:
    """Bytes on the left, cards on the right."""
    sent = findings.table("sent")
    figure, (left, right) = plot.new(2, height=3.0)
    models = sent.column("model")
    for axes, prefix, suffix, unit in ((left, "", "_bytes", 1e6), (right, "cards_", "", 1.0)):
        groups = {top: [each / unit for each in sent.column(f"{prefix}{top}{suffix}")] for top in TOPOLOGIES}
        plot.grouped(axes, groups)
        axes.set_xticks(range(len(models)), labels=models)
        axes.set_yscale("log")
        plot.plain(axes.yaxis)
    left.set_ylabel("sent on the last dimension [MB]")
    right.set_ylabel("cards for the time of 4D")
    left.legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "what an NPU sends on the last dimension of three networks for a layer of three models",
    (DIMENSIONS, MODELS),
    measure,
    draw,
    (),
    ("analytical",),
)

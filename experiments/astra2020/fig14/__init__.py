"""Figure 14: raw communication of ResNet-50, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020 import training
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.rows import layers, rows
from experiments.harness.table import Table
from syncline.quantity import percent, time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from syncline import Result

FOLDER = Path(__file__).parent

GRADIENTS = Claim(
    "astra-fig14",
    "Fig. 14",
    "ResNet-50, data-parallel on 2x4x4, 2 iterations: only weight gradients are communicated, during back-propagation.",
)


def measure(runner: Runner) -> Findings:
    """Measures the raw communication of each layer, and sums it over stages."""
    result = runner.simulate(training.RESNET50)
    found = layers(result)
    detail = Table(
        "layers",
        "Raw communication of each layer in two iterations, from issue to result",
        (
            "layer",
            "forward_communication_s",
            "input_grad_communication_s",
            "weight_grad_communication_s",
            "collective_bytes",
        ),
        listed=False,
    )
    for layer in found:
        detail.add(*(layer[column] for column in detail.columns))
    stages = Table(
        "stages",
        "Raw communication in two iterations, summed over the layers of each stage",
        ("stage", "layers", "gradients_bytes", "communication_s", "longest_layer_s"),
    )
    for stage, total in training.by_part(found, "communication_s").items():
        members = [layer for layer in found if training.part(layer["layer"]) == stage]
        size = sum(layer["collective_bytes"] for layer in members)
        stages.add(stage, len(members), size, total, max(layer["communication_s"] for layer in members))
    return Findings([stages, detail], [_gradients(result, detail)])


def _gradients(result: Result, detail: Table) -> Verdict:
    activations = sum(detail.column("forward_communication_s")) + sum(detail.column("input_grad_communication_s"))
    weights = sum(detail.column("weight_grad_communication_s"))
    sets = rows(result, "collectives")
    under_way = training.overlapping((each["issue_s"], each["finish_s"]) for each in sets)
    step = result.summary
    return GRADIENTS.judged(
        activations == 0 and weights > 0 and all(each["part"] == "weight grad" for each in sets),
        f"weight gradients {time(weights)}, activations and input gradients {time(activations)}; "
        f"{len(sets)} collectives",
        f"{under_way} of {len(sets)} reductions begin before an earlier one has ended; the others have the network to "
        "themselves, so a layer's raw time grows with the size of its gradients. Communication is under way for "
        f"{percent(step.communication_s / step.total_time_s)} of the run.",
    )


def draw(findings: Findings) -> Figure:
    """Draws a bar for each layer, labelled by stage."""
    detail = findings.table("layers")
    names = detail.column("layer")
    times = [1e6 * value for value in detail.column("weight_grad_communication_s")]
    figure, axes = plot.new(height=2.8)
    axes.bar(range(len(names)), times, 0.8, color=plot.BLUE)
    plot.stages(axes, [training.part(name) for name in names])
    axes.set_ylabel("raw communication [µs]")
    axes.set_xlabel("layer, from input to output")
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "raw communication of ResNet-50 on 2x4x4, data-parallel, 2 iterations",
    (GRADIENTS,),
    measure,
    draw,
    (*training.READINGS, training.MANY_CHUNKS),
)

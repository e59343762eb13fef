"""Figure 15: compute and exposed communication of ResNet-50, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020 import training
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.rows import layers
from experiments.harness.table import Table
from syncline.quantity import percent, time

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from syncline import Result

FOLDER = Path(__file__).parent
COMPUTE = {"forward": "forward", "input_grad": "input gradient", "weight_grad": "weight gradient"}
"""Columns of compute, and their labels in the picture."""

FIRST = Claim(
    "astra-fig15",
    "III-E, Fig. 15",
    "The weight gradients of the first layer are fully exposed, because nothing is left to compute; those of other "
    "layers overlap with compute.",
)
EXPOSED = 0.95
"""Communication counts as fully exposed if at least this fraction of its raw time is."""


def measure(runner: Runner) -> Findings:
    """Measures compute, raw and exposed communication of each layer, and sums them over stages."""
    result = runner.simulate(training.RESNET50)
    found = layers(result)
    columns = (*(f"{each}_compute_s" for each in COMPUTE), "communication_s", "exposed_communication_s")
    detail = Table(
        "layers", "Compute and communication of each layer in two iterations", ("layer", *columns), listed=False
    )
    for layer in found:
        detail.add(*(layer[column] for column in detail.columns))
    stages = Table(
        "stages", "Two iterations, summed over the layers of each stage", ("stage", "compute_s", *columns[-2:])
    )
    sums = [training.by_part(found, column) for column in stages.columns[1:]]
    for stage in sums[0]:
        stages.add(stage, *(each[stage] for each in sums))
    return Findings([stages, detail], [_first(result, detail)])


def _first(result: Result, detail: Table) -> Verdict:
    raw, exposed = detail.column("communication_s"), detail.column("exposed_communication_s")
    first = exposed[0] / raw[0]
    others = sum(exposed[1:]) / sum(raw[1:])
    waited = [name for name, value in zip(detail.column("layer"), exposed, strict=True) if value > 0]
    answer = result.summary
    return FIRST.judged(
        first >= EXPOSED and others < EXPOSED,
        f"{detail.column('layer')[0]}: {time(exposed[0])} of {time(raw[0])} exposed ({percent(first)}); all other "
        f"layers: {time(sum(exposed[1:]))} of {time(sum(raw[1:]))} ({percent(others)})",
        f"Compute waits for {', '.join(waited) if len(waited) < 6 else f'{len(waited)} layers'}. The first layer's "
        "gradient is computed last and needed first: the next iteration needs it at once, and so does the end of the "
        "run. In all, communication is exposed for "
        f"{percent(answer.exposed_fraction)} of the time, and under way for "
        f"{percent(answer.communication_s / answer.total_time_s)}.",
    )


def draw(findings: Findings) -> Figure:
    """Draws compute and exposed communication above, raw communication below on its own scale."""
    detail = findings.table("layers")
    names = detail.column("layer")
    at = range(len(names))
    figure, (above, below) = plot.new(1, 2, height=4.2, sharex=True, gridspec_kw={"height_ratios": [3, 2]})
    looks = ((plot.SKY, ""), (plot.BLUE, ""), (plot.GREEN, ""))
    parts = [
        plot.Part(
            f"compute: {each.replace('_', ' ').replace('grad', 'gradient')}",
            _scaled(detail, f"{each}_compute_s", 1e3),
            *look,
        )
        for each, look in zip(COMPUTE, looks, strict=True)
    ]
    parts.append(plot.Part("exposed communication", _scaled(detail, "exposed_communication_s", 1e3), plot.RED, "////"))
    plot.stacked(above, at, parts, width=0.8)
    above.set_ylabel("time [ms]")
    above.legend(loc="upper right")
    raw, exposed = _scaled(detail, "communication_s", 1e6), _scaled(detail, "exposed_communication_s", 1e6)
    below.bar(at, raw, 0.8, color=plot.GREY, label="raw communication")
    below.bar(at, exposed, 0.8, color=plot.RED, hatch="////", edgecolor="white", linewidth=0.4, label="exposed")
    below.set_ylabel("time [µs]")
    below.set_xlabel("layer, from input to output")
    below.legend(loc="upper left")
    stages = [training.part(name) for name in names]
    plot.stages(above, stages, named=False)
    plot.stages(below, stages)
    return figure


def _scaled(table: Table, column: str, scale: float) -> list[float]:
    return [scale * value for value in table.column(column)]


EXPERIMENT = Experiment(
    FOLDER,
    "compute and exposed communication of ResNet-50 on 2x4x4, 2 iterations",
    (FIRST,),
    measure,
    draw,
    (*training.READINGS, training.MANY_CHUNKS),
)

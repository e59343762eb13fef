"""Figure 17: exposed communication of ResNet-50 from 8 to 128 NPUs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.astra2020 import training
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from experiments.harness.table import Table

FOLDER = Path(__file__).parent
SYSTEMS = ("2x2x2", "2x4x2", "2x4x4", "2x8x4", "2x8x8")

GROWS = Claim(
    "astra-fig17",
    "Fig. 17",
    "ResNet-50, 2x2x2 (8 NPUs) to 2x8x8 (128 NPUs): the larger the system, the larger the share of exposed "
    "communication.",
)


def measure(runner: Runner) -> Findings:
    """Simulates two iterations on each system, with the same batch on every NPU."""
    answers = training.shares("systems", "Two iterations on each system", "system")
    systems = SYSTEMS[::2] if runner.quick else SYSTEMS
    for system in systems:
        answers.add(system, *training.shared(runner.simulate(training.RESNET50, {"fabric.torus": system})))
    return Findings([answers], [_grows(answers)])


def _grows(answers: Table) -> Verdict:
    shares = answers.column("exposed_share")
    systems, times = answers.column("system"), answers.column("exposed_s")
    return GROWS.judged(
        all(before < after for before, after in pairwise(shares)),
        ", ".join(f"{system} {share(each)}" for system, each in zip(systems, shares, strict=True)),
        f"Each NPU computes the same; exposed time grows by a factor of {times[-1] / times[0]:.3g} from {systems[0]} "
        f"to {systems[-1]}, with the steps and bytes of longer rings. " + training.hidden(answers, systems[-1]),
    )


def draw(findings: Findings) -> Figure:
    """Draws the share of exposed communication, and the times behind it."""
    return training.drawn_shares(findings.table("systems"), "system", "size of the torus")


EXPERIMENT = Experiment(
    FOLDER,
    "exposed communication of ResNet-50 from 8 to 128 NPUs",
    (GROWS,),
    measure,
    draw,
    (*training.READINGS, training.MANY_CHUNKS),
)

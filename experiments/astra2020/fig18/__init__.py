"""Figure 18: exposed communication of ResNet-50 on faster and slower accelerators."""

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
POWERS = (0.5, 1, 2, 4, 8, 16, 32)

GROWS = Claim(
    "astra-fig18",
    "Fig. 18",
    "ResNet-50 on 2x4x4: the higher the compute power, the larger the share of exposed communication.",
)


def measure(runner: Runner) -> Findings:
    """Simulates two iterations at each compute power."""
    answers = training.shares(
        "powers", "Two iterations at each compute power, relative to the baseline", "compute_power"
    )
    for power in POWERS[1::2] if runner.quick else POWERS:
        result = runner.simulate(training.RESNET50, {"compute.compute_power": power})
        answers.add(f"{power:g}x", *training.shared(result))
    return Findings([answers], [_grows(answers)])


def _grows(answers: Table) -> Verdict:
    shares = answers.column("exposed_share")
    powers, bounds = answers.column("compute_power"), answers.column("bottleneck")
    turned = next((power for power, bound in zip(powers, bounds, strict=True) if bound != "compute"), None)
    return GROWS.judged(
        all(before < after for before, after in pairwise(shares)),
        ", ".join(f"{power} {share(each)}" for power, each in zip(powers, shares, strict=True)),
        "Communication takes the same time, while the compute that hides it becomes shorter. "
        + (
            f"Communication becomes the bottleneck at {turned}. "
            if turned
            else "Compute stays the bottleneck throughout. "
        )
        + training.hidden(answers, powers[-1]),
    )


def draw(findings: Findings) -> Figure:
    """Draws the share of exposed communication, and the times behind it."""
    return training.drawn_shares(findings.table("powers"), "compute_power", "compute power, relative to the baseline")


EXPERIMENT = Experiment(
    FOLDER,
    "exposed communication of ResNet-50 on 2x4x4 by compute power",
    (GROWS,),
    measure,
    draw,
    (*training.READINGS, training.MANY_CHUNKS),
)

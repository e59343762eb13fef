"""Figure 6.9: jobs that share a hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.luo2020 import beside
from experiments.luo2020.beside import CALIBRATED, COLUMNS, Pair, pair, source
from experiments.luo2020.exchange import hub
from experiments.luo2020.fig0605 import STAR
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

NBYTES = 25 << 20
JOBS = (1, 2, 4, 8)
LOSS = Claim("luo-09", "Fig. 6.9", "AlexNet, 8 jobs that share one hub: each has 5 % less throughput than alone.")
NEAR = beside.claim("fig0609")
CLAIMED, MORE = 0.05, 0.05
"""The claimed loss, and the tolerance of a measurement."""


def measure(runner: Runner) -> Findings:
    """Predicts and measures jobs of one worker each, on separate hosts, that only exchange."""
    times = Table(
        "jobs",
        "An exchange of 25 MiB of the first of several jobs, one worker each at 500 Mb/s, and a hub at 4 Gb/s",
        ("jobs", *COLUMNS),
    )
    pairs = {}
    for jobs in JOBS[-2:] if runner.quick else JOBS:
        # Jobs of one worker each send the same messages as one job with the same number of workers.
        shared = hub(STAR, jobs, NBYTES, **({} if jobs == 1 else {"jobs": jobs}))
        found = pairs[jobs] = pair(runner, counted(jobs, "job"), shared)
        times.add(jobs, *found.cells())
    return Findings([times], [_loss(pairs), beside.judged(NEAR, list(pairs.values()), WHY)])


WHY = (
    "A worker's link decides for any number of jobs. Any time beyond the prediction is due to the machine, whose cores "
    "all hosts and the hub share."
)


def _loss(pairs: Mapping[int, Pair]) -> Verdict:
    few, many = pairs[min(pairs)], pairs[max(pairs)]
    loss = 1 - few.best_s / many.best_s
    return LOSS.judged(
        loss <= CLAIMED + MORE,
        f"{100 * loss:.1f} % from {counted(min(pairs), 'job')} to {max(pairs)}, predicted "
        f"{100 * (1 - few.predicted_s / many.predicted_s):.1f} %{source(pairs.values())}",
        "Each job has its own chunks; jobs share only the hub's link and cores. Without compute, nothing hides the "
        "time that they cost each other.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the throughput of a job by the number of jobs."""
    table = findings.table("jobs")
    figure, axes = plot.new(height=3.0)
    for index, (key, label) in enumerate((("predicted_s", "predicted"), ("measured_s", "measured"))):
        points = [
            (jobs, 1 / seconds)
            for jobs, seconds in zip(table.column("jobs"), table.column(key), strict=True)
            if not isinstance(seconds, str)
        ]
        plot.line(axes, [x for x, _ in points], [y for _, y in points], label, index)
    axes.set_xticks(JOBS)
    axes.set_xlabel("jobs")
    axes.set_ylabel("exchanges of a job [1/s]")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left")
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "jobs that share a hub",
    (LOSS, NEAR),
    measure,
    draw,
    networks=("packet",),
    calibrated=CALIBRATED,
    runs=True,
)

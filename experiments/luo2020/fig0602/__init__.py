"""Figure 6.2: training on a network of 10 Gb/s, with a box or with shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.luo2020 import training
from experiments.luo2020.training import BOX, SEVEN, SHARDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from experiments.harness.table import Table

RATE = 10
LEAST = 1.05
"""Ratio from which on a network counts as faster."""
FASTER = Claim(
    "luo-fig0602",
    "Fig. 6.2",
    "at 10 Gb/s, every network trains faster with Parameter Box than with sharded MXNet.",
)
HALVED = Claim(
    "luo-fig0602-halved",
    "Fig. 6.2",
    "the box halves the bytes on each worker's link, so that networks bound by the network are up to twice as fast as "
    "with PShard, the same software on the workers.",
)
TWICE, NEAR = 2.0, 0.15


def measure(runner: Runner) -> Findings:
    """Predicts a step of each network at 10 Gb/s."""
    table = training.measure(runner, RATE)
    return Findings([table], [_faster(table), _halved(table)])


def _faster(table: Table) -> Verdict:
    gains, fewer = training.gains(table, BOX), training.gains(table, SEVEN)
    slow = [name for name, gain in gains.items() if gain < LEAST]
    least, most = (each(gains, key=lambda name: gains[name]) for each in (min, max))
    said = f"{gains[least]:.2f} times ({least}) to {gains[most]:.2f} times ({most})"
    said += f"; not more than {LEAST - 1:.0%} faster: {', '.join(slow)}" if slow else ""
    return FASTER.judged(
        not slow,
        f"{said}; with 7 workers {min(fewer.values()):.2f} to {max(fewer.values()):.2f} times",
        "A worker's link carries each gradient once with a box, and 1.75 times with shards on the workers. That "
        "matters where the exchange takes longer than the computation; elsewhere it is hidden. The prediction contains "
        "no cost of software, so it leaves out what Parameter Hub gains by better software.",
    )


def _halved(table: Table) -> Verdict:
    shards, boxes = training.gains(table, SHARDS), training.gains(table, BOX)
    ratios = {name: boxes[name] / shards[name] for name in boxes}
    most = max(ratios, key=lambda name: ratios[name])
    return HALVED.judged(
        abs(ratios[most] / TWICE - 1) <= NEAR,
        f"up to {ratios[most]:.2f} times PShard ({most})",
        "With N workers a shard's host carries 2 (N - 1) / N times the model in each direction, which is 1.75 for 8, "
        "and approaches 2 with many.",
    )


def draw(findings: Findings) -> Figure:
    """Draws throughput over MXNet's."""
    return training.draw(findings.table("steps"))


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "training of nine networks at 10 Gb/s, with a box or with shards",
    (FASTER, HALVED),
    measure,
    draw,
    networks=("queued",),
)

"""Figure 6.3: training on a network of 56 Gb/s, with a box or with shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.luo2020 import training
from experiments.luo2020.training import BOX, LARGE, NETWORKS, SHARDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from experiments.harness.table import Table

RATE = 56
SAME = 1.05
"""Largest ratio that counts as 1x."""
BOUND = 1.10
"""Smallest step, relative to compute, of a network that is bound by the network."""
HIDDEN = Claim(
    "luo-fig0603",
    "Fig. 6.3",
    "at 56 Gb/s, compute limits GoogleNet, Inception, ResNet and ResNext: a speedup of 1x.",
)
FASTER = Claim("luo-fig0603-large", "Fig. 6.3", "at 56 Gb/s, AlexNet and VGG are still faster with Parameter Box.")
LIMITED = Claim("luo-fig0603-bound", "Fig. 6.3", "AlexNet and VGG remain network-bound even at 56 Gb/s.")


def measure(runner: Runner) -> Findings:
    """Predicts a step of each network at 56 Gb/s."""
    table = training.measure(runner, RATE)
    return Findings([table], [_hidden(table), _faster(table), _limited(table)])


def _hidden(table: Table) -> Verdict:
    gains = {name: gain for name, gain in training.gains(table, BOX).items() if name not in LARGE}
    faster = [name for name, gain in gains.items() if gain > SAME]
    return HIDDEN.judged(
        not faster,
        f"{min(gains.values()):.2f} to {max(gains.values()):.2f} times",
        "Their gradients cross a link of 56 Gb/s, even 1.75 times, in less time than a batch takes, and while the "
        "backward pass goes on.",
    )


def _faster(table: Table) -> Verdict:
    gains = {name: gain for name, gain in training.gains(table, BOX).items() if name in LARGE}
    return FASTER.judged(
        min(gains.values()) > SAME,
        ", ".join(f"{name} {gain:.2f} times" for name, gain in gains.items()),
        "Most parameters of these networks are in the linear layers, which come last, so that their gradients are "
        "exchanged beside the backward pass of the convolutions. Exchanges that take longer than the backward pass are "
        f"exposed: with shards, box and as backward pass {_times()}. The prediction contains no cost of software; if "
        "MXNet uses only a part of its links, VGG 19 gains as well.",
    )


def _limited(table: Table) -> Verdict:
    over = {
        name: step / NETWORKS[name].seconds
        for name, step in zip(table.column("network"), table.column(f"{BOX}_s"), strict=True)
        if name in LARGE
    }
    free = [name for name, ratio in over.items() if ratio < BOUND]
    return LIMITED.judged(
        not free,
        "with a box a step takes "
        + ", ".join(f"{ratio:.2f} ({name})" for name, ratio in over.items())
        + " times compute",
        f"An exchange takes, with shards, box and as backward pass, {_times()}. With a box only AlexNet's does not fit "
        "beside the backward pass.",
    )


def _times() -> str:
    """Times of an exchange with shards and with a box, and of the backward pass, of the large networks."""
    found = []
    for name in LARGE:
        shards, box = (training.link(NETWORKS[name], training.ARMS[arm], RATE) for arm in (SHARDS, BOX))
        found.append(f"{1e3 * shards:.0f}, {1e3 * box:.0f} and {2e3 / 3 * NETWORKS[name].seconds:.0f} ms ({name})")
    return ", ".join(found)


def draw(findings: Findings) -> Figure:
    """Draws throughput over MXNet's."""
    return training.draw(findings.table("steps"))


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "training of nine networks at 56 Gb/s, with a box or with shards",
    (HIDDEN, FASTER, LIMITED),
    measure,
    draw,
    networks=("queued",),
)

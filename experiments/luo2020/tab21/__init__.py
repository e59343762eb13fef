"""Table 2.1: the rate that a parameter server needs to hide communication."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.plans import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

WORKERS = 8
MODELS: Mapping[str, tuple[float, float]] = {
    "ResNet 269": (390e6, 0.350),
    "Inception": (91e6, 0.225),
    "GoogleNet": (38e6, 0.100),
    "AlexNet": (194e6, 0.016),
}
"""Size of a model in bytes, and time of a batch in seconds (Table 6.1)."""
PRINTED: Mapping[str, Mapping[str, int]] = {
    "ResNet 269": {"CC": 122, "CS": 31, "NCC": 140, "NCS": 17},
    "Inception": {"CC": 44, "CS": 11, "NCC": 50, "NCS": 6},
    "GoogleNet": {"CC": 40, "CS": 10, "NCC": 46, "NCS": 6},
    "AlexNet": {"CC": 1232, "CS": 308, "NCC": 1408, "NCS": 176},
}
PLACEMENTS = ("CC", "CS", "NCC", "NCS")
VALUES = Claim(
    "luo-01",
    "Table 2.1",
    "to hide communication, 8 workers with GTX 1080 Ti need these rates at the server, in Gb/s (CC, CS, NCC, NCS): "
    "ResNet 269 122, 31, 140, 17; Inception 44, 11, 50, 6; GoogleNet 40, 10, 46, 6; AlexNet 1232, 308, 1408, 176.",
)
RATIOS = Claim(
    "luo-tab21-ratios",
    "Table 2.1",
    "for one model, the rates of the four configurations are proportional to the bytes that a server's host sends and "
    "receives.",
)
WITHIN = 0.05
ROUNDED = 0.5
"""Rounding error of a printed number in Gb/s, because it has no decimals; if it was rounded down, twice that."""


def factor(placement: str) -> float:
    """Vectors that a server's host sends and receives in an exchange, counted from the plan."""
    helpers = {"CC": 0, "CS": 0, "NCC": 1, "NCS": WORKERS}[placement]
    nbytes, seats = WORKERS * 1000, WORKERS + helpers
    name = f"parameter_server(placement={placement})"
    found = count(name, "all_reduce", WORKERS, nbytes, [0] * seats)
    # If servers have their own seats, the last seat is a server's; otherwise every seat is, and the first will do.
    at = seats - 1 if helpers else 0
    return (found.sent_bytes[at] + found.received_bytes[at]) / nbytes


def measure(_: Runner) -> Findings:
    """Computes the rate at which the model's bytes pass the server's host in the time of a batch."""
    factors = {placement: factor(placement) for placement in PLACEMENTS}
    found = Table(
        "rates",
        "Gb/s that a server's host sends and receives if an exchange takes as long as a batch, and as printed",
        ("model", *PLACEMENTS, *(f"{each} printed" for each in PLACEMENTS)),
    )
    counted = Table("factors", "Bytes that a server's host sends and receives, in models", ("configuration", "models"))
    for placement, times in factors.items():
        counted.add(placement, times)
    for model, (nbytes, seconds) in MODELS.items():
        rates = [times * 8 * nbytes / seconds / 1e9 for times in factors.values()]
        found.add(model, *rates, *(PRINTED[model][each] for each in PLACEMENTS))
    return Findings([counted, found], [_values(found), _ratios(factors)])


def _values(found: Table) -> Verdict:
    off = {
        f"{model} {placement}": found.column(placement, model=model)[0] / printed - 1
        for model, row in PRINTED.items()
        for placement, printed in row.items()
        # Only differences larger than the rounding of the printed number.
        if abs(found.column(placement, model=model)[0] - printed) > 2 * ROUNDED
    }
    worst = max(off, key=lambda each: abs(off[each]))
    beyond = [name for name, error in off.items() if abs(error) > WITHIN]
    return VALUES.judged(
        not beyond,
        f"{16 - len(beyond)} of 16 within {WITHIN:.0%} or a digit; {worst} {100 * off[worst]:+.0f} %",
        "The rate is the bytes that the host sends and receives, 2 (N - 1), 4 (N - 1) / N, 2 N and 2 models, over the "
        "time of a batch. The printed rates imply other sizes or times than those of Table 6.1: 88 Gb/s per model for "
        "AlexNet, whereas 194 MB in 16 ms are 97 Gb/s.",
    )


def _ratios(factors: Mapping[str, float]) -> Verdict:
    # Estimate the rate of one model from the sum of a row, then compare each number of the row.
    far, worst = 0, 0.0
    for row in PRINTED.values():
        unit = sum(row.values()) / sum(factors.values())
        for placement, printed in row.items():
            error = abs(unit * factors[placement] - printed)
            worst = max(worst, error / printed)
            far += error > max(2 * ROUNDED, 0.01 * printed)
    texts = ", ".join(f"{placement} {times:g}" for placement, times in factors.items())
    return RATIOS.judged(
        far == 0,
        f"{texts} models; {16 - far} of 16 printed numbers are proportional, within a digit or 1 %",
        "Bytes are counted from the plans of the four configurations. In a colocated one, the data of the worker on "
        "the server's own host crosses no link.",
    )


def draw(findings: Findings) -> Figure:
    """Draws computed and printed rates."""
    found = findings.table("rates")
    figure, axes = plot.new(height=3.0)
    plot.grouped(axes, {each: found.column(each) for each in PLACEMENTS})
    for index, placement in enumerate(PLACEMENTS):
        at = [place + (index - 1.5) * 0.2 for place in range(len(MODELS))]
        label = "printed" if index == 0 else None
        axes.plot(at, found.column(f"{placement} printed"), "k_", markersize=12, label=label)
    axes.set_xticks(range(len(MODELS)), labels=list(MODELS))
    axes.set_yscale("log")
    plot.decimal_ticks(axes.yaxis)
    axes.set_ylabel("rate at the server's host [Gb/s]")
    axes.legend(ncols=2)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "the rate that a server needs to hide communication, in four configurations",
    (VALUES, RATIOS),
    measure,
    draw,
    networks=("none",),
)

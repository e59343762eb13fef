"""Figure 16: the number of interfaces of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.topoopt2022.cluster import MODELS, ONESHOT, TITLES, Setting, outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

DEGREES = (4, 6, 8, 10)
RATES = (40, 100)

CANDLE = Claim("topo-10-candle", "Fig. 16", "CANDLE gains almost linearly with the degree.")
DLRM = Claim("topo-10-dlrm", "Fig. 16", "DLRM gains more than linearly at 100 Gb/s.")
BERT = Claim("topo-10-bert", "Fig. 16", "BERT hardly gains.")


def measure(runner: Runner) -> Findings:
    """Searches for each degree and rate."""
    times = Table(
        "times",
        "Time of a training step on 128 servers, and the longest route",
        ("model", "gbps", "degree", "step_s", "diameter"),
    )
    for model in MODELS:
        for gbps in RATES:
            for degree in (4, 8) if runner.quick else DEGREES:
                found = outcome(runner, Setting(model, degree, gbps))
                times.add(TITLES[model], gbps, degree, found.step_s[ONESHOT], found.diameter)
    return Findings([times], [_candle(times), _dlrm(times), _bert(times)])


def gain(times: Table, model: str, gbps: int) -> tuple[float, float]:
    """How many times as fast a step is with the most interfaces as with the fewest, and the ratio of their numbers."""
    steps = times.column("step_s", model=model, gbps=gbps)
    degrees = times.column("degree", model=model, gbps=gbps)
    return steps[0] / steps[-1], degrees[-1] / degrees[0]


def _said(times: Table, model: str) -> str:
    parts = []
    for gbps in RATES:
        found, linear = gain(times, model, gbps)
        parts.append(f"{found:.3g}x at {gbps} Gb/s with {linear:.3g}x the interfaces")
    return ", ".join(parts)


def _candle(times: Table) -> Verdict:
    gains = [gain(times, "CANDLE", gbps) for gbps in RATES]
    return CANDLE.judged(
        all(found > 0.8 * linear for found, linear in gains),
        _said(times, "CANDLE"),
        "Its rings carry an all-reduce whose time is the bytes over the rate of all interfaces; compute does not "
        "shrink.",
    )


def _dlrm(times: Table) -> Verdict:
    found, linear = gain(times, "DLRM", 100)
    diameters = times.column("diameter", model="DLRM", gbps=100)
    return DLRM.judged(
        found > linear,
        _said(times, "DLRM"),
        f"More interfaces shorten routes, too: from {diameters[0]} links at most to {diameters[-1]}. But transfers "
        "are a few percent of all bytes, and compute bounds the step from below.",
    )


def _bert(times: Table) -> Verdict:
    gains = [gain(times, "BERT", gbps)[0] for gbps in RATES]
    return BERT.judged(
        max(gains) < 1.3,
        _said(times, "BERT"),
        "At 100 Gb/s, its step is all compute; at 40 Gb/s, the all-reduce is still longer than the backward pass.",
    )


def draw(findings: Findings) -> Figure:
    """Draws step time by degree."""
    times = findings.table("times")
    figure, axes = plot.new(len(MODELS), width=8.0, height=2.8)
    for at, model in zip(axes, MODELS, strict=True):
        for index, gbps in enumerate(RATES):
            degrees = times.column("degree", model=TITLES[model], gbps=gbps)
            steps = times.column("step_s", model=TITLES[model], gbps=gbps)
            plot.line(at, degrees, steps, f"{gbps} Gb/s", index)
        at.set_ylim(bottom=0)
        at.set_title(TITLES[model])
        at.set_xlabel("interfaces of a server")
    axes[0].set_ylabel("time of a step [s]")
    axes[0].legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent, "interfaces of a server", (CANDLE, DLRM, BERT), measure, draw, (), ("search",)
)

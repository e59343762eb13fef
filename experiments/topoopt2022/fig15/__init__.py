"""Figure 15: how fast circuits must change."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.topoopt2022.cluster import ALIKE, ONESHOT, TITLES, Setting, outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

MODELS = ("bert", "dlrm")
PAUSES = (1, 10, 100, 1000, 10_000)
"""Microseconds of a reconfiguration."""

MATCHES = Claim(
    "topo-09", "Fig. 15", "TopoOpt-reconfig matches TopoOpt-oneshot at a reconfiguration latency of 1 us and below."
)
GROWS = Claim("topo-fig15", "Fig. 15", "the slower the reconfiguration, the longer the step of DLRM.")


def measure(runner: Runner) -> Findings:
    """Times steps on circuits that change in 1 us to 10 ms."""
    times = Table(
        "times",
        "Time of a training step on 128 servers, d = 4, B = 100 Gb/s, by the latency of a reconfiguration",
        ("model", "latency_s", "reconfigured_s", "oneshot_s"),
    )
    for model in MODELS:
        for pause in (1, 10_000) if runner.quick else PAUSES:
            changes = {"reconfiguration": {"pause": f"{pause}us"}}
            found = outcome(runner, Setting(model, 4, 100, compare=("ideal", "reconfigured"), changes=changes))
            times.add(TITLES[model], pause * 1e-6, found.step_s["reconfigured"], found.step_s[ONESHOT])
    return Findings([times], [_matches(times), _grows(times)])


def _matches(times: Table) -> Verdict:
    ratios = {}
    for model in MODELS:
        slow, fast = (times.column(f"{name}_s", model=TITLES[model])[0] for name in ("reconfigured", "oneshot"))
        ratios[TITLES[model]] = slow / fast
    return MATCHES.judged(
        max(ratios.values()) <= ALIKE,
        ", ".join(f"{model} {ratio:.3g}x at 1 us" for model, ratio in ratios.items()),
        "The demand is measured every five latencies, as in the paper (50 ms with 10 ms).",
    )


def _grows(times: Table) -> Verdict:
    steps = times.column("reconfigured_s", model="DLRM")
    return GROWS.judged(
        all(b >= 0.99 * a for a, b in pairwise(steps)),
        ", ".join(f"{each * 1e3:.4g} ms" for each in steps),
        "Every server with a table sends to all others, so the step takes a number of reconfigurations that hardly "
        "depends on their latency.",
    )


def draw(findings: Findings) -> Figure:
    """Draws step time by latency."""
    times = findings.table("times")
    figure, axes = plot.new(len(MODELS), width=7.0, height=2.8)
    for at, model in zip(axes, MODELS, strict=True):
        title = TITLES[model]
        pauses = [each * 1e6 for each in times.column("latency_s", model=title)]
        plot.line(at, pauses, times.column("reconfigured_s", model=title), "TopoOpt-reconfig", 0)
        plot.line(at, pauses, times.column("oneshot_s", model=title), "TopoOpt-oneshot", 1)
        at.set_xscale("log")
        at.set_yscale("log")
        plot.decimal_ticks(at.yaxis)
        at.set_title(title)
        at.set_xlabel("latency of a reconfiguration [us]")
    axes[0].set_ylabel("time of a step [s]")
    axes[0].legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent, "latency of a reconfiguration", (MATCHES, GROWS), measure, draw, (), ("search",)
)

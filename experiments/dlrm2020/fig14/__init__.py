"""Figure 14: exposed communication of DLRM for several injection latencies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.dlrm2020.apart import Draws, judged
from experiments.dlrm2020.training import (
    AT_ONCE,
    NETWORKS,
    SYSTEMS,
    Runs,
    Training,
    compared,
    computing,
    drawn,
    iteration,
    lost,
    named,
)
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.quantity import digits, percent, time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.case import Case
    from experiments.harness.runner import Runner

LATENCIES = {"10 ns": "10ns", "1 us": "1us", "10 us": "10us", "100 us": "100us"}
KEY = "collectives.injection_latency"
FAR_MORE = 2.0
"""Flat systems degrade far more if their slowdown is more than this factor times that of the hierarchical ones."""
_PROBE_S = 1e-3
"""An injection latency far longer than all other times."""

STEPS = Claim(
    "dlrm-14",
    "IV.C, obs. 9",
    "steps of an all-reduce: 14 with the double binary tree on 128 nodes, 10 with A2A on 8 and a tree on 16.",
)
FALLS = Claim(
    "dlrm-fig14",
    "Fig. 14, obs. 9",
    "as the injection latency rises, the flat systems degrade far more than the hierarchical ones: from 10 ns to 100 "
    "us the share of compute falls on both, on flat800 far more than on hierOpt.",
)


def measure(runner: Runner) -> Findings:
    """Measures the share of exposed communication at every latency, and the number of steps of an all-reduce."""
    runs = Runs(runner)
    found = {
        (system, said): runs.training(system, _changes(latency))
        for system in SYSTEMS
        for said, latency in LATENCIES.items()
    }
    table = compared("Compute and exposed communication", found, "injection_latency")
    steps = Table(
        "steps",
        "Steps of an all-reduce of one chunk, from its latency with the network model analytical: the time that an "
        "injection latency adds, divided by the two injections of a step",
        ("system", "steps"),
    )
    for system in SYSTEMS:
        steps.add(system, _steps(runs, system))
    return Findings([table, steps], [_counted(runs, steps), *judged(found, lambda each: [_falls(each)])])


def simulated(runner: Runner) -> Sequence[Case]:
    """The cases that are simulated packet by packet."""
    runs = Runs(runner)
    return [
        case for system in SYSTEMS for latency in LATENCIES.values() for case in runs.cases(system, _changes(latency))
    ]


def _changes(latency: str) -> Mapping[str, Any]:
    return {KEY: latency}


def _steps(runs: Runs, system: str) -> int:
    """Steps of a small all-reduce, derived from the time that an injection latency adds."""
    small = {"workload": {"collective": "all_reduce", "bytes": "4KiB"}, "collectives.chunks": 1}
    times = [
        runs.alone(system, {**small, KEY: latency}).summary.total_time_s
        for latency in ("0s", f"{round(_PROBE_S * 1e9)}ns")
    ]
    return round((times[1] - times[0]) / (2 * _PROBE_S))


def _counted(runs: Runs, steps: Table) -> Verdict:
    count = dict(zip(steps.column("system"), steps.column("steps"), strict=True))
    return STEPS.judged(
        {count["flat100"], count["flat800"]} == {14} and {count["hier"], count["hierOpt"]} == {10},
        ", ".join(f"{system} {number}" for system, number in count.items()) + f" on {runs.nodes} nodes",
        "A tree on n nodes has log n levels, up and down; A2A has one step before it and one after.",
    )


def _falls(found: Mapping[tuple[str, str], Draws[Training]]) -> Verdict:
    first, last = (next(iter(LATENCIES)), list(LATENCIES)[-1])
    ends = {system: (found[system, first], found[system, last]) for system in SYSTEMS}
    slower = {system: after.median(iteration) / before.median(iteration) for system, (before, after) in ends.items()}
    return FALLS.judged(
        all(after.median(computing) < before.median(computing) for before, after in ends.values())
        and min(slower["flat100"], slower["flat800"]) > FAR_MORE * max(slower["hier"], slower["hierOpt"]),
        f"share of compute at {first} and {last}: "
        + ", ".join(
            f"{system} {before.said(computing, percent)} and {after.said(computing, percent)}"
            for system, (before, after) in ends.items()
        )
        + "; an iteration takes "
        + ", ".join(f"{digits(value)} times as long on {system}" for system, value in slower.items()),
        "64 chunks are under way in a dimension, and each waits for two injection latencies per step: 28 in all on "
        f"flat, 16 between super-nodes. At {last}, 64 chunks take {time(28e-4)} and {time(16e-4)} even on infinitely "
        f"fast links, and a set has up to 1024 chunks on flat and 128 on the others. {lost(named(found))}",
    )


def draw(findings: Findings) -> Figure:
    """Draws a panel for each system."""
    return drawn(findings.table("shares"), "injection_latency", "injection latency")


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "shares of exposed communication and compute of DLRM, for several injection latencies",
    (STEPS, FALLS),
    measure,
    draw,
    (AT_ONCE,),
    NETWORKS,
    simulated,
)

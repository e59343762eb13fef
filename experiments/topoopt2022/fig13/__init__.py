"""Figure 13: a dedicated cluster of 128 servers with eight interfaces each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.topoopt2022 import fig12
from experiments.topoopt2022.cluster import between, draw_sweep, mean, over, sweep

if TYPE_CHECKING:
    from experiments.harness.runner import Runner
    from experiments.harness.table import Table

DEGREE = 8

MEAN = Claim(
    "topo-08", "Fig. 12-13", "over all points, TopoOpt-oneshot is 2.2 times as fast as the fat-tree of the same cost."
)
SAME = Claim("topo-fig13", "Fig. 13", "eight interfaces do not change the order of TopoOpt-oneshot and both fat-trees.")


def measure(runner: Runner) -> Findings:
    """Searches on every network, by model and rate; Figure 12 supplies four interfaces."""
    times = sweep(runner, DEGREE)
    before = sweep(runner, fig12.DEGREE)
    return Findings([times], [_mean(before, times), _same(times)])


def _mean(before: Table, times: Table) -> Verdict:
    ratios = [*over(before, "same_price"), *over(times, "same_price")]
    return MEAN.judged(
        abs(mean(ratios) / 2.2 - 1) < 0.1,
        f"{mean(ratios):.3g}x on average, {between(ratios)}",
        "Four interfaces cost as much as a fat-tree with 1.9 times the rate of one, eight as much as one with 3.9 "
        "times "
        "it, by Table 3: at most a factor of 2.1 if only the rate counts. Compute takes part of the step on both "
        "networks, and reduces the factor.",
    )


def _same(times: Table) -> Verdict:
    ideal, equal = over(times, "ideal"), over(times, "same_price")
    return SAME.judged(
        max(ideal) <= 1.05 and min(equal) >= 1 / 1.05,
        f"ideal fat-tree {between(ideal)} and fat-tree of the same cost {between(equal)} the step of TopoOpt-oneshot",
        "The ideal fat-tree gives a server the rate of all its interfaces towards any other one.",
    )


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "a dedicated cluster of 128 servers, d = 8",
    (MEAN, SAME),
    measure,
    draw_sweep,
    (),
    ("search",),
)

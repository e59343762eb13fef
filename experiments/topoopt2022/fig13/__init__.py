"""Figure 13: a dedicated cluster of 128 servers with eight interfaces each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.topoopt2022 import fig12
from experiments.topoopt2022.cluster import between, draw_sweep, mean, over, plain, sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.harness.runner import Runner
    from experiments.harness.table import Table

DEGREE = 8

MEAN = Claim(
    "topo-08", "Fig. 12-13", "over all points, TopoOpt-oneshot is 2.2 times as fast as the fat-tree of the same cost."
)
SAME = Claim(
    "topo-fig13",
    "Fig. 13",
    "with eight interfaces, too, the ideal fat-tree is at least as fast as TopoOpt-oneshot, which is at least as fast "
    "as the fat-tree of the same cost.",
)


def measure(runner: Runner) -> Findings:
    """Searches on every network, by model and rate; Figure 12 supplies four interfaces."""
    times = sweep(runner, DEGREE)
    before = sweep(runner, fig12.DEGREE)
    parallel = [plain(runner, degree) for degree in (fig12.DEGREE, DEGREE)]
    return Findings([times, parallel[1]], [_mean(before, times, parallel), _same(times)])


def _mean(before: Table, times: Table, parallel: Sequence[Table]) -> Verdict:
    ratios = [*over(before, "same_price"), *over(times, "same_price")]
    plain_ratios = [ratio for table in parallel for ratio in over(table, "same_price")]
    return MEAN.judged(
        abs(mean(ratios) / 2.2 - 1) < 0.1,
        f"{mean(ratios):.3g}x on average, {between(ratios)}; with data parallelism {mean(plain_ratios):.3g}x on "
        f"average, {between(plain_ratios)}",
        "By Table 3, four interfaces of 100 Gb/s cost as much as a fat-tree with 1.9 times the rate of one, so direct "
        "links can be twice as fast. At 10 Gb/s, four interfaces cost more than a fat-tree with the rate of all four: "
        "optical parts cost the same at any rate. And on a fat-tree the search finds strategies that send more and "
        "reduce less.",
    )


def _same(times: Table) -> Verdict:
    ideal, equal = over(times, "ideal"), over(times, "same_price")
    return SAME.judged(
        max(ideal) <= 1.05 and min(equal) >= 1 / 1.05,
        f"ideal fat-tree {between(ideal)} and fat-tree of the same cost {between(equal)} the step of TopoOpt-oneshot",
        "By Table 3, a fat-tree of the same cost is the faster network for CANDLE and DLRM up to 40 Gb/s, and for "
        "BERT up to 25 Gb/s: optical parts cost the same at any rate.",
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

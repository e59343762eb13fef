"""Figure 12: a dedicated cluster of 128 servers with four interfaces each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.topoopt2022.cluster import COMPARED, alike, between, draw_sweep, mean, over, plain, sweep

if TYPE_CHECKING:
    from experiments.harness.runner import Runner
    from experiments.harness.table import Table

DEGREE = 4
FLAT = 2.0
"""Largest ratio between the steps on the slowest and on the fastest links that counts as flat."""

CANDLE = Claim(
    "topo-05",
    "Fig. 12a",
    "CANDLE: the ideal fat-tree, TopoOpt-oneshot, TopoOpt-reconfig and SiP-ML are alike; the fat-tree of the same "
    "cost is 2.8 times as slow on average; the expander is worst.",
)
BERT = Claim(
    "topo-06", "Fig. 12b", "BERT: TopoOpt-oneshot, the ideal fat-tree and SiP-ML are alike; TopoOpt-reconfig is slower."
)
DLRM = Claim(
    "topo-07",
    "Fig. 12c",
    "DLRM: TopoOpt-oneshot is close to the ideal; SiP-ML and TopoOpt-reconfig are flat in bandwidth, and the latter is "
    "about two orders of magnitude slower.",
)


def measure(runner: Runner) -> Findings:
    """Searches on every network, by model and rate."""
    times, parallel = sweep(runner, DEGREE), plain(runner, DEGREE)
    return Findings([times, parallel], [_candle(times, parallel), _bert(times), _dlrm(times)])


def _candle(times: Table, parallel: Table) -> Verdict:
    equal = over(times, "same_price", "CANDLE")
    rows = list(zip(*(times.column(f"{name}_s", model="CANDLE") for name in ("oneshot", *COMPARED)), strict=True))
    expander = 1 + list(COMPARED).index("expander")
    worst = all(row[expander] == max(row) for row in rows)
    ideal = alike(times, ("ideal", "oneshot", "reconfigured", "sip_ml"), "CANDLE")
    others = {name: over(times, name, "CANDLE") for name in ("ideal", "reconfigured", "sip_ml", "expander")}
    same = between(over(parallel, "ideal", "CANDLE"))
    return CANDLE.judged(
        ideal and abs(mean(equal) / 2.8 - 1) < 0.1 and worst,
        f"same cost {mean(equal):.3g}x on average; "
        + ", ".join(f"{COMPARED[name]} {between(each)}" for name, each in others.items()),
        f"With data parallelism, the paper's strategy, the ideal fat-tree takes {same} the step of TopoOpt-oneshot. "
        "But our search finds strategies that put each layer on some of the servers. They reduce gradients in smaller "
        "groups and send activations across, which suits a switch better than few direct links. By Table 3, a fat-tree "
        "of the same cost has 1.9 times the rate of one link of 100 Gb/s, and more than all four links of 10 Gb/s.",
    )


def _bert(times: Table) -> Verdict:
    others = {name: over(times, name, "BERT") for name in ("ideal", "sip_ml", "reconfigured")}
    return BERT.judged(
        alike(times, ("ideal", "oneshot", "sip_ml"), "BERT") and min(others["reconfigured"]) > 1.0,
        ", ".join(f"{COMPARED[name]} {between(each)}" for name, each in others.items()),
        "The best strategy is data parallelism, which keeps the same circuits from one step to the next, so that "
        "reconfiguration costs nothing once they are set. The paper's strategy has transfers between operators.",
    )


def _dlrm(times: Table) -> Verdict:
    ideal = over(times, "ideal", "DLRM")
    sip, reconfigured = (times.column(f"{name}_s", model="DLRM") for name in ("sip_ml", "reconfigured"))
    apart = [slow / fast for slow, fast in zip(reconfigured, sip, strict=True)]
    flat = [max(each) / min(each) for each in (sip, reconfigured)]
    return DLRM.judged(
        min(ideal) > 1 / 1.5 and max(flat) < FLAT and 30 < mean(apart) < 300,
        f"ideal {between(ideal)} the step of TopoOpt-oneshot; from the slowest to the fastest links SiP-ML "
        f"{flat[0]:.3g}x, TopoOpt-reconfig {flat[1]:.3g}x; TopoOpt-reconfig {between(apart)} the step of SiP-ML",
        "A server with a table sends its output to all others, and receives gradients from them. Without forwarding, "
        "it reaches four of 127 in each period of 50 ms between two measurements, so 32 periods are 1.6 s, whatever "
        "the rate. SiP-ML's period is 125 us, which counts the more the less time the bytes take.",
    )


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "a dedicated cluster of 128 servers, d = 4",
    (CANDLE, BERT, DLRM),
    measure,
    draw_sweep,
    (),
    ("search",),
)

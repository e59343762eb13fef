"""Figure 16: performance per cost."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.hier2021.layers import CHOICES, SCHEMES, TOPOLOGIES, WORKLOADS, mean, near, panels, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

RATIOS = Claim(
    "hier-07",
    "Fig. 16",
    "performance per cost over EqualBW: MessageBW 8.52 times on average (17.02 at most), SmartBW 5.51 (15.37).",
)
ORDER = Claim("hier-fig16-order", "VI-C", "MessageBW is best in performance per cost, SmartBW second, EqualBW worst.")
DROPS = Claim("hier-fig16-drops", "VI-C", "performance per cost drops as the budget grows.")
CLAIMED = {"MessageBW": (8.52, 17.02), "SmartBW": (5.51, 15.37)}


def measure(runner: Runner) -> Findings:
    """Computes layers per second and dollar for every run."""
    swept = Table(
        "per_cost",
        "Layers per second and million dollars",
        ("model", "topology", "budget", *SCHEMES),
        listed=False,
    )
    for runs in sweep(runner):
        one = runs["EqualBW"]
        swept.add(
            one.system.workload, one.system.topology, one.budget, *(1e6 * runs[scheme].per_cost for scheme in SCHEMES)
        )
    over = Table(
        "over",
        "Performance per cost over that of EqualBW, over models, networks and budgets",
        ("scheme", "mean_ratio", "max_ratio", "where"),
    )
    for scheme in SCHEMES[1:]:
        found = _over(swept, scheme)
        most = max(range(len(found)), key=lambda at: found[at])
        model, topology, budget = swept.rows[most][:3]
        over.add(scheme, mean(found), max(found), f"{model} {topology}, {budget} GB/s")
    return Findings([swept, over], [_ratios(over), _order(swept), _drops(swept)])


def _over(swept: Table, scheme: str) -> list[float]:
    return [a / b for a, b in zip(swept.column(scheme), swept.column("EqualBW"), strict=True)]


def _ratios(over: Table) -> Verdict:
    found = {
        scheme: (over.column("mean_ratio", scheme=scheme)[0], over.column("max_ratio", scheme=scheme)[0])
        for scheme in CLAIMED
    }
    return RATIOS.judged(
        all(
            near(each, claimed)
            for scheme in CLAIMED
            for each, claimed in zip(found[scheme], CLAIMED[scheme], strict=True)
        ),
        ", ".join(
            f"{scheme} {average:.3g} on average, {most:.3g} at most" for scheme, (average, most) in found.items()
        ),
        "As for the cost (Figure 15), the largest ratios are close to the paper's, and averages are above the paper's.",
    )


def _order(swept: Table) -> Verdict:
    message, smart = _over(swept, "MessageBW"), _over(swept, "SmartBW")
    wins = sum(a >= b * (1 - 1e-9) for a, b in zip(message, smart, strict=True))
    return ORDER.judged(
        wins == len(message) and min(smart) > 1,
        f"MessageBW is at least as good as SmartBW in {wins} of {len(message)} cases, SmartBW better than EqualBW in "
        f"{sum(each > 1 for each in smart)}",
        "Wherever the last dimension's share of the bytes is smaller than its share of their square roots, MessageBW "
        "gives this expensive dimension less bandwidth than SmartBW.",
    )


def _drops(swept: Table) -> Verdict:
    falls = total = 0
    for model in WORKLOADS:
        for topology in TOPOLOGIES:
            for scheme in SCHEMES:
                values = swept.column(scheme, model=model, topology=topology)
                falls += sum(after < before for before, after in pairwise(values))
                total += len(values) - 1
    return DROPS.judged(
        falls == total,
        f"from one budget to the next in {falls} of {total} cases",
        "Cost is proportional to the budget; speed is not, because compute takes the same time.",
    )


def draw(findings: Findings) -> Figure:
    """Draws performance per cost over that of EqualBW at the smallest budget."""
    label = "performance per cost over that of EqualBW with 100 GB/s"
    figure = panels(findings.table("per_cost"), {scheme: scheme for scheme in SCHEMES}, label, over_first=True)
    for axes in figure.axes:
        axes.set_yscale("log")
        plot.decimal_ticks(axes.yaxis)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "performance per cost of a budget divided in three ways",
    (RATIOS, ORDER, DROPS),
    measure,
    draw,
    CHOICES,
    ("analytical",),
)

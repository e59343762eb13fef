"""Figure 15: the cost of networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.hier2021.layers import SCHEMES, budgets, mean, near, panels, systems

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

ORDER = Claim("hier-fig15-order", "VI-C", "EqualBW costs most, and SmartBW more than MessageBW.")
RATIOS = Claim(
    "hier-fig15-ratios",
    "VI-C",
    "compared with MessageBW, one scheme costs 7.77 times as much on average and 13.82 at most, the other 1.65 and "
    "4.13 (the text names SmartBW first, which contradicts its own order, so here EqualBW is taken as the first).",
)
CLAIMED = {"EqualBW": (7.77, 13.82), "SmartBW": (1.65, 4.13)}


def measure(runner: Runner) -> Findings:
    """Computes the cost of each scheme's network, which is proportional to the budget."""
    costs = Table(
        "costs",
        "Cost of a network of 1,024 NPUs per GB/s of an NPU's budget, in thousand dollars",
        ("model", "topology", *SCHEMES),
    )
    for system in systems(runner):
        each = [system.price.usd([share * 1e9 for share in system.division(scheme).shares]) / 1e3 for scheme in SCHEMES]
        costs.add(system.workload, system.topology, *each)
    swept = Table("swept", "The same by budget", ("model", "topology", "budget", *SCHEMES), listed=False)
    for system in systems(runner):
        for budget in budgets(runner):
            rates = [[share * budget * 1e9 for share in system.division(scheme).shares] for scheme in SCHEMES]
            swept.add(system.workload, system.topology, budget, *(system.price.usd(each) for each in rates))
    return Findings([costs, swept], [_order(costs), _ratios(costs)])


def _over(costs: Table, scheme: str) -> list[float]:
    return [a / b for a, b in zip(costs.column(scheme), costs.column("MessageBW"), strict=True)]


def _order(costs: Table) -> Verdict:
    equal, smart = _over(costs, "EqualBW"), _over(costs, "SmartBW")
    ordered = all(a >= b >= 1 - 1e-9 for a, b in zip(equal, smart, strict=True))
    least = min(range(len(smart)), key=lambda at: smart[at])
    return ORDER.judged(
        ordered,
        f"over MessageBW, EqualBW {min(equal):.3g} to {max(equal):.3g}, SmartBW {min(smart):.3g} to {max(smart):.3g}",
        "The last dimension is a switch, whose cards and ports cost 36 times as much as a cable; EqualBW gives it the "
        f"most bandwidth. Relative to MessageBW, SmartBW costs least for {costs.rows[least][0]} on "
        f"{costs.rows[least][1]}, where the shared dimension is the last one and the root of its bytes is less than "
        "their part of the sum.",
    )


def _ratios(costs: Table) -> Verdict:
    found = {scheme: _over(costs, scheme) for scheme in CLAIMED}
    return RATIOS.judged(
        all(
            near(mean(found[scheme]), claimed[0]) and near(max(found[scheme]), claimed[1])
            for scheme, claimed in CLAIMED.items()
        ),
        ", ".join(f"{scheme} {mean(each):.3g} on average, {max(each):.3g} at most" for scheme, each in found.items()),
        "A cable counts once, at its rate in one direction, as in the paper's example. The largest ratios are within "
        "5 % of the paper's; averages are above the paper's, which does not say how it counts rings and full "
        "connections.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the cost by budget."""
    return panels(findings.table("swept"), {scheme: scheme for scheme in SCHEMES}, "cost [million $]", unit=1e6)


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "cost of networks with budgets divided in three ways",
    (ORDER, RATIOS),
    measure,
    draw,
    (),
    ("analytical",),
)

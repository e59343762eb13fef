"""Figure 12 and Table II: what a network costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

FOLDER = Path(__file__).parent
EXAMPLE = Claim("hier-01", "Fig. 12", "3 NPUs around one switch with links of 10 GB/s: the network costs $2,220.")


def measure(runner: Runner) -> Findings:
    """Computes the bill of the example."""
    result = runner.simulate(FOLDER / "example.yaml")
    bill = result.table("costs")
    found = Table("bill", "The bill by Table II", ("item", "quantity", "unit price", "cost"))
    for component, quantity, each, usd in zip(
        bill["component"], bill["quantity"], bill["unit_usd"], bill["cost_usd"], strict=True
    ):
        found.add(component, quantity, each, usd)
    total = sum(bill["cost_usd"])
    verdict = EXAMPLE.judged(
        abs(total - 2220) < 0.5,
        f"${total:,.0f}",
        "A cable counts once, at its rate in one direction. Every link between an NPU and a switch needs a card. A "
        "switch costs by its ports and their rate.",
    )
    return Findings([found], [verdict])


def draw(findings: Findings) -> Figure:
    """Draws the bill as one bar."""
    bill = findings.table("bill")
    figure, axes = plot.new(height=1.8)
    left = 0.0
    for at, (item, usd) in enumerate(zip(bill.column("item"), bill.column("cost"), strict=True)):
        axes.barh([0], [usd], left=[left], color=plot.COLOURS[at], label=f"{item} ${usd:,.0f}")
        left += usd
    axes.set_yticks([])
    axes.set_xlabel("cost [$]")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return figure


EXPERIMENT = Experiment(
    FOLDER, "the cost of three NPUs around a switch", (EXAMPLE,), measure, draw, (), ("analytical",)
)

"""The chart of the fabric's cost: its bill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import component, counted, money, percent
from syncline.report import subject
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from syncline.report.html.source import Source

DRAWN = 40
"""Maximum number of lines of the bill that are drawn."""


def cost(source: Source) -> Chart | None:
    """The bill, most expensive line first."""
    columns = ("part", "description", "quantity", "unit_usd", "cost_usd", "power_w")
    table = source.table("costs", "component", *columns)
    total = source.summary.cost_usd
    if table is None or not total:
        return None
    lines = sorted(range(len(table["cost_usd"])), key=lambda row: -table["cost_usd"][row])
    shown = lines[:DRAWN]
    sums: dict[str, float] = {}
    for name, usd in zip(table["component"], table["cost_usd"], strict=True):
        sums[name] = sums.get(name, 0.0) + usd
    most = max(sums, key=lambda name: sums[name])
    worth = subject.values(source.summary)
    buys = f" Performance: {worth}." if worth else ""
    prices = source.scenario.get("prices", {})
    left = len(lines) - len(shown)
    return Chart(
        "cost",
        "What the network costs",
        f"{subject.cost(source.summary)} {percent(sums[most] / total)} of it is {component(most)}:"
        f" {money(sums[most])}.{buys}",
        "A bar is a line of the bill: what is bought, and for which dimension, tier of links or level of switches. A"
        " cable is counted once. Performance per dollar is training iterations per second over the price of the whole"
        f" network, which includes NPUs only if the list has their price. The list is {prices.get('name', '')} of"
        f" {prices.get('year', '')}: {prices.get('source', '')}.",
        {
            "component": [component(table["component"][row]) for row in shown],
            "part": [table["part"][row] for row in shown],
            "which": [table["description"][row] for row in shown],
            "count": [table["quantity"][row] for row in shown],
            "each": [table["unit_usd"][row] for row in shown],
            "usd": rounded([table["cost_usd"][row] for row in shown]),
            "watts": [table["power_w"][row] for row in shown],
            "total": total,
        },
        (f"The {DRAWN} most expensive lines are drawn; {counted(left, 'line')} more cost less.",) if left else (),
    )

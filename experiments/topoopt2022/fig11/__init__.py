"""Figure 11: what networks cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.topoopt2022.cluster import mean
from syncline.design import joint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

SERVERS = (128, 432, 1024)
PANELS = ((4, 100), (8, 200))
"""Interfaces of a server, and Gb/s of each."""
COLUMNS = {
    "oneshot": "TopoOpt-oneshot",
    "reconfig": "TopoOpt-reconfig",
    "ideal": "Ideal Fat-tree",
    "equal": "Cost-equiv. Fat-tree",
    "oversub": "Oversub. Fat-tree",
    "expander": "Expander",
}
"""Columns of the table, with the paper's names."""
COMPARED = {
    "reconfig": "reconfigured",
    "ideal": "ideal",
    "equal": "same_price",
    "oversub": "oversubscribed",
    "expander": "expander",
}
"""Columns of the table, with the search's names."""

IDEAL = Claim("topo-04-ideal", "5.2", "an ideal fat-tree costs 3.4 times as much as TopoOpt-oneshot on average.")
OPTICAL = Claim(
    "topo-04-ocs", "5.2", "optical circuit switches make TopoOpt 1.33 times as expensive as patch panels on average."
)
CHEAPEST = Claim("topo-04-expander", "5.2", "the expander is the cheapest network.")


def measure(_: Runner) -> Findings:
    """Prices every network by Table 3."""
    costs = Table("costs", "Cost of the network, in million dollars", ("d", "gbps", "servers", *COLUMNS))
    for degree, gbps in PANELS:
        for servers in SERVERS:
            spec = {
                "model": "bert",
                "servers": servers,
                "degree": degree,
                "link": f"{gbps}Gb/s",
                "compare": [*COMPARED.values()],
            }
            request = joint.read(spec)
            usd = {each.name: each.usd or 0.0 for each in joint.baselines_of(request)}
            known = {column: usd[name] for column, name in COMPARED.items()}
            known["oneshot"] = joint.direct_usd(request)
            costs.add(degree, gbps, servers, *(known[column] / 1e6 for column in COLUMNS))
    return Findings([costs], [_ideal(costs), _optical(costs), _cheapest(costs)])


def _over(costs: Table, name: str) -> list[float]:
    return [a / b for a, b in zip(costs.column(name), costs.column("oneshot"), strict=True)]


def _ideal(costs: Table) -> Verdict:
    ratios = _over(costs, "ideal")
    return IDEAL.judged(
        abs(mean(ratios) / 3.4 - 1) < 0.1,
        f"{mean(ratios):.3g} times on average; "
        + ", ".join(
            f"d = {d}, {gbps} Gb/s {mean(ratios[at * 3 : at * 3 + 3]):.3g}" for at, (d, gbps) in enumerate(PANELS)
        ),
        "A fat-tree of three tiers takes, per server, one NIC, six transceivers, five switch ports and three fibres of "
        "d x B. Parts above 200 Gb/s are not in the table: they are priced as several of the largest part that is.",
    )


def _optical(costs: Table) -> Verdict:
    ratios = _over(costs, "reconfig")
    return OPTICAL.judged(
        abs(mean(ratios) / 1.33 - 1) < 0.1,
        f"{mean(ratios):.3g} times on average, {min(ratios):.3g} to {max(ratios):.3g}",
        "An interface takes one port of a switch ($520) instead of two ports of patch panels ($200) and a 1x2 switch "
        "($25). The lengths of fibres and the number of fibres per port are not given.",
    )


def _cheapest(costs: Table) -> Verdict:
    cheapest = [min(COLUMNS, key=lambda name: costs.column(name)[at]) for at in range(len(costs.rows))]
    ratios = _over(costs, "expander")
    return CHEAPEST.judged(
        set(cheapest) == {"expander"},
        f"{min(ratios):.3g} to {max(ratios):.3g} of the cost of TopoOpt-oneshot",
        "Its interfaces are joined by fixed fibres. Parts of SiP-ML, the most expensive network of the figure, have no "
        "price in Table 3.",
    )


def draw(findings: Findings) -> Figure:
    """Draws cost by number of servers."""
    costs = findings.table("costs")
    figure, axes = plot.new(len(PANELS), width=7.5, height=3.2)
    for at, (degree, gbps) in zip(axes, PANELS, strict=True):
        for index, (name, title) in enumerate(COLUMNS.items()):
            plot.line(at, SERVERS, costs.column(name, d=degree), title, index)
        at.set_xscale("log")
        at.set_yscale("log")
        at.set_xticks(SERVERS, labels=[str(each) for each in SERVERS], minor=False)
        at.tick_params(axis="x", which="minor", bottom=False)
        plot.decimal_ticks(at.yaxis)
        at.set_title(f"d = {degree}, B = {gbps} Gb/s")
        at.set_xlabel("servers")
    axes[0].set_ylabel("cost [million $]")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent, "cost of networks", (IDEAL, OPTICAL, CHEAPEST), measure, draw, (), ("search",)
)

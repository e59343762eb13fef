"""Table 3: cost of network components."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.design import joint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

RATES = (10, 25, 40, 100, 200)
"""Gb/s of a link."""
PARTS = {
    "transceiver": "transceiver",
    "nic": "NIC",
    "switch_port": "electrical switch port",
    "patch_panel_port": "patch panel port",
    "ocs_port": "OCS port",
    "optical_switch": "1x2 switch",
}
"""Columns of the table, with the paper's names."""
OPTICAL = ("patch_panel_port", "ocs_port", "optical_switch")

CONSTANT = Claim(
    "topo-tab3-optical", "5.2", "the cost of optical components stays constant as link bandwidth increases."
)
BILL = Claim(
    "topo-tab3-bill",
    "5.2",
    "TopoOpt-oneshot costs 2 d patch panels and 1x2 switches at each link, beside NICs, transceivers and fibres.",
)


def measure(_: Runner) -> Findings:
    """Lists the parts that `syncline design joint` prices direct links with."""
    costs = Table("costs", "Cost of a component, in dollars", ("gbps", *PARTS))
    bills = []
    for gbps in RATES:
        request = joint.read({"model": "bert", "servers": 128, "degree": 4, "link": f"{gbps}Gb/s"})
        costs.add(gbps, *(_usd(request.prices["components"][part], gbps) for part in PARTS))
        bills.append(joint.direct_usd(request) / (128 * 4))
    return Findings([costs], [_constant(costs), _bill(costs, bills)])


def _usd(part: dict[str, object], gbps: int) -> float:
    """The price of a part at a rate."""
    by_rate = part.get("by_rate")
    if not isinstance(by_rate, list):
        return float(str(part["usd"]))
    return next(float(each["usd"]) for each in by_rate if each["rate"] == f"{gbps}Gb/s")


def _constant(costs: Table) -> Verdict:
    spread = {part: set(costs.column(part)) for part in OPTICAL}
    return CONSTANT.judged(
        all(len(usd) == 1 for usd in spread.values()) and len(set(costs.column("nic"))) > 1,
        ", ".join(f"{PARTS[part]} ${min(usd):g} at every rate" for part, usd in spread.items()),
        "Light passes through them whatever it carries. NICs, transceivers and switch ports do cost more at higher "
        "rates.",
    )


def _bill(costs: Table, bills: list[float]) -> Verdict:
    # 30 cents a metre, and 500 m on average.
    fibre = 0.3 * 500
    added = [
        nic + transceiver + 2 * panel + switch + fibre
        for nic, transceiver, panel, switch in zip(
            *(costs.column(part) for part in ("nic", "transceiver", "patch_panel_port", "optical_switch")), strict=True
        )
    ]
    return BILL.judged(
        all(abs(a / b - 1) < 1e-9 for a, b in zip(added, bills, strict=True)),
        "an interface: " + ", ".join(f"${usd:,.0f} at {gbps} Gb/s" for gbps, usd in zip(RATES, bills, strict=True)),
        "The parts of the table, added up, are the bill of `design joint`: a NIC, a transceiver, two ports of patch "
        "panels, a 1x2 switch and 500 m of fibre.",
    )


def draw(findings: Findings) -> Figure:
    """Draws cost by rate."""
    costs = findings.table("costs")
    figure, axis = plot.new(width=6.0, height=3.2)
    for index, (part, title) in enumerate(PARTS.items()):
        plot.line(axis, costs.column("gbps"), costs.column(part), title, index)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xticks(RATES, labels=[str(each) for each in RATES], minor=False)
    axis.tick_params(axis="x", which="minor", bottom=False)
    plot.decimal_ticks(axis.yaxis)
    axis.set_xlabel("Gb/s of a link")
    axis.set_ylabel("cost [$]")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent, "cost of network components", (CONSTANT, BILL), measure, draw, (), ("search",)
)

"""Table 1: optical switching technologies."""

from __future__ import annotations

from math import log10
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.design.joint import known_switches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

PORTS = Claim(
    "topo-tab1-ports",
    "4",
    "each port of an optical circuit switch is five times as expensive as one of a patch panel, and it has a third of "
    "the ports.",
)
SPEED = Claim("topo-tab1-speed", "4", "it changes circuits four orders of magnitude faster.")
LOSS = Claim("topo-tab1-loss", "4", "it loses more light.")


def measure(_: Runner) -> Findings:
    """Lists what the package knows of each technology."""
    found = Table(
        "switches",
        "Optical switches, as `syncline design joint` knows them",
        ("technology", "ports", "reconfiguration_s", "loss_from", "loss_to", "port_usd"),
    )
    for each in known_switches().values():
        found.add(each.title, each.ports, each.reconfiguration_s, *each.insertion_loss_db, each.port_usd)
    return Findings([found], [_ports(), _speed(), _loss()])


def _ports() -> Verdict:
    known = known_switches()
    panel, mems = known["patch_panel"], known["mems_3d"]
    price, ports = (mems.port_usd or 0) / (panel.port_usd or 1), panel.ports / mems.ports
    return PORTS.judged(
        4.5 < price < 5.5 and 2.5 < ports < 3.5,
        f"$520 a port over $100: {price:.2g}x; {panel.ports:,} ports over {mems.ports}: {ports:.2g}x",
        "Prices and ports are those of one product of each kind.",
    )


def _speed() -> Verdict:
    known = known_switches()
    orders = log10(known["patch_panel"].reconfiguration_s / known["mems_3d"].reconfiguration_s)
    return SPEED.judged(
        3.5 < orders < 4.7,
        f"5 minutes over 10 ms: {orders:.2g} orders of magnitude",
        "The table says minutes for patch panels; here they take five.",
    )


def _loss() -> Verdict:
    known = known_switches()
    panel, mems = known["patch_panel"].insertion_loss_db, known["mems_3d"].insertion_loss_db
    return LOSS.judged(mems[0] > panel[1], f"{mems[0]} to {mems[1]} dB, instead of {panel[1]} dB", "From the table.")


def draw(findings: Findings) -> Figure:
    """Draws ports by the time of a reconfiguration."""
    found = findings.table("switches")
    figure, axis = plot.new(width=6.0, height=3.2)
    for name, ports, seconds in zip(
        *(found.column(each) for each in ("technology", "ports", "reconfiguration_s")), strict=True
    ):
        axis.scatter(seconds, ports, color=plot.BLUE)
        axis.annotate(name, (seconds, ports), xytext=(6, 4), textcoords="offset points", fontsize=8)
    axis.set_xscale("log")
    axis.set_xlim(1e-9, 1e5)
    axis.set_ylim(0, 1150)
    axis.set_xlabel("time of a reconfiguration [s]")
    axis.set_ylabel("ports of a switch")
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent, "optical switching technologies", (PORTS, SPEED, LOSS), measure, draw, (), ("none",)
)

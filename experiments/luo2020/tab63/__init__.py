"""Table 6.3: throughput for $1000."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import syncline
from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

PRINTED: Mapping[str, tuple[float, float, float]] = {
    "100Gb sharded 1:1": (46.11, 14.57, 60.41),
    "25Gb hub 1:1": (55.19, 15.30, 77.21),
    "25Gb hub 2:1": (57.71, 15.49, 82.24),
    "25Gb hub 3:1": (59.03, 15.58, 84.95),
}
"""Images a second per $1000: future GPUs, spendy, cheap."""
COLUMNS = ("future GPUs", "spendy", "cheap")
DEPLOYMENTS: Mapping[str, tuple[int, int]] = {
    "25Gb hub 1:1": (44, 1), "25Gb hub 2:1": (65, 2), "25Gb hub 3:1": (76, 3),
}  # fmt: skip
"""Workers that share a hub, and oversubscription."""
BASE = "100Gb sharded 1:1"
HUB_USD = 8407
"""Price of a hub's machine without network cards (6.1.10)."""
HUB_PORTS, DUAL_USD = 20, 162.5
"""Number of ports of a hub, on cards with two ports, and the price per port."""
CLAIM = Claim(
    "luo-04",
    "Table 6.3",
    "throughput for $1000 of 25 GbE with a hub, 2:1, over 100 GbE with sharded servers, 1:1: future GPUs 1.25, spendy "
    "1.06, cheap 1.36.",
)
ORDER = Claim("luo-tab63-order", "Table 6.3", "each deployment buys more throughput than the one before it.")
CLAIMED = (1.25, 1.06, 1.36)
WITHIN = 0.05


@cache
def units(rate: str) -> dict[str, float]:
    """Unit prices of the parts of a network of that rate, from the shipped price list."""
    bill = syncline.simulate(
        fabric={"fat_tree": {"k": 8, "oversubscription": 1, "rate": rate}},
        workload={"collective": "all_reduce", "bytes": "4B"},
        prices="luo2020",
    ).table("costs")
    return dict(zip(bill["component"], bill["unit_usd"], strict=True))


def attached(rate: str, over: int, nic: float | None = None) -> float:
    """Cost of a machine's share of the network: A = (N + S + C) + (4 S + 2 C) / F."""
    usd = units(rate)
    port, cable = usd["switch_port"], usd["link"]
    return (usd["nic"] if nic is None else nic) + port + cable + (4 * port + 2 * cable) / over


def worker(deployment: str) -> float:
    """Cost in dollars of a worker with its share of the network and the hub."""
    if deployment == BASE:
        return units("100Gb/s")["npu"] + attached("100Gb/s", 1)
    workers, over = DEPLOYMENTS[deployment]
    hub = HUB_USD + HUB_PORTS * attached("25Gb/s", over, DUAL_USD)
    return units("25Gb/s")["npu"] + attached("25Gb/s", over) + hub / workers


def differences() -> tuple[float, float, float]:
    """Throughput of a hub's worker over the baseline's, and the additional cost of a worker in the other two columns.

    Two columns of one deployment have the same throughput, and the difference of their costs is the same for all
    deployments: 1 / 46.11 - 1 / 60.41 is that difference over the baseline's throughput.
    """
    base, hub = PRINTED[BASE], PRINTED["25Gb hub 1:1"]
    ratio = (1 / base[0] - 1 / base[2]) / (1 / hub[0] - 1 / hub[2])
    cost = worker(BASE)
    return ratio, cost * (base[0] / base[1] - 1), cost * (base[0] / base[2] - 1)


def measure(_: Runner) -> Findings:
    """Computes costs from the price list, and throughput, which is not printed, from the table's ratios."""
    found = Table(
        "dollars",
        "Cost of a worker with future GPUs, and throughput for $1000 over that of the baseline: computed and printed",
        ("deployment", "dollars", *COLUMNS, *(f"{each} printed" for each in COLUMNS)),
    )
    ratio, spendy, cheap = differences()
    base = worker(BASE)
    for name, printed in PRINTED.items():
        cost, throughput = worker(name), 1.0 if name == BASE else ratio
        gains = [throughput * (base + more) / (cost + more) for more in (0.0, spendy, cheap)]
        found.add(name, cost, *gains, *(here / there for here, there in zip(printed, PRINTED[BASE], strict=True)))
    return Findings([found], [_ratios(found, ratio), _order(found)])


def _ratios(found: Table, ratio: float) -> Verdict:
    gains = [found.column(column, deployment="25Gb hub 2:1")[0] for column in COLUMNS]
    return CLAIM.judged(
        all(abs(gain / claimed - 1) <= WITHIN for gain, claimed in zip(gains, CLAIMED, strict=True)),
        ", ".join(f"{column} {gain:.2f}" for column, gain in zip(COLUMNS, gains, strict=True)),
        "Costs follow the formulas, with the prices of the parts. Throughputs are not printed; the table implies that "
        f"a worker with a hub has {ratio:.3f} times the throughput of one of the baseline. With these, hubs are worth "
        "more than the table says, so the table must include a cost that its formulas do not. Charging the worker's "
        "card twice, as the text's sum reads literally, would make the ratio even larger.",
    )


def _order(found: Table) -> Verdict:
    gains = {column: found.column(column) for column in COLUMNS}
    return ORDER.judged(
        all(b > a for each in gains.values() for a, b in pairwise(each)),
        "; ".join(f"{column} {', '.join(f'{gain:.2f}' for gain in each)}" for column, each in gains.items()),
        "With higher oversubscription, more workers share a hub and the ports above the rack.",
    )


def draw(findings: Findings) -> Figure:
    """Draws computed and printed ratios."""
    found = findings.table("dollars")
    figure, axes = plot.new(height=3.0)
    plot.grouped(axes, {column: found.column(column) for column in COLUMNS})
    for index, column in enumerate(COLUMNS):
        at = [place + (index - 1) * 0.8 / 3 for place in range(len(PRINTED))]
        axes.plot(at, found.column(f"{column} printed"), "k_", markersize=14, label="printed" if index == 0 else None)
    axes.set_xticks(range(len(PRINTED)), labels=list(PRINTED))
    axes.set_ylabel("throughput for $1000, over the first")
    axes.legend(ncols=2)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "throughput for $1000, of hubs on a slow network and shards on a fast one",
    (CLAIM, ORDER),
    measure,
    draw,
    networks=("none",),
)

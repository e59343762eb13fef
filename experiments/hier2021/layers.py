"""One layer of three models on three networks of 1,024 NPUs (hier2021 Tables III and IV), with budgets of bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import syncline
from experiments.harness import plot
from experiments.harness.experiment import Choice
from syncline.design.bandwidth import Demand, Exchange, Price, demand_of, price_of, schemes, utilization

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from experiments.harness.table import Table
    from syncline import Result

FOLDER = Path(__file__).parent / "fig13"
WORKLOADS: Mapping[str, tuple[str, int]] = {
    "Transformer-17B": ("t17b", 1),
    "GPT-3": ("gpt3", 16),
    "Transformer-1T": ("t1t", 128),
}
"""Table IV: the name of a layer's scenario, and its number of tensor-parallel ranks."""
TOPOLOGIES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "2D": (("Ring", 8), ("Switch", 128)),
    "3D": (("Ring", 8), ("FC", 8), ("Switch", 16)),
    "4D": (("Ring", 2), ("FC", 8), ("Ring", 8), ("Switch", 8)),
}
"""Table III: kind and size of each dimension."""
SCHEMES = ("EqualBW", "MessageBW", "SmartBW")
BUDGETS = tuple(100 * step for step in range(1, 11))
"""GB/s per NPU, which the paper sweeps (the range is read off its axes)."""
FEW_BUDGETS = (100, 300, 1000)
PRICES = "hier2021"
_NOMINAL = 8 * 10**11

CHOICES = (
    Choice("32 chunks", {"collectives.chunks": 32}),
    Choice("128 chunks", {"collectives.chunks": 128}),
    Choice("FIFO", {"collectives.order": "fifo"}),
    Choice("4 chunks at a time", {"collectives.active_chunks": 4}),
    Choice(
        "no recomputation",
        {"workload.parallel.recompute": "none", "workload.parallel.divided_checkpoints": False},
    ),
)


@dataclass(frozen=True)
class System:
    """One layer of a model on a network."""

    workload: str
    topology: str
    runner: Runner

    @property
    def dims(self) -> tuple[tuple[str, int], ...]:
        """Kind and size of each dimension."""
        return TOPOLOGIES[self.topology]

    @property
    def shape(self) -> str:
        """The network as a ``fabric.shape``."""
        return "_".join(f"{kind}({size})" for kind, size in self.dims)

    @cached_property
    def logical(self) -> list[tuple[str, int, int]]:
        """The simulated dimensions: kind, size, and index of the physical dimension.

        Tensor-parallel ranks fill the lowest dimensions. A dimension that they fill only partly becomes two logical
        ones, each with its full bandwidth, as in the paper's simulator: the two kinds of groups use it at different
        times.
        """
        left, found = WORKLOADS[self.workload][1], []
        for at, (kind, size) in enumerate(self.dims):
            inside = min(left, size)
            left //= inside
            parts = [part for part in (inside, size // inside) if part > 1]
            found += [(kind, part, at) for part in parts]
        return found

    @property
    def scenario(self) -> Path:
        """The layer's scenario file."""
        return FOLDER / f"{WORKLOADS[self.workload][0]}.yaml"

    def changes(self, rates: Sequence[float]) -> dict[str, Any]:
        """Changes that give the scenario this network; ``rates`` are bytes per second per NPU, by dimension."""
        shape = "_".join(f"{kind}({size})" for kind, size, _ in self.logical)
        return {
            "fabric.shape": shape,
            "fabric.rate_per_npu": [f"{round(8 * rates[at])}b/s" for _, _, at in self.logical],
        }

    @cached_property
    def demand(self) -> Demand:
        """The bytes that the layer's plans send on each physical dimension: M(k) in the paper."""
        nominal = [_NOMINAL / 8] * len(self.dims)
        case = self.runner.case(self.scenario, self.changes(nominal))
        found = demand_of(case.loaded, [_NOMINAL] * len(self.logical))
        exchanges = []
        for each in found.exchanges:
            bytes_of = [0.0] * len(self.dims)
            for (_, _, at), size in zip(self.logical, each.bytes, strict=True):
                bytes_of[at] += size
            exchanges.append(Exchange(each.role, tuple(bytes_of)))
        return Demand(found.compute_s, tuple(exchanges))

    @cached_property
    def price(self) -> Price:
        """The cost of the network, by hier2021 Table II."""
        rates = ["100GB/s"] * len(self.dims)
        changes = {"fabric.shape": self.shape, "fabric.rate_per_npu": rates, "prices": PRICES}
        return price_of(syncline.load(self.scenario, set=changes))

    def division(self, scheme: str) -> schemes.Division:
        """How a scheme divides a budget."""
        if scheme == "EqualBW":
            return schemes.equal(len(self.dims))
        found = schemes.message(self.demand) if scheme == "MessageBW" else schemes.smart(self.demand)
        if not isinstance(found, schemes.Division):
            raise TypeError(found)
        return found

    def run(self, scheme: str, budget: int) -> Run:
        """Simulates the layer with a budget in GB/s per NPU."""
        division = self.division(scheme)
        rates = tuple(share * budget * 1e9 for share in division.shares)
        return Run(self, scheme, budget, rates, self.runner.simulate(self.scenario, self.changes(rates)))


@dataclass(frozen=True)
class Run:
    """One layer on a network with a budget divided by a scheme."""

    system: System
    scheme: str
    budget: int
    """GB/s per NPU."""
    rates: tuple[float, ...]
    """Bytes per second per NPU, by dimension."""
    result: Result

    @property
    def time(self) -> float:
        """Simulated time of the layer in seconds."""
        return self.result.summary.step_time_s

    @property
    def ideal(self) -> float:
        """Time of the layer in seconds by the closed forms, which assume infinitely many chunks."""
        return self.system.demand.time(self.rates)

    @property
    def communication(self) -> float:
        """Simulated time of the layer's exchanges in seconds; nothing overlaps."""
        return self.time - self.result.summary.compute_s

    @property
    def utilization(self) -> float:
        """Bytes of an exchange over what its dimensions could carry in its time; time-weighted mean over exchanges."""
        return self.system.demand.ideal(self.rates) / self.communication

    @property
    def ideal_utilization(self) -> float:
        """The utilisation by the closed forms."""
        return utilization(self.system.demand, self.rates)

    @property
    def usd(self) -> float:
        """The cost of the network in dollars."""
        return self.system.price.usd(self.rates)

    @property
    def per_cost(self) -> float:
        """Layers per second and dollar."""
        return 1 / (self.time * self.usd)


@cache
def _systems(runner: Runner) -> list[System]:
    return [System(workload, topology, runner) for workload in WORKLOADS for topology in TOPOLOGIES]


def systems(runner: Runner) -> list[System]:
    """All nine systems."""
    return _systems(runner)


def budgets(runner: Runner) -> tuple[int, ...]:
    """Budgets of a run."""
    return FEW_BUDGETS if runner.quick else BUDGETS


def sweep(runner: Runner) -> Iterator[dict[str, Run]]:
    """For every system and budget, the runs by scheme."""
    for system in systems(runner):
        for budget in budgets(runner):
            yield {scheme: system.run(scheme, budget) for scheme in SCHEMES}


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def near(found: float, claimed: float, part: float = 0.1) -> bool:
    """Whether a value is within a fraction ``part`` of the claimed one."""
    return abs(found - claimed) <= part * claimed


def panels(
    swept: Table, columns: Mapping[str, str], label: str, *, over_first: bool = False, unit: float = 1.0
) -> Figure:
    """Draws values by budget: a panel for each model and network, a line for each scheme.

    ``columns`` names the table's column of each scheme. ``over_first`` divides values by that of EqualBW at the
    smallest budget.
    """
    figure, grid = plot.new(len(TOPOLOGIES), len(WORKLOADS), height=6.4, sharex=True)
    for row, model in enumerate(WORKLOADS):
        for column, topology in enumerate(TOPOLOGIES):
            axes, key = grid[row][column], {"model": model, "topology": topology}
            one = swept.column(columns["EqualBW"], **key)[0] if over_first else unit
            for index, scheme in enumerate(SCHEMES):
                values = [each / one for each in swept.column(columns[scheme], **key)]
                plot.line(axes, swept.column("budget", **key), values, scheme, index, markersize=3)
            axes.set_title(f"{model}, {topology}")
            if row == len(WORKLOADS) - 1:
                axes.set_xlabel("budget [GB/s]")
    grid[1][0].set_ylabel(label)
    grid[0][0].legend()
    return figure

"""A layer of three models on three networks of 1,024 NPUs (hier2021 Tables III and IV), each with a budget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.experiment import Choice
from syncline import api
from syncline.design import schemes
from syncline.design.bandwidth import utilization
from syncline.design.demand import Demand, Exchange, demand
from syncline.design.price import Price, price

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
"""Table IV: the scenario of a layer, and its model-parallel ranks."""
TOPOLOGIES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "2D": (("Ring", 8), ("Switch", 128)),
    "3D": (("Ring", 8), ("FC", 8), ("Switch", 16)),
    "4D": (("Ring", 2), ("FC", 8), ("Ring", 8), ("Switch", 8)),
}
"""Table III."""
SCHEMES = ("EqualBW", "MessageBW", "SmartBW")
BUDGETS = tuple(100 * step for step in range(1, 11))
"""GB/s of an NPU, which the paper sweeps (the range is read off its axes)."""
FEW_BUDGETS = (100, 300, 1000)
PRICES = "hier2021"
_NOMINAL = 8 * 10**11

CHOICES = (
    Choice("32 chunks", {"collectives.chunks": 32}),
    Choice("128 chunks", {"collectives.chunks": 128}),
    Choice("FIFO", {"collectives.order": "fifo"}),
    Choice("4 chunks at a time", {"collectives.active_chunks": 4}),
    Choice(
        "recomputation of nothing",
        {"workload.parallel.recompute": "none", "workload.parallel.divided_checkpoints": False},
    ),
)


@dataclass(frozen=True)
class System:
    """A layer of a model on a network."""

    workload: str
    topology: str
    runner: Runner

    @property
    def dims(self) -> tuple[tuple[str, int], ...]:
        """Kind and size of each dimension."""
        return TOPOLOGIES[self.topology]

    @property
    def shape(self) -> str:
        """The network as a shape."""
        return "_".join(f"{kind}({size})" for kind, size in self.dims)

    @cached_property
    def logical(self) -> list[tuple[str, int, int]]:
        """Dimensions as groups see them: kind, size, and the physical one.

        Model-parallel ranks fill the lowest dimensions. One that they fill in part is two logical ones, each with all
        of its bandwidth, as in the paper's simulator: the two kinds of groups take turns.
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
        """The layer."""
        return FOLDER / f"{WORKLOADS[self.workload][0]}.yaml"

    def changes(self, rates: Sequence[float]) -> dict[str, Any]:
        """What makes the scenario one of this network, with rates in bytes per second of an NPU by dimension."""
        shape = "_".join(f"{kind}({size})" for kind, size, _ in self.logical)
        return {
            "fabric.shape": shape,
            "fabric.rate_per_npu": [f"{round(8 * rates[at])}b/s" for _, _, at in self.logical],
        }

    @cached_property
    def demand(self) -> Demand:
        """What the layer asks of each physical dimension: M(k) of the paper, as its plans send it."""
        nominal = [_NOMINAL / 8] * len(self.dims)
        case = self.runner.case(self.scenario, self.changes(nominal))
        found = demand(case.loaded, [_NOMINAL] * len(self.logical))
        exchanges = []
        for each in found.exchanges:
            bytes_of = [0.0] * len(self.dims)
            for (_, _, at), size in zip(self.logical, each.bytes, strict=True):
                bytes_of[at] += size
            exchanges.append(Exchange(each.role, tuple(bytes_of)))
        return Demand(found.compute_s, tuple(exchanges))

    @cached_property
    def price(self) -> Price:
        """What the network costs, by hier2021 Table II."""
        loaded = api.prepare(
            self.scenario,
            {"fabric.shape": self.shape, "fabric.rate_per_npu": ["100GB/s"] * len(self.dims), "prices": PRICES},
            {},
        )
        return price(loaded)

    def division(self, scheme: str) -> schemes.Division:
        """How a scheme divides a budget."""
        if scheme == "EqualBW":
            return schemes.equal(len(self.dims))
        found = schemes.message(self.demand) if scheme == "MessageBW" else schemes.smart(self.demand)
        if not isinstance(found, schemes.Division):
            raise TypeError(found)
        return found

    def run(self, scheme: str, budget: int) -> Run:
        """The layer with a budget in GB/s."""
        division = self.division(scheme)
        rates = tuple(share * budget * 1e9 for share in division.shares)
        return Run(self, scheme, budget, rates, self.runner.simulate(self.scenario, self.changes(rates)))


@dataclass(frozen=True)
class Run:
    """A layer on a network with a budget that a scheme divided."""

    system: System
    scheme: str
    budget: int
    """GB/s of an NPU."""
    rates: tuple[float, ...]
    """Bytes per second of an NPU, by dimension."""
    result: Result

    @property
    def time(self) -> float:
        """Seconds of the layer, simulated."""
        return self.result.summary.step_time_s

    @property
    def ideal(self) -> float:
        """Seconds of the layer by the closed forms: chunks without end."""
        return self.system.demand.time(self.rates)

    @property
    def communication(self) -> float:
        """Seconds of its exchanges, simulated; nothing overlaps."""
        return self.time - self.result.summary.compute_s

    @property
    def utilization(self) -> float:
        """Bytes over what the dimensions of each exchange could have carried meanwhile: mean over exchanges by time."""
        return self.system.demand.ideal(self.rates) / self.communication

    @property
    def ideal_utilization(self) -> float:
        """The same by the closed forms."""
        return utilization(self.system.demand, self.rates)

    @property
    def usd(self) -> float:
        """What the network costs."""
        return self.system.price.usd(self.rates)

    @property
    def per_cost(self) -> float:
        """Layers per second and dollar."""
        return 1 / (self.time * self.usd)


@cache
def _systems(runner: Runner) -> list[System]:
    return [System(workload, topology, runner) for workload in WORKLOADS for topology in TOPOLOGIES]


def systems(runner: Runner) -> list[System]:
    """All nine."""
    return _systems(runner)


def budgets(runner: Runner) -> tuple[int, ...]:
    """Budgets of a run."""
    return FEW_BUDGETS if runner.quick else BUDGETS


def sweep(runner: Runner) -> Iterator[dict[str, Run]]:
    """All systems and budgets, each with all schemes."""
    for system in systems(runner):
        for budget in budgets(runner):
            yield {scheme: system.run(scheme, budget) for scheme in SCHEMES}


def mean(values: Sequence[float]) -> float:
    """Their mean."""
    return sum(values) / len(values)


def near(found: float, claimed: float, part: float = 0.1) -> bool:
    """Whether a value is that of a claim, within a part of it."""
    return abs(found - claimed) <= part * claimed


def panels(
    swept: Table, columns: Mapping[str, str], label: str, *, over_first: bool = False, unit: float = 1.0
) -> Figure:
    """Values by budget: a panel for each model and network, a line for each scheme; ``columns`` holds its values.

    ``over_first`` draws them over that of EqualBW with the least budget.
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

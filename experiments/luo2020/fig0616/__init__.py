"""Figure 6.16 and Table 6.4: the best and the worst order of ranks, and predicted and measured orders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.cluster import cluster
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.harness.testbed import Measured, Session
from experiments.luo2020.beside import CALIBRATED
from experiments.luo2020.cloud import CLOUD, HOSTS, NBYTES, RACKS, judged, predicted_s
from experiments.luo2020.exchange import NEAR, host_costs
from experiments.luo2020.orders import PLANS, PROGRAM, costs, modelled, parsed, shuffled, spearman, written
from syncline.quantity import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner
    from experiments.luo2020.orders import Costs

FOLDER = Path(__file__).parent
LIBRARY, GLOO = "executor", "Gloo"
ARMS = (*((LIBRARY, name) for name in PLANS), (GLOO, "ring"))
"""Libraries and their algorithms. PyTorch has no way to choose another algorithm of Gloo's than its ring."""
START, RANDOM, SEED = 99, 10, 2
"""Seed of the order in which searches begin; number and seed of random orders."""
LOWEST, HIGHEST = 1.1, 3.7
CORRELATED = 0.58

GAIN = Claim(
    "luo-14",
    "Fig. 6.16",
    "the best order of ranks is 1.1 to 3.7 times as fast as the worst one, for ring, halving-doubling, double binary "
    "tree and BCube(4).",
)
RING = Claim("luo-fig0616-ring", "Fig. 6.16", "of these algorithms, the ring gains most.")
CORRELATION = Claim(
    "luo-15",
    "Table 6.4",
    "Spearman's correlation of predicted and measured times of ring all-reduces in 10 orders is at least 0.58 (0.58 "
    "and 0.78 for Gloo on two clouds, 0.81 and 0.94 for Open MPI).",
)
TIMES = Claim(
    "luo-fig0616-predicted",
    "Prediction",
    f"the ratio of the worst order's time to the best one's is within {NEAR:.0%} of the simulated ratio.",
)


@dataclass(frozen=True)
class Arm:
    """An algorithm of a library, with its best and worst order."""

    library: str
    name: str
    simulated: tuple[float, float]
    """Simulated seconds in the best and in the worst order: those that were measured, or those that the model of costs
    gives for a network of racks."""
    measured: tuple[float, float] | str
    found: Measured | str

    @property
    def what(self) -> str:
        """Such as ``ring``; with the library if it is not our executor."""
        return self.name if self.library == LIBRARY else f"{self.library}, {self.name}"

    @property
    def predicted(self) -> float:
        """Simulated time of the worst order over that of the best one."""
        return self.simulated[1] / self.simulated[0]

    @property
    def ratio(self) -> float | None:
        """The measured ratio; ``None`` if it was not measured."""
        return None if isinstance(self.measured, str) else self.measured[1] / self.measured[0]


def measure(runner: Runner) -> Findings:
    """Searches for orders, simulates all-reduces in them, and measures them."""
    gains = Table(
        "gains",
        f"All-reduces of 2 MiB by {HOSTS} hosts in the best and in the worst order",
        (
            "library",
            "algorithm",
            "predicted best_s",
            "predicted worst_s",
            "predicted_ratio",
            "best_s",
            "worst_s",
            "ratio_ratio",
        ),
    )
    correlations = Table(
        "correlations",
        "Spearman's correlation of measured times with costs by the model, and with simulated times",
        ("library", "algorithm", "10 orders", "random ones", "all", "simulated, all"),
    )
    orders = Table(
        "orders", "All orders", ("library", "algorithm", "kind", "cost_s", "simulated_s", "measured_s"), listed=False
    )
    arms = []
    for library, name in ARMS[:1] if runner.quick else ARMS:
        arm = _arm(runner, library, name, orders)
        arms.append(arm)
        best, worst = (arm.measured, None) if isinstance(arm.measured, str) else arm.measured
        gains.add(library, name, *arm.simulated, arm.predicted, best, worst, arm.ratio)
        correlations.add(library, name, *_correlations(orders, library, name, arm.found))
    ring = [each for each in arms if each.name == "ring"]
    verdicts = [_gain(arms), _ring(arms), _correlation(ring, correlations), _predicted(arms)]
    return Findings([gains, correlations, orders], verdicts)


def _arm(runner: Runner, library: str, name: str, orders: Table) -> Arm:
    """Measures an algorithm in all orders, and adds them to the table."""
    plan, quick = PLANS[name], runner.quick
    found = runner.bench.collect(
        Session(
            f"{library} {name}",
            lambda python: session(library, plan, python, quick=quick),
            package="torch" if library == GLOO else None,
            quick=quick,
        )
    )
    if isinstance(found, str):
        model = costs(modelled(HOSTS, RACKS, _link_s()), plan, _start())
        best, worst = (predicted_s(runner, plan, order) for order in (model.best, model.dear()))
        return Arm(library, name, (best, worst), found, found)
    rows = list(zip(*(found.values[key] for key in ("kinds", "orders", "cost_s", "seconds")), strict=True))
    simulated = [predicted_s(runner, plan, parsed(order)) for _, order, _, _ in rows]
    for (kind, _, cost, seconds), each in zip(rows, simulated, strict=True):
        orders.add(library, name, kind, cost, each, seconds)
    kinds = list(found.values["kinds"])
    ends = [kinds.index("best"), kinds.index("worst")]
    best, worst = (simulated[at] for at in ends)
    measured = tuple(float(found.values["seconds"][at]) for at in ends)
    return Arm(library, name, (best, worst), (measured[0], measured[1]), found)


def _link_s() -> float:
    """The latency of a link in seconds."""
    return float(str(host_costs()["link_latency"]).removesuffix("us")) * 1e-6


def _start() -> list[int]:
    return shuffled(HOSTS, 1, START)[0]


def _correlations(orders: Table, library: str, name: str, found: Measured | str) -> tuple[float | str | None, ...]:
    """The columns of a row of correlations after its names."""
    if isinstance(found, str):
        return found, None, None, None

    def columns(kinds: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
        rows = [row for row in orders.rows if row[:2] == (library, name) and row[2] in kinds]
        cost, simulated, measured = (list(column) for column in list(zip(*rows, strict=True))[3:])
        return cost, simulated, measured

    parts = ["part", "worst"]
    every = [*parts, "best", "random"]
    values = []
    for kinds in (parts, ["random"], every):
        cost, _, measured = columns(kinds)
        values.append(round(spearman(cost, measured), 2))
    _, simulated, measured = columns(every)
    return *values, round(spearman(simulated, measured), 2)


def _gain(arms: Sequence[Arm]) -> Verdict:
    """Judges the executor's algorithms."""
    own = [each for each in arms if each.library == LIBRARY]
    ratios = [each.ratio or each.predicted for each in own]
    said = ", ".join(f"{each.what} {ratio:.2f}" for each, ratio in zip(own, ratios, strict=True))
    return GAIN.judged(
        min(ratios) >= LOWEST and max(ratios) <= HIGHEST * (1 + NEAR),
        f"{said}{_source(own)}",
        f"The links of racks are oversubscribed {HOSTS // RACKS}:1, so no order gains more than {HOSTS // RACKS} "
        "times: a ring in the best order crosses racks with 1 flow for each link, and in the worst one with 4. Trees "
        "send other blocks between other ranks than the model of costs has, so its cheapest order is not the fastest "
        "one.",
    )


def _ring(arms: Sequence[Arm]) -> Verdict:
    own = [each for each in arms if each.library == LIBRARY]
    ratios = {each.name: each.ratio or each.predicted for each in own}
    others = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if name != "ring"]
    return RING.judged(
        ratios["ring"] == max(ratios.values()),
        f"ring {ratios['ring']:.2f}; {listed(others)}{_source(own)}"
        if others
        else f"ring {ratios['ring']:.2f}{_source(own)}",
        "Each hop of a ring adds to its cost, while a round of the others costs as much as its longest exchange, and "
        "some rounds cross racks in any order.",
    )


def _correlation(rings: Sequence[Arm], correlations: Table) -> Verdict:
    known = [each for each in rings if not isinstance(each.found, str)]
    if not known:
        measured = f"0 of {len(rings)} measured{_source(rings)}"
        return CORRELATION.judged(holds=False, measured=measured, why="Nothing was measured.")
    found = {
        each.library: correlations.column("10 orders", library=each.library, algorithm="ring")[0] for each in known
    }
    return CORRELATION.judged(
        min(found.values()) >= CORRELATED,
        listed([f"{library} {value:.2f}" for library, value in found.items()]),
        "The cost of a ring is the sum of its hops, so it counts the hops between racks. What decides is how many of "
        "them share a link at a time: orders with the same number of hops between racks differ little.",
    )


def _predicted(arms: Sequence[Arm]) -> Verdict:
    known = {each.what: (each.predicted, each.ratio) for each in arms if each.ratio is not None}
    return judged(
        TIMES,
        known,
        "The network model shares links fairly among flows at all times; TCP does so on average, and its senders wait "
        "where a full queue drops packets.",
        _source(arms).strip(" ()"),
    )


def _source(arms: Sequence[Arm]) -> str:
    missing = sorted({each.found for each in arms if isinstance(each.found, str)})
    return f" (predicted: {', '.join(missing)})" if missing else ""


# The session


def session(library: str, plan: str, python: str, *, quick: bool) -> dict[str, Any]:
    """Probes the cloud, chooses orders for a plan by the probe, and measures all-reduces in them."""
    with cluster(CLOUD, python) as bed:
        model = costs(bed.probe(), plan, _start())
        orders = chosen(model, 1 if quick else RANDOM)
        if quick:
            orders = [each for each in orders if each[0] != "part"]
        listed_orders = ";".join(written(order) for _, order in orders)
        program = [str(PROGRAM), "gloo" if library == GLOO else "syncline", plan, str(NBYTES), listed_orders]
        (seconds,) = bed.run(program)
    return {
        "kinds": [kind for kind, _ in orders],
        "orders": [written(order) for _, order in orders],
        "cost_s": [round(model.of(order), 9) for _, order in orders],
        "seconds": [round(each, 5) for each in seconds],
    }


def chosen(model: Costs, count: int) -> list[tuple[str, list[int]]]:
    """The orders to measure, each with its kind: best, parts of the range of costs, worst, and random ones."""
    *parts, last = model.spread(model.dear())
    randoms = [("random", order) for order in shuffled(HOSTS, count, SEED)]
    return [("best", model.best), *(("part", each) for each in parts), ("worst", last), *randoms]


def draw(findings: Findings) -> Figure:
    """Draws the ratios, and measured times by cost for the executor's ring."""
    gains, orders = findings.table("gains"), findings.table("orders")
    figure, (left, right) = plot.new(columns=2, height=3.0)
    names = [
        name.replace("_", "-") if library == LIBRARY else f"{library}, {name}"
        for library, name in zip(gains.column("library"), gains.column("algorithm"), strict=True)
    ]
    measured = [0.0 if each is None else each for each in gains.column("ratio_ratio")]
    plot.grouped(left, {"predicted": gains.column("predicted_ratio"), "measured": measured})
    left.set_xticks(range(len(names)), labels=[name.replace(" ", "\n").replace("-", "-\n", 1) for name in names])
    left.axhline(1, color=plot.GREY, linewidth=0.8)
    left.set_ylabel("worst over best order")
    left.legend()
    for index, library in enumerate((LIBRARY, GLOO)):
        rows = [row for row in orders.rows if row[:2] == (library, "ring")]
        at = [1e6 * float(row[3] or 0) for row in rows]
        plot.line(right, at, [1e3 * float(row[5] or 0) for row in rows], library, index, linestyle="")
    right.set_xlabel("cost of a ring by the model [us]")
    right.set_ylabel("measured [ms]")
    right.set_ylim(bottom=0)
    if orders.rows:
        right.legend()
    return figure


EXPERIMENT = Experiment(
    FOLDER,
    "the best and the worst order of ranks",
    (GAIN, RING, CORRELATION, TIMES),
    measure,
    draw,
    networks=("flow",),
    calibrated=CALIBRATED,
    runs=True,
)

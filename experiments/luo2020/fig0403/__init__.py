"""Figure 4.3: bytes between racks of four all-reduces, by the order of ranks."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.plans import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

SHAPES = ((2, 2), (4, 2), (4, 4), (8, 4))
"""Nodes per rack, and racks; the first is that of the figure."""
EVERY = 100
"""Most orders that are all counted. Of more orders, :data:`DRAWN` random ones are."""
DRAWN = 40
ALGORITHMS = ("PS (one server)", "PS (sharded)", "halving-doubling", "ring", "2-level hierarchical")
PS, LEVELS = ALGORITHMS[:2], ALGORITHMS[-1]
ORDER = Claim(
    "luo-fig0403-order",
    "Fig. 4.3",
    "with a poor order of ranks, PS, halving-doubling and ring send more bytes between racks than with a good one.",
)
BEST = Claim(
    "luo-fig0403-best", "Fig. 4.3", "no order sends fewer bytes between racks than one that numbers ranks rack by rack."
)
HIERARCHICAL = Claim(
    "luo-fig0403-hierarchical",
    "4.1.1",
    "even in the best order of each, none of the other algorithms sends fewer bytes between racks than 2-level "
    "hierarchical aggregation with racks as groups.",
)


def plan(name: str, nodes: int) -> str:
    """The library's name of an algorithm."""
    return {
        "PS (one server)": "parameter_server(placement=CC)",
        "PS (sharded)": "parameter_server(placement=CS)",
        "halving-doubling": "halving_doubling",
        "ring": "ring",
        "2-level hierarchical": f"two_level(group={nodes})",
    }[name]


def good(nodes: int, racks: int) -> list[int]:
    """The rack of each rank if ranks are numbered rack by rack."""
    return [rank // nodes for rank in range(nodes * racks)]


def poor(name: str, nodes: int, racks: int) -> list[int]:
    """The rack of each rank in an order in which as many exchanges as possible are between racks.

    Ring: racks take turns. 2-level: they take turns in a group, and the next group begins with the next rack.
    Halving-doubling, whose partners differ in one bit: every bit of a rank that is set changes the rack.
    """
    ranks = range(nodes * racks)
    if name == "halving-doubling":
        return [_folded(rank, racks) for rank in ranks]
    if name == LEVELS:
        return [(rank % nodes + rank // nodes) % racks for rank in ranks]
    return [rank % racks for rank in ranks]


def _folded(rank: int, racks: int) -> int:
    """Exclusive or of one number from 1 to ``racks - 1`` for each bit that is set; ``racks`` is a power of two."""
    found = 0
    for bit in range(rank.bit_length()):
        if rank >> bit & 1:
            found ^= 1 + bit % (racks - 1)
    return found


def expected(name: str, nodes: int, racks: int) -> tuple[float, float, float]:
    """Vectors between racks in closed form: in the good order, on average over all orders, and in the poor one.

    On average, a message is between racks with probability ``N (C - 1) / (N C - 1)``, and any of these all-reduces
    sends ``2 (N C - 1)`` vectors.
    """
    n, c = nodes, racks
    every, mean = 2.0 * (n * c - 1), 2.0 * n * (c - 1)
    return {
        "PS (one server)": (mean, mean, mean),
        "PS (sharded)": (mean, mean, mean),
        "halving-doubling": (2.0 * (c - 1), mean, every),
        "ring": (every / n, mean, every),
        "2-level hierarchical": (2.0 * (c - 1), mean, 2.0 * (n + 1) * (c - 1)),
    }[name]


def crossing(name: str, nodes: int, placed: Sequence[int]) -> float:
    """Vectors between racks, counted from the plan, if rank ``r`` is in rack ``placed[r]``."""
    nbytes = len(placed) * 1000
    return count(plan(name, nodes), "all_reduce", len(placed), nbytes, placed).across_bytes / nbytes


def orders(nodes: int, racks: int) -> Iterator[tuple[int, ...]]:
    """All orders of a small shape, by the rack of each rank: once each, hosts of a rack being alike."""

    def rest(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not any(left):
            yield ()
        for rack, many in enumerate(left):
            if many:
                for more in rest((*left[:rack], many - 1, *left[rack + 1 :])):
                    yield (rack, *more)

    return rest((nodes,) * racks)


def measure(runner: Runner) -> Findings:
    """Counts bytes between racks in good, poor and other orders."""
    table = Table(
        "orders",
        "Vectors between racks: counted from plans in a good, an average and a poor order, and in closed form",
        ("nodes", "racks", "algorithm", "orders", "least", "good", "form", "mean", "form_", "poor", "form__", "most"),
    )
    for nodes, racks in SHAPES[: 2 if runner.quick else None]:
        every = list(itertools.islice(orders(nodes, racks), EVERY + 1))
        complete = len(every) <= EVERY
        if not complete:
            chance = random.Random(0)  # noqa: S311 - not for cryptography
            every = [tuple(chance.sample(good(nodes, racks), nodes * racks)) for _ in range(DRAWN)]
        for name in ALGORITHMS:
            found = [crossing(name, nodes, placed) for placed in every]
            best, worst = (crossing(name, nodes, each) for each in (good(nodes, racks), poor(name, nodes, racks)))
            forms = expected(name, nodes, racks)
            orders_of = f"all {len(every)}" if complete else f"{len(every)} random"
            cells = (min(found), best, forms[0], fmean(found), forms[1], worst, forms[2], max(found))
            table.add(nodes, racks, name, orders_of, *cells)
    return Findings([table], [_order(table), _best(table), _hierarchical(table)])


def _order(table: Table) -> Verdict:
    nodes, racks = SHAPES[0]
    worse = {}
    for name in ALGORITHMS[:-1]:
        best, most = (table.column(key, nodes=nodes, racks=racks, algorithm=name)[0] for key in ("good", "most"))
        worse[name] = (best, most)
    same = [name for name, (best, most) in worse.items() if most <= best]
    return ORDER.judged(
        not same,
        f"{racks} racks of {nodes}: "
        + ", ".join(f"{name} {a:g} and {b:g}" for name, (a, b) in worse.items())
        + " vectors",
        "With a parameter server, every vector that is not in the server's rack crosses once, and comes back once, "
        "in any order of ranks; with a shard on every host, so does each part of it. The place of one server would "
        "matter only if racks had different numbers of nodes. In the other two, a rank exchanges much with some ranks, "
        "and little or nothing with others.",
    )


def _best(table: Table) -> Verdict:
    rows = list(zip(*(table.column(key) for key in ("nodes", "racks", "algorithm", "least", "good")), strict=True))
    wrong = [(nodes, racks, name) for nodes, racks, name, least, best in rows if least < best - 1e-9]
    said = ", ".join(f"{name} on {racks} racks of {nodes}" for nodes, racks, name in wrong)
    shapes = {
        (nodes, racks): many
        for nodes, racks, many in zip(*(table.column(key) for key in ("nodes", "racks", "orders")), strict=True)
    }
    tried = ", ".join(f"{many} orders of {racks} racks of {nodes}" for (nodes, racks), many in shapes.items())
    return BEST.judged(
        not wrong,
        f"{tried}: fewer in {len(wrong)} of {len(rows)} cases{': ' + said if said else ''}",
        "A ring has to leave each rack once, and in halving-doubling the exchanges of half, a quarter and so on of the "
        "vector stay in the rack as long as possible.",
    )


def _hierarchical(table: Table) -> Verdict:
    fewer, cases = [], 0
    for nodes, racks in dict.fromkeys(zip(table.column("nodes"), table.column("racks"), strict=True)):
        own = table.column("good", nodes=nodes, racks=racks, algorithm=LEVELS)[0]
        for name in ALGORITHMS[:-1]:
            row = [table.column(key, nodes=nodes, racks=racks, algorithm=name)[0] for key in ("least", "good")]
            cases += 1
            if min(row) < own - 1e-9:
                fewer.append(f"{name}, {racks} racks of {nodes}")
    nodes, racks = table.rows[-1][:2]
    shown = ", ".join(
        f"{name} {table.column('good', nodes=nodes, racks=racks, algorithm=name)[0]:g}" for name in ALGORITHMS
    )
    return HIERARCHICAL.judged(
        not fewer,
        f"fewer in {len(fewer)} of {cases} cases; {racks} racks of {nodes}: {shown} vectors",
        "The sum of a rack crosses once, and the result comes back once: 2 (C - 1). Halving-doubling sends equally few "
        "in its best order, a ring C / (C - 1) times that or a little less, and servers N times as many. In an average "
        "order, every algorithm sends as many as servers.",
    )


def draw(findings: Findings) -> Figure:
    """Draws vectors between racks in the good, an average and the poor order, of the largest shape."""
    table = findings.table("orders")
    nodes, racks = table.rows[-1][:2]
    figure, axes = plot.new(height=3.0)
    names = {"good": "rack by rack", "mean": "average order", "poor": "poor order"}
    plot.grouped(axes, {label: table.column(key, nodes=nodes, racks=racks) for key, label in names.items()})
    axes.set_xticks(range(len(ALGORITHMS)), labels=[name.replace(" (", "\n(") for name in ALGORITHMS])
    axes.set_ylabel(f"vectors between racks, {racks} of {nodes}")
    axes.legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "bytes between racks of four kinds of all-reduce, by the order of ranks",
    (ORDER, BEST, HIERARCHICAL),
    measure,
    draw,
    networks=("none",),
)

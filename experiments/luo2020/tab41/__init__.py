"""Table 4.1: rounds, bytes on the wire and bytes between racks, counted from plans and as printed."""

from __future__ import annotations

from math import log, log2
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from syncline.plans import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

SHAPES = ((2, 2), (4, 2), (4, 4), (8, 4))
"""Nodes per rack, and racks."""
ROUNDS = Claim("luo-tab41-rounds", "Table 4.1", "rounds of the five algorithms are as printed.")
WIRE = Claim("luo-02", "Table 4.1", "bytes on the wire and between racks of the five algorithms are as printed.")
ORDER = Claim(
    "luo-tab41-order",
    "4.1.2",
    "2-level hierarchical aggregation sends the fewest bytes between racks, and takes four rounds.",
)


def printed(nodes: int, racks: int) -> list[tuple[str, float, float, float]]:
    """The rows of the table as printed: name, rounds, and vectors on the wire and between racks."""
    n, c = nodes, racks
    return [
        ("PS (fully sharded)", 2.0, 2 * (n * c - 1.0), 2 * n * (c - 1.0)),
        ("Halving doubling", 2 * log2(n * c), 2.0 * n * c, 2 * c * (n - 1) / n),
        ("Ring-Chunked", 2.0 * n * c - 1, 2.0 * n * c - 1, 2.0 * c - 1),
        ("Tree (fan out = C)", 2 * (log(n, c) + 1), 2 * c * (c * n - 1) / (c - 1), 2 * c * (n - 1) / (c - 1)),
        ("2-level hierarchical", 4.0, 2 * (n * c - 1.0), 2 * (c - 1.0)),
    ]


def plan(name: str, nodes: int, racks: int) -> str:
    """The library's name of an algorithm of the table."""
    return {
        "PS (fully sharded)": "parameter_server(placement=CS)",
        "Halving doubling": "halving_doubling",
        "Ring-Chunked": "ring",
        "Tree (fan out = C)": f"tree(fan_out={racks})",
        "2-level hierarchical": f"two_level(group={nodes})",
    }[name]


def measure(_: Runner) -> Findings:
    """Counts rounds and bytes from the plans, message by message; ranks are numbered rack by rack."""
    counted = Table(
        "counts",
        "Rounds, and bytes on the wire and between racks in vectors: counted from the plans, and as printed",
        ("nodes", "racks", "algorithm", "rounds", "printed_", "wire", "printed__", "across", "printed___"),
    )
    for nodes, racks in SHAPES:
        ranks = nodes * racks
        nbytes = ranks * 1000
        for name, rounds, wire, across in printed(nodes, racks):
            groups = [rank // nodes for rank in range(ranks)]
            found = count(plan(name, nodes, racks), "all_reduce", ranks, nbytes, groups)
            sent, crossed = found.wire_bytes / nbytes, found.across_bytes / nbytes
            counted.add(nodes, racks, name, found.rounds, rounds, sent, wire, crossed, across)
    return Findings([counted], [_wire(counted), _rounds(counted), _order(counted)])


def _agree(counted: Table, here: str, printed: str) -> tuple[list[str], int]:
    """The algorithms with a count that differs from the printed one, and the number of counts that agree."""
    rows = list(zip(*(counted.column(column) for column in ("algorithm", here, printed)), strict=True))
    far = [name for name, a, b in rows if abs(a - b) > 1e-9]
    return sorted(set(far)), len(rows) - len(far)


def _wire(counted: Table) -> Verdict:
    wire, wired = _agree(counted, "wire", "printed__")
    across, crossed = _agree(counted, "across", "printed___")
    total = 2 * len(counted.rows)
    return WIRE.judged(
        not wire and not across,
        f"{wired + crossed} of {total} numbers agree, all of PS and 2-level among them; different on the wire: "
        f"{', '.join(wire)}; different between racks: {', '.join(across)}",
        "Any all-reduce in which ranks reduce sends 2 (NC - 1) vectors on the wire. The table has 2 NC for "
        "halving-doubling, 2 NC - 1 for the ring, and C / (C - 1) times as many for the tree, which are estimates. "
        "Between racks, halving-doubling sends 2 (C - 1), which equals the printed 2 C (N - 1) / N only for N = C; the "
        "ring sends 2 (NC - 1) / N, because each of C links carries 1 / NC in each round; and the number printed for "
        "the tree is less than any tree needs.",
    )


def _rounds(counted: Table) -> Verdict:
    far, agree = _agree(counted, "rounds", "printed_")
    return ROUNDS.judged(
        not far,
        f"{agree} of {len(counted.rows)} agree; different for some shapes: {', '.join(far)}",
        "A ring has 2 (NC - 1) rounds, not one more. The logarithm printed for the tree is a whole number only if N is "
        "a power of C.",
    )


def _order(counted: Table) -> Verdict:
    best = []
    for nodes, racks in SHAPES:
        row = dict(
            zip(
                counted.column("algorithm", nodes=nodes, racks=racks),
                counted.column("across", nodes=nodes, racks=racks),
                strict=True,
            )
        )
        best.append(row["2-level hierarchical"] <= min(row.values()) + 1e-9)
    rounds = set(counted.column("rounds", algorithm="2-level hierarchical"))
    return ORDER.judged(
        all(best) and rounds == {4},
        f"least in {sum(best)} of {len(best)} shapes; {', '.join(str(each) for each in sorted(rounds))} rounds",
        "A chunk crosses to the other racks once, and comes back once: 2 (C - 1). Halving-doubling sends equally few "
        "bytes if ranks are numbered rack by rack and racks are powers of two, but needs more rounds.",
    )


def draw(findings: Findings) -> Figure:
    """Draws bytes between racks, counted and printed, for four racks of eight."""
    counted = findings.table("counts")
    nodes, racks = SHAPES[-1]
    figure, axes = plot.new(height=3.0)
    names = counted.column("algorithm", nodes=nodes, racks=racks)
    groups = {
        "counted": counted.column("across", nodes=nodes, racks=racks),
        "printed": counted.column("printed___", nodes=nodes, racks=racks),
    }
    plot.grouped(axes, groups)
    axes.set_xticks(range(len(names)), labels=[name.split(" (")[0] for name in names])
    axes.set_ylabel("vectors between racks")
    axes.legend()
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "rounds and bytes of five all-reduces, counted from plans and as printed",
    (WIRE, ROUNDS, ORDER),
    measure,
    draw,
    networks=("none",),
)

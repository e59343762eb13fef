"""Traffic matrices of jobs on 16 servers: which entries an all-reduce's permutation moves, and which it does not."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

from experiments.harness import plot
from experiments.harness.table import Table
from syncline.quantity import npu_number, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from experiments.harness.experiment import Findings
    from experiments.harness.runner import Runner

SERVERS = 16
STRIDES = (1, 3, 7)
"""Strides of the three permutations that Figure 5 draws."""

Matrix = list[list[int]]


@dataclass(frozen=True)
class Permuted:
    """The traffic of one job under several permutations of its all-reduce."""

    matrices: Sequence[Matrix]
    """Bytes from each server (row) to each other one (column), one matrix for each of ``STRIDES``."""
    fixed: Matrix
    """The part that no permutation moves: the transfers."""

    @property
    def moved(self) -> list[Matrix]:
        """For each permutation, the rest: the all-reduce."""
        return [
            [[matrix[row][column] - self.fixed[row][column] for column in range(SERVERS)] for row in range(SERVERS)]
            for matrix in self.matrices
        ]


def simulated(runner: Runner, scenario: Path, changes: Mapping[str, object]) -> Matrix:
    """The bytes that each link carries, where every two servers have a link of their own."""
    links = runner.simulate(scenario, changes).table("links")
    matrix = [[0] * SERVERS for _ in range(SERVERS)]
    for source, target, carried in zip(links["from"], links["to"], links["carried_bytes"], strict=True):
        row, column = npu_number(source), npu_number(target)
        if row is not None and column is not None:
            matrix[row][column] += carried
    return matrix


@dataclass(frozen=True)
class Group:
    """Servers that reduce gradients together."""

    name: str
    """Name of the group in the simulation."""
    members: Sequence[int]
    bytes: int


def rings(runner: Runner, scenario: Path, groups: Sequence[Group]) -> Permuted:
    """The traffic of a job whose all-reduces run in a ring of each stride."""

    def algorithms(stride: int) -> list[dict[str, object]]:
        return [
            {
                "group": group.name,
                "collective": "all_reduce",
                "bytes": f"{group.bytes}B",
                "phases": [f"multi_ring(strides={stride % len(group.members)}) all_reduce"],
            }
            for group in groups
        ]

    matrices = [simulated(runner, scenario, {"collectives.algorithms_of": algorithms(stride)}) for stride in STRIDES]
    # No pair of servers is joined in all three rings.
    fixed = [[min(entries) for entries in zip(*rows, strict=True)] for rows in zip(*matrices, strict=True)]
    return Permuted(matrices, fixed)


def trees(runner: Runner, job: Path, reduction: Path, groups: Sequence[Group]) -> Permuted:
    """The traffic of a job whose all-reduces run in double binary trees, with servers permuted (Appendix A).

    Member ``i`` of a group takes the place of member ``i * stride``, modulo their number. The transfers are those that
    permutations of rings leave where they are.
    """
    transfers = rings(runner, job, groups).fixed
    matrices = []
    for stride in STRIDES:
        matrix = [row[:] for row in transfers]
        for group in groups:
            count = len(group.members)
            placed = [group.members[(at * stride) % count] for at in range(count)]
            tree = simulated(runner, reduction, {"placement": placed, "workload.bytes": f"{group.bytes}B"})
            matrix = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(matrix, tree, strict=True)]
        matrices.append(matrix)
    return Permuted(matrices, transfers)


def table(permuted: Permuted) -> Table:
    """Every entry that is not zero, by permutation."""
    entries = Table(
        "traffic",
        "Bytes from server to server in a step, by permutation",
        ("stride", "sender", "receiver", "all_reduce_bytes", "transfers_bytes"),
        listed=False,
    )
    for stride, moved in zip(STRIDES, permuted.moved, strict=True):
        for row in range(SERVERS):
            for column in range(SERVERS):
                if moved[row][column] or permuted.fixed[row][column]:
                    entries.add(stride, row, column, moved[row][column], permuted.fixed[row][column])
    return entries


def draw(findings: Findings) -> Figure:
    """Draws a heat map for each permutation."""
    from matplotlib.colors import LogNorm

    found = findings.table("traffic")
    figure, axes = plot.new(len(STRIDES), width=8.0, height=3.0, sharey=True)
    sizes = [a + b for a, b in zip(found.column("all_reduce_bytes"), found.column("transfers_bytes"), strict=True)]
    norm = LogNorm(min(sizes), max(sizes))
    drawn: Any = None
    for index, (at, stride) in enumerate(zip(axes, STRIDES, strict=True)):
        matrix = [[float("nan")] * SERVERS for _ in range(SERVERS)]
        for row, column, reduced, moved in zip(
            *(
                found.column(name, stride=stride)
                for name in ("sender", "receiver", "all_reduce_bytes", "transfers_bytes")
            ),
            strict=True,
        ):
            matrix[row][column] = reduced + moved
        drawn = at.imshow(matrix, norm=norm, cmap="Blues")
        at.set_title(f"permutation {index + 1}: stride {stride}")
        at.set_xlabel("receiver")
        at.grid(visible=False)
    axes[0].set_ylabel("sender")
    bar = figure.colorbar(drawn, ax=axes, shrink=0.8)
    bar.ax.yaxis.set_major_formatter(lambda value, _: size(round(value)))
    return figure


def draw_links(axis: Any, title: str, links: Iterable[tuple[int, int, str]]) -> None:
    """Draws arrows between servers on a circle: sender, receiver and colour of each."""
    at = [(sin(2 * pi * server / SERVERS), cos(2 * pi * server / SERVERS)) for server in range(SERVERS)]
    for sender, receiver, colour in links:
        arrow = {"arrowstyle": "->", "color": colour, "shrinkA": 6, "shrinkB": 6}
        axis.annotate("", at[receiver], at[sender], arrowprops=arrow)
    for server, (x, y) in enumerate(at):
        axis.text(1.15 * x, 1.15 * y, str(server), ha="center", va="center", fontsize=8)
    axis.set_xlim(-1.3, 1.3)
    axis.set_ylim(-1.3, 1.3)
    axis.set_aspect("equal")
    axis.axis("off")
    axis.set_title(title)


def ends(matrix: Matrix) -> set[tuple[int, int]]:
    """The pairs of servers with any traffic."""
    return {(row, column) for row in range(SERVERS) for column in range(SERVERS) if matrix[row][column]}


def ring(members: Sequence[int], stride: int) -> set[tuple[int, int]]:
    """The pairs of a ring."""
    return {(member, members[(at + stride) % len(members)]) for at, member in enumerate(members)}

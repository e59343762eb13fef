"""Figure 9: the three permutations together balance the traffic of the DLRM of Figure 4."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.topoopt2022.fig04 import GROUPS, SCENARIO
from experiments.topoopt2022.traffic import SERVERS, STRIDES, Matrix, ends, rings, simulated
from syncline.quantity import size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

BALANCED = Claim(
    "topo-fig09", "Fig. 9b", "with all three permutations, the traffic matrix is more balanced than in Figure 4."
)
HOPS = Claim("topo-fig09-hops", "3.3", "the combined rings give model-parallel transfers a short hop count.")


def measure(runner: Runner) -> Findings:
    """Simulates the job with one ring, and with all three at once."""
    algorithm = f"multi_ring(strides={'+'.join(map(str, STRIDES))}) all_reduce"
    (group,) = GROUPS
    of = {"group": group.name, "collective": "all_reduce", "bytes": f"{group.bytes}B", "phases": [algorithm]}
    together = simulated(runner, SCENARIO, {"collectives.algorithms_of": [of]})
    permuted = rings(runner, SCENARIO, GROUPS)
    entries = Table(
        "traffic", "Bytes from server to server in a step", ("sender", "receiver", "sent_bytes"), listed=False
    )
    for row in range(SERVERS):
        for column in range(SERVERS):
            if together[row][column]:
                entries.add(row, column, together[row][column])
    paths = hops(permuted.fixed)
    return Findings([entries, paths], [_balanced(permuted.matrices[0], together), _hops(paths)])


def hops(transfers: Matrix) -> Table:
    """Links from sender to receiver of each transfer, along rings of one stride and of all three."""
    found = Table("hops", "Links that transfers take, by rings", ("rings", "mean", "most"))
    pairs = ends(transfers)
    for strides in ((STRIDES[0],), STRIDES):
        distance = distances(strides)
        each = [distance[(column - row) % SERVERS] for row, column in pairs]
        found.add(" + ".join(map(str, strides)), sum(each) / len(each), max(each))
    return found


def distances(strides: tuple[int, ...]) -> list[int]:
    """By distance in server numbers: the fewest ring strides that cover it, breadth first."""
    distance = {0: 0}
    queue = [0]
    for at in queue:
        for stride in strides:
            then = (at + stride) % SERVERS
            if then not in distance:
                distance[then] = distance[at] + 1
                queue.append(then)
    return [distance[each] for each in range(SERVERS)]


def _balanced(one: Matrix, together: Matrix) -> Verdict:
    most = [max(map(max, matrix)) for matrix in (one, together)]
    return BALANCED.judged(
        most[1] < most[0] / 2,
        f"the largest entry is {size(most[1])}, instead of {size(most[0])}",
        "Each ring carries a third of the vector.",
    )


def _hops(paths: Table) -> Verdict:
    mean, most = paths.column("mean"), paths.column("most")
    return HOPS.judged(
        most[1] <= 4,
        f"{mean[1]:.3g} links on average, {most[1]} at most, instead of {mean[0]:.3g} and {most[0]}",
        "Routes are sums of strides: 15 is 7 + 7 + 1.",
    )


def draw(findings: Findings) -> Figure:
    """Draws the heat map."""
    from matplotlib.colors import LogNorm

    entries = findings.table("traffic")
    matrix = [[float("nan")] * SERVERS for _ in range(SERVERS)]
    for row, column, sent in entries.rows:
        matrix[int(row or 0)][int(column or 0)] = float(sent or 0)
    figure, axis = plot.new(width=4.2, height=3.4)
    sizes = entries.column("sent_bytes")
    drawn = axis.imshow(matrix, norm=LogNorm(min(sizes), max(sizes)), cmap="Blues")
    axis.set_xlabel("receiver")
    axis.set_ylabel("sender")
    axis.grid(visible=False)
    figure.colorbar(drawn).ax.yaxis.set_major_formatter(lambda value, _: size(round(value)))
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent, "three permutations at once", (BALANCED, HOPS), measure, draw, (), ("flow",)
)

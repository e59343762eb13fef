"""Figure 21: double binary trees under three permutations, and what they are worth on direct links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness import plot
from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.topoopt2022.cluster import TITLES, Setting, kept
from experiments.topoopt2022.traffic import SERVERS, STRIDES, draw_links, ends, simulated
from syncline.design import joint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.harness.runner import Runner

SCENARIO = Path(__file__).parent / "trees.yaml"
Pairs = set[tuple[int, int]]

FLIPPED = Claim(
    "topo-fig21-flipped",
    "App. A",
    "half of the nodes are leaves of the first tree, and the second tree flips the leaves and the other nodes.",
)
ISOMORPHIC = Claim(
    "topo-fig21-permuted", "App. A", "permuting the labels of a pair of trees gives a new pair that reduces, too."
)

COMPARED = (("bert", 16), ("bert", 128), ("candle", 128))
"""Models and numbers of servers of the searches."""
LATENCIES = ("1us", "10us")
PATTERNS = {"rings": "rings", "trees": "double_binary_trees"}


def measure(runner: Runner) -> Findings:
    """Simulates a reduce in each pair of trees, and searches for direct links with rings and with trees."""
    edges = {stride: _edges(runner, stride) for stride in STRIDES}
    listed = Table("edges", "Links of both trees, by permutation", ("stride", "child", "parent"), listed=False)
    for stride, pairs in edges.items():
        for child, parent in sorted(pairs):
            listed.add(stride, child, parent)
    return Findings([listed, _steps(runner)], [_flipped(edges[1]), _isomorphic(edges)])


def _edges(runner: Runner, stride: int) -> Pairs:
    """Children and parents in both trees."""
    changes: dict[str, object] = {"collectives.algorithms.dim1.reduce": f"double_binary_tree(strides={stride})"}
    return ends(simulated(runner, SCENARIO, changes))


def _flipped(edges: Pairs) -> Verdict:
    """Judged by the links alone: a node is inside a tree if it has a child there. The trees differ in their parity."""
    inner = [{parent for _, parent in edges if parent and parent % 2 == odd} for odd in (0, 1)]
    roots = {child for child, parent in edges if parent == 0}
    # Every node but the root has a parent in each tree.
    reached = [{child for child, parent in edges if parent in nodes} | (roots & nodes) for nodes in inner]
    both = set(range(1, SERVERS)) - inner[0] - inner[1]
    return FLIPPED.judged(
        all(children == set(range(1, SERVERS)) for children in reached) and len(both) == 1,
        f"inner nodes of one tree: {', '.join(map(str, sorted(inner[0])))}; of the other: "
        f"{', '.join(map(str, sorted(inner[1])))}; server 0 is the root of both, and server {min(both)} a leaf of both",
        "Each tree has seven inner nodes below its root, and eight leaves.",
    )


def _isomorphic(edges: dict[int, Pairs]) -> Verdict:
    first = edges[STRIDES[0]]
    relabelled = [{(a * stride % SERVERS, b * stride % SERVERS) for a, b in first} for stride in STRIDES]
    same = len(first.intersection(*edges.values()))
    return ISOMORPHIC.judged(
        [*edges.values()] == relabelled,
        f"{len(first)} links each, {same} of them in all three pairs",
        "The core proves every plan before it runs. Server i p has the place of server i, modulo 16.",
    )


def _steps(runner: Runner) -> Table:
    """Predicted steps on direct links."""
    found = Table(
        "steps",
        "Time of a training step on direct links of 100 Gb/s, four for each server",
        ("model", "servers", "latency", "rings_s", "trees_s", "trees_simulated_s"),
    )
    for model, servers in COMPARED[:1] if runner.quick else COMPARED:
        for latency in LATENCIES:
            seconds = {name: _search(runner, model, servers, latency, name) for name in PATTERNS}
            rings, trees = seconds["rings"], seconds["trees"]
            found.add(TITLES[model], servers, latency, rings["step_s"], trees["step_s"], trees["simulated_s"])
    return found


def _search(runner: Runner, model: str, servers: int, latency: str, name: str) -> dict[str, float]:
    search = {"all_reduce": PATTERNS[name], "proposals": 500}
    spec = Setting(model, 4, 100, servers, changes={"latency": latency}).spec(quick=runner.quick)
    spec["search"] = {**spec.get("search", {}), **search}

    def made() -> dict[str, float]:
        answer = joint.simulate(joint.search(joint.read(spec)))
        return {"step_s": answer.answer.step_s, "simulated_s": answer.simulated_s or 0.0}

    seconds: dict[str, float] = kept(runner, f"trees-{model}", spec, made)
    return seconds


def draw(findings: Findings) -> Figure:
    """Draws both trees of each permutation, one colour each."""
    figure, axes = plot.new(len(STRIDES), width=7.5, height=2.8)
    listed = findings.table("edges")
    for axis, stride in zip(axes, STRIDES, strict=True):
        label = {server * stride % SERVERS: server for server in range(SERVERS)}
        edges = zip(listed.column("child", stride=stride), listed.column("parent", stride=stride), strict=True)
        # The inner nodes of a tree are all even or all odd, and both trees have root 0.
        tree = [(child, parent, plot.COLOURS[(label[parent] or label[child]) % 2]) for child, parent in edges]
        draw_links(axis, f"stride {stride}", tree)
    return figure


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "double binary trees under three permutations",
    (FLIPPED, ISOMORPHIC),
    measure,
    draw,
    (),
    ("flow", "search"),
)

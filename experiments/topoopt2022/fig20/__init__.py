"""Figure 20: traffic of a DLRM whose gradients are reduced in double binary trees, under three permutations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.topoopt2022.fig04 import GROUPS, SCENARIO, sizes
from experiments.topoopt2022.traffic import SERVERS, STRIDES, Permuted, draw, ends, table, trees
from syncline.quantity import size

if TYPE_CHECKING:
    from experiments.harness.runner import Runner

REDUCTION = Path(__file__).parent / "reduction.yaml"

PLACES = Claim(
    "topo-fig20", "Fig. 20, App. A", "with trees, too, only the entries of the all-reduce move with the permutation."
)
BALANCED = Claim(
    "topo-fig20-load",
    "App. A",
    "each server, except the roots of both trees, has the same amount of communication in an all-reduce.",
)
SPEED = Claim("topo-fig20-speed", "App. A", "permuted trees reduce at the same speed.")


def measure(runner: Runner) -> Findings:
    """Simulates the job with trees under each permutation."""
    permuted = trees(runner, SCENARIO, REDUCTION, GROUPS)
    return Findings([sizes(permuted), table(permuted)], [_places(permuted), _balanced(permuted), _speed(runner)])


def _places(permuted: Permuted) -> Verdict:
    found = [ends(matrix) for matrix in permuted.moved]
    relabelled = [
        {(row * stride % SERVERS, column * stride % SERVERS) for row, column in found[0]} for stride in STRIDES
    ]
    return PLACES.judged(
        found == relabelled,
        f"all-reduces join {', '.join(str(len(each)) for each in found)} pairs; {len(found[0] & found[1])} are the "
        f"same for strides 1 and 3; {len(ends(permuted.fixed))} pairs have the same transfers",
        "Server i takes the place of server 3 i or 7 i, modulo 16, in both trees.",
    )


def _balanced(permuted: Permuted) -> Verdict:
    matrix = permuted.moved[0]
    sent = [sum(matrix[server]) for server in range(SERVERS)]
    received = [sum(row[server] for row in matrix) for server in range(SERVERS)]
    both = sorted(a + b for a, b in zip(sent, received, strict=True))
    return BALANCED.judged(
        both[0] < both[1] * 1.001 and both[-1] < 1.02 * both[SERVERS // 2] and both[2] > 0.98 * both[SERVERS // 2],
        f"sent and received by a server: {size(both[0])} to {size(both[-1])}, median {size(both[SERVERS // 2])}",
        "Every server is inside one tree and a leaf of the other, and each tree carries half of the vector.",
    )


def _speed(runner: Runner) -> Verdict:
    times = []
    for stride in STRIDES:
        placed = [at * stride % SERVERS for at in range(SERVERS)]
        changes = {"placement": placed, "workload.bytes": f"{GROUPS[0].bytes}B"}
        times.append(runner.simulate(REDUCTION, changes).summary.total_time_s)
    return SPEED.judged(
        max(times) <= min(times) * (1 + 1e-9),
        ", ".join(f"{each * 1e3:.4g} ms" for each in times),
        "Every two servers have a link of their own here, so only the shape of the trees counts.",
    )


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "traffic of a DLRM with double binary trees under three permutations",
    (PLACES, BALANCED, SPEED),
    measure,
    draw,
    (),
    ("flow",),
)

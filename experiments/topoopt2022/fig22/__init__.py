"""Figure 22: traffic of a CANDLE model whose gradients are reduced in double binary trees, under three permutations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.topoopt2022.fig04 import sizes
from experiments.topoopt2022.fig06 import GROUPS, SCENARIO
from experiments.topoopt2022.fig20 import REDUCTION
from experiments.topoopt2022.traffic import Permuted, draw, ends, table, trees

if TYPE_CHECKING:
    from experiments.harness.runner import Runner

PLACES = Claim(
    "topo-fig22", "Fig. 22, App. A", "transfers stay where they are, and the trees move with the permutation."
)


def measure(runner: Runner) -> Findings:
    """Simulates the job with trees under each permutation."""
    permuted = trees(runner, SCENARIO, REDUCTION, GROUPS)
    return Findings([sizes(permuted), table(permuted)], [_places(permuted)])


def _places(permuted: Permuted) -> Verdict:
    found = [ends(matrix) for matrix in permuted.moved]
    counts = ", ".join(str(len(each)) for each in found)
    return PLACES.judged(
        len({frozenset(each) for each in found}) == len(found) and bool(ends(permuted.fixed)),
        f"trees join {counts} pairs; {len(found[0] & found[1])} are the same for strides 1 and 3; "
        f"{len(ends(permuted.fixed))} pairs have the same transfers",
        "The groups of four servers have trees of their own, some of whose pairs are also in the tree of all servers; "
        "of their permutations, strides 3 and 7 are the same.",
    )


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "traffic of a CANDLE model with double binary trees under three permutations",
    (PLACES,),
    measure,
    draw,
    (),
    ("flow",),
)

"""Figure 6: traffic of a CANDLE model under three ring permutations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.topoopt2022.fig04 import sizes
from experiments.topoopt2022.traffic import SERVERS, STRIDES, Group, Permuted, draw, ends, ring, rings, table
from syncline.quantity import percent, size

if TYPE_CHECKING:
    from experiments.harness.runner import Runner

SCENARIO = Path(__file__).parent / "candle.yaml"
GROUPS = (
    Group("servers 0", range(SERVERS), 1_066_666_667),
    Group("servers 1", range(12, 16), 4_000_000_000),
    Group("servers 2", range(4), 4_000_000_000),
)
"""The rest of the model on all servers, the MLP of cells on the last four, the MLP of drugs on the first four."""

PLACES = Claim(
    "topo-fig06", "Fig. 6", "model-parallel transfers stay where they are, and all-reduces move with the permutation."
)
MOSTLY = Claim("topo-fig06-mostly", "2.2", "the traffic is mostly all-reduce, with a few model-parallel transfers.")


def measure(runner: Runner) -> Findings:
    """Simulates the job under each permutation, and takes its matrices apart."""
    permuted = rings(runner, SCENARIO, GROUPS)
    return Findings([sizes(permuted), table(permuted)], [_places(permuted), _mostly(permuted)])


def _places(permuted: Permuted) -> Verdict:
    wanted = [
        set().union(*(ring(group.members, stride % len(group.members)) for group in GROUPS)) for stride in STRIDES
    ]
    found = [ends(matrix) for matrix in permuted.moved]
    fixed = ends(permuted.fixed)
    return PLACES.judged(
        found == wanted
        and bool(fixed)
        and all(row < 4 or row > 11 or column < 4 or column > 11 for row, column in fixed),
        f"all-reduces join {', '.join(str(len(each)) for each in found)} pairs; {len(fixed)} pairs have the same "
        "transfers under each permutation",
        "Three groups reduce gradients: all servers, the first four and the last four. Transfers are those between "
        "servers of the two MLPs and the servers that read their outputs.",
    )


def _mostly(permuted: Permuted) -> Verdict:
    reduced = sum(map(sum, permuted.moved[0]))
    moved = sum(map(sum, permuted.fixed))
    return MOSTLY.judged(
        moved / (reduced + moved) < 0.1,
        f"all-reduces {size(reduced)}, {percent(reduced / (reduced + moved))} of all bytes; transfers {size(moved)}",
        "The paper gives the size of the two MLPs, 4 GB each. The rest of the model (1.07 GB) and the batch (256 "
        "samples of a server, outputs of 4,096 values of 8 bytes) are our choice.",
    )


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "traffic of a CANDLE model under three ring permutations",
    (PLACES, MOSTLY),
    measure,
    draw,
    (),
    ("flow",),
)

"""Figure 4: traffic of a DLRM under three ring permutations; Figure 5 shows the rings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.harness.claim import Claim, Verdict
from experiments.harness.experiment import Experiment, Findings
from experiments.harness.table import Table
from experiments.topoopt2022.traffic import SERVERS, STRIDES, Group, Permuted, draw, ends, ring, rings, table
from syncline.quantity import size

if TYPE_CHECKING:
    from experiments.harness.runner import Runner

SCENARIO = Path(__file__).parent / "dlrm.yaml"
TABLES = (0, 3, 8, 13)
"""The servers of the embedding tables."""
GROUPS = (Group("servers 0", range(SERVERS), 2_133_333_333),)
"""All servers reduce the rest of the model, so large that a transfer of a ring has the paper's 4 GB."""
MIB32 = 32 * 2**20

SIZES = Claim(
    "topo-02-sizes",
    "2.2",
    "4 tables of 512 columns on 16 servers, 8,192 samples each: transfers of the all-reduce have 4 GB, model-parallel "
    "transfers 32 MB.",
)
PLACES = Claim("topo-02", "Fig. 4", "only the entries of the all-reduce move with the permutation.")


def measure(runner: Runner) -> Findings:
    """Simulates the job under each permutation, and takes its matrices apart."""
    permuted = rings(runner, SCENARIO, GROUPS)
    return Findings([sizes(permuted), table(permuted)], [_sizes(permuted), _places(permuted)])


def sizes(permuted: Permuted) -> Table:
    """What the entries of each kind are, by permutation."""
    found = Table(
        "sizes", "Entries of the matrices, by permutation", ("stride", "kind", "entries", "least_bytes", "most_bytes")
    )
    for stride, moved in zip(STRIDES, permuted.moved, strict=True):
        for kind, matrix in (("all-reduce", moved), ("transfers", permuted.fixed)):
            entries = [each for row in matrix for each in row if each]
            found.add(stride, kind, len(entries), min(entries), max(entries))
    return found


def _sizes(permuted: Permuted) -> Verdict:
    reduced = {each for matrix in permuted.moved for row in matrix for each in row if each}
    fixed = permuted.fixed
    # A server with a table sends outputs and receives gradients; two such servers do both in both directions.
    expected = [
        [MIB32 * ((row in TABLES) + (column in TABLES)) * (row != column) for column in range(SERVERS)]
        for row in range(SERVERS)
    ]
    return SIZES.judged(
        all(abs(each / 4e9 - 1) < 0.01 for each in reduced) and fixed == expected,
        f"all-reduce {size(min(reduced))} to {size(max(reduced))}; transfers {size(MIB32)}, "
        f"twice that between servers that both have tables",
        "8,192 samples of a server times 512 values of 8 bytes are 32 MiB, forward from the server of a table to each "
        "other one, and back as gradients. The size of the rest of the model is not given; it was chosen so that a "
        "transfer of the ring has 4 GB (2 x 15 / 16 of 2.13 GB).",
    )


def _places(permuted: Permuted) -> Verdict:
    wanted = [ring(range(SERVERS), stride) for stride in STRIDES]
    found = [ends(matrix) for matrix in permuted.moved]
    return PLACES.judged(
        found == wanted and len(ends(permuted.fixed)) == 2 * 4 * 15 - 4 * 3,
        f"the all-reduce joins {len(found[0])} pairs, {len(found[0] & found[1])} of which are the same for strides 1 "
        f"and 3; {len(ends(permuted.fixed))} pairs have the same transfers under each permutation",
        "A server sends to the next one of its ring, 1, 3 or 7 further on. Transfers follow from where tables are.",
    )


EXPERIMENT = Experiment(
    Path(__file__).parent,
    "traffic of a DLRM under three ring permutations",
    (SIZES, PLACES),
    measure,
    draw,
    (),
    ("flow",),
)

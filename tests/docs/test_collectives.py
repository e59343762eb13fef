"""The byte counts on the page about collectives, compared with simulated runs of every algorithm listed."""

from __future__ import annotations

import re

import pytest

import syncline
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "reference" / "collectives.md").read_text("utf-8")
SIX = "all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, reduce"
OFFERED = {
    name: [kind.strip() for kind in kinds.replace("all six", SIX).split(",")]
    for name, kinds in re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]+) \| [^|]+ \|$", TEXT, re.MULTILINE)
    if "all" in kinds
}
SIZE = 4 * 720_720
"""A size that divides evenly among up to 16 ranks."""


def sent(algorithm: str, kind: str, ranks: int) -> int:
    """Total bytes of the messages of one collective."""
    result = syncline.simulate(
        workload={"collective": kind, "bytes": f"{SIZE}B"},
        fabric={"shape": f"FC({ranks})", "rate": "10GB/s"},
        collectives={"chunks": 1, "all_reduce": "baseline", "algorithms": {"default": {kind: algorithm}}},
    )
    return result.summary.bytes


def test_the_page_lists_every_algorithm() -> None:
    with pytest.raises(syncline.SynclineError) as refused:
        sent("nonsense", "all_reduce", 2)
    assert ", ".join(OFFERED) == refused.value.diagnostics[0]["allowed"]


@pytest.mark.parametrize("algorithm", OFFERED)
def test_all_ranks_together_send_the_bytes_of_the_page(algorithm: str) -> None:
    for kind in OFFERED[algorithm]:
        for ranks in (2, 3, 4, 6, 7, 8, 15, 16):
            power = ranks & (ranks - 1) == 0
            if algorithm == "bcube" and ranks not in (4, 16):
                continue
            expected = (2 if kind == "all_reduce" else 1) * SIZE * (ranks - 1)
            if algorithm == "halving_doubling" and kind != "all_reduce" and not power:
                surplus = ranks - (1 << (ranks.bit_length() - 1))
                expected += surplus * SIZE // ranks
            assert sent(algorithm, kind, ranks) == expected, f"{algorithm} {kind} {ranks}"


@pytest.mark.parametrize("algorithm", OFFERED)
def test_combinations_that_are_not_offered_are_refused(algorithm: str) -> None:
    for kind in set(SIX.split(", ")) - set(OFFERED[algorithm]):
        with pytest.raises(syncline.SynclineError) as refused:
            sent(algorithm, kind, 4)
        assert refused.value.diagnostics[0]["code"] == "SL0401"

"""Task graphs of FlexNet as workloads."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

import syncline
from syncline.errors import SynclineError
from tests.conftest import ROOT, Cli

TWO_SERVERS = (
    "IAAAAAAAAAAYABQAAAAQAAwAAAAAAAAAAAAAAAgABAAYAAAAEAAAABwAAAABAAAAAgAAAAMAAAB8AAAAWAAAACwAAAAGAAAAtAEAAGQBAAAk"
    "AQAA8AAAALwAAAB8AAAADAAeABwAFAAMAAQADAAAAAEAAAAAAAAA///////////IAAAAAAAAAA4ACgAYABYADAAEAAoAAAABAAAAAAAAAGUA"
    "AAAAAAAAAAAAAAgAFAASAAQACAAAAGQAAAAAAAAAAAAAAAAAAAAQACQAIgAYAAAAFAAIAAQAEAAAACAAAACAhB4AAAAAAAAAAAAAAAA/BgAA"
    "AAAAAAAAAAYAAgAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAKP///xwAAAAAAIA/ZAAAAAAAAAAFAAAAAAAAAAAAAQABAAAABgAAAAAAAAAAAAAA"
    "WP///xwAAAAAAIBAZQAAAAAAAAAEAAAAAAAAAAAAAQABAAAABgAAAAAAAAAAAAAAiP///xwAAAAAAEBAZQAAAAAAAAADAAAAAAAAAAAAAAAB"
    "AAAABAAAAAAAAAAQACwAKgAgABgAFAAIAAQAEAAAACgAAABAQg8AAAAAAAAAAAAAAAAAyAAAAAAAAAACAAAAAAAAAAAABQABAAAAAwAAAAAA"
    "AAAAAAAAEAAgAB4AFAAMAAgAAAAEABAAAAAcAAAAAAAAQGQAAAAAAAAAAQAAAAAAAAAAAAAAAQAAAAIAAAAAAAAA"
)
"""Server 0 computes 2 ms and sends 1 MB to server 1, which computes 3 ms and 4 ms. Server 0 computes 1 ms besides. Both
then reduce 2 MB, after 0.5 ms inside each. Written with FlatBuffers' own library."""
GRAPHS = ROOT.parent / "shared" / "data" / "topoopt" / "taskgraphs"


def scenario(folder: Path, content: bytes = base64.b64decode(TWO_SERVERS), hosts: int = 2) -> Path:
    (folder / "graph.fbuf").write_bytes(content)
    path = folder / "scenario.yaml"
    path.write_text(
        "workload: { flexnet: graph.fbuf }\n"
        f"fabric: {{ switch: {{ hosts: {hosts}, rate: 100Gb/s, latency: 1us }} }}\n"
        "collectives: { algorithms: { dim1: { all_reduce: ring } }, chunks: 1 }\n"
        "network: flow\n",
        "utf-8",
    )
    return path


def test_a_step_takes_the_time_that_follows_by_hand(tmp_path: Path) -> None:
    result = syncline.simulate(scenario(tmp_path))
    # A megabyte takes 80 us and two links of 1 us; the ring has two rounds of one.
    hop = 80e-6 + 2e-6
    assert result.summary.total_time_s == pytest.approx(2e-3 + hop + 3e-3 + 4e-3 + 0.5e-3 + 2 * hop, abs=1e-9)
    assert result.summary.ranks == 2
    assert result.scenario is not None
    assert result.scenario["workload"]["file"].endswith("graph.fbuf")


def test_an_iteration_begins_when_the_one_before_has_ended(tmp_path: Path) -> None:
    path = scenario(tmp_path)
    once = syncline.simulate(path).summary.total_time_s
    thrice = syncline.simulate(path, set={"workload.iterations": 3}).summary
    # Server 0 begins its next forward pass at once, as server 1 does: both end with the all-reduce.
    assert thrice.total_time_s == pytest.approx(3 * once, rel=1e-3)
    assert thrice.iterations == 3


def test_other_files_are_refused(tmp_path: Path, cli: Cli) -> None:
    for content in (b"", b"not a task graph", base64.b64decode(TWO_SERVERS)[:300]):
        with pytest.raises(SynclineError, match="not a task graph of FlexNet"):
            syncline.simulate(scenario(tmp_path, content))
    path = scenario(tmp_path)
    (tmp_path / "graph.fbuf").unlink()
    done = cli("simulate", str(path))
    assert done.returncode == 3
    assert "graph.fbuf" in done.stderr
    with pytest.raises(SynclineError, match="the task graph has 2 servers"):
        syncline.simulate(scenario(tmp_path, hosts=3))


@pytest.mark.skipif(not GRAPHS.is_dir(), reason="the released task graphs are not there")
@pytest.mark.parametrize(
    ("name", "compute_s", "all_reduced_bytes", "transferred_bytes"),
    [("candle_16", (574 + 1079) / 16e3, None, 18.5e9), ("transformer_16", (337 + 659) / 16e3, 0.227e9, 0)],
)
def test_released_graphs_have_the_sums_that_an_independent_reader_found(
    tmp_path: Path, name: str, compute_s: float, all_reduced_bytes: float | None, transferred_bytes: float
) -> None:
    path = scenario(tmp_path, (GRAPHS / f"fattree100G_{name}.fbuf").read_bytes(), 16)
    result = syncline.simulate(path)
    assert result.summary.compute_s == pytest.approx(compute_s, rel=2e-3)
    table = result.table("collectives")
    groups = zip(table["size_bytes"], table["group_ranks"], table["groups"], strict=True)
    reduced = sum(size * 2 * (ranks - 1) * count for size, ranks, count in groups)
    assert result.summary.bytes - reduced == pytest.approx(transferred_bytes, rel=0.01, abs=1e6)
    if all_reduced_bytes is not None:
        assert sum(table["size_bytes"]) == pytest.approx(all_reduced_bytes, rel=0.01)

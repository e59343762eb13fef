"""A measured fabric: what messages take follows from what was measured, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import syncline
from syncline.distances import Measured, Pair, save
from syncline.errors import SynclineError


def simulated(folder: Path, measured: Measured, collective: str, nbytes: str, **fabric: str) -> float:
    save(measured, str(folder / "probe.parquet"))
    (folder / "job.yaml").write_text(
        f"schema: syncline/1\nworkload: {{ collective: {collective}, bytes: {nbytes} }}\n"
        f"fabric: {{ measured: probe.parquet{''.join(f', {key}: {value}' for key, value in fabric.items())} }}\n"
        "collectives: { chunks: 1 }\nnetwork: flow\n"
    )
    return syncline.simulate(folder / "job.yaml").summary.total_time_s


def full(hosts: int, rtt_s: float, rate: float | None) -> Measured:
    pairs = {(a, b): Pair(rtt_s, rate_bytes_per_s=rate) for a in range(hosts) for b in range(hosts) if a != b}
    return Measured(tuple("abcdef"[:hosts]), pairs)


def test_a_message_takes_half_a_round_trip_and_its_bytes_at_the_measured_rate(tmp_path: Path) -> None:
    # Each of two hosts sends half of the bytes.
    took = simulated(tmp_path, full(2, 100e-6, 1e9), "all_to_all", "2MB")
    assert took == pytest.approx(50e-6 + 1e6 / 1e9, rel=1e-6)


def test_messages_of_a_host_share_its_interface(tmp_path: Path) -> None:
    took = simulated(tmp_path, full(3, 100e-6, 1e9), "all_to_all", "3MB")
    assert took == pytest.approx(50e-6 + 2e6 / 1e9, rel=1e-6)
    # An interface faster than what one connection reached.
    took = simulated(tmp_path, full(3, 100e-6, 1e9), "all_to_all", "3MB", rate="2GB/s")
    assert took == pytest.approx(50e-6 + 1e6 / 1e9, rel=1e-6)


def test_without_rates_the_interface_needs_one(tmp_path: Path) -> None:
    took = simulated(tmp_path, full(2, 100e-6, None), "all_to_all", "2MB", rate="500MB/s")
    assert took == pytest.approx(50e-6 + 2e-3, rel=1e-6)
    with pytest.raises(SynclineError, match="missing key `rate`") as refused:
        simulated(tmp_path, full(2, 100e-6, None), "all_to_all", "2MB")
    assert refused.value.exit_status == 2


def test_pairs_that_were_not_measured_are_inferred(tmp_path: Path) -> None:
    pairs = {(0, 1): Pair(100e-6, rate_bytes_per_s=1e9), (1, 2): Pair(300e-6, rate_bytes_per_s=5e8)}
    took = simulated(tmp_path, Measured(("a", "b", "c"), pairs), "all_to_all", "3MB", rate="10GB/s")
    # From a to c: as long and as slow as the worse hop by way of b.
    assert took == pytest.approx(150e-6 + 1e6 / 5e8, rel=1e-6)


def test_pairs_without_a_rate_have_that_of_interfaces(tmp_path: Path) -> None:
    pairs = {(0, 1): Pair(100e-6, rate_bytes_per_s=1e9), (0, 2): Pair(100e-6), (1, 2): Pair(100e-6)}
    took = simulated(tmp_path, Measured(("a", "b", "c"), pairs), "all_to_all", "3MB", rate="500MB/s")
    # Both messages of a host share its interface.
    assert took == pytest.approx(50e-6 + 2e6 / 5e8, rel=1e-6)


def test_npus_of_a_host_share_its_interface(tmp_path: Path) -> None:
    # Each NPU sends 1 MB to its neighbour in the host, and 1 MB to each of the other host's two.
    nodes = "{ npus: 2, rate: 10GB/s, latency: 1us }"
    took = simulated(tmp_path, full(2, 100e-6, 1e9), "all_to_all", "4MB", nodes=nodes)
    assert took == pytest.approx(50e-6 + 2e-6 + 4e6 / 1e9, rel=1e-6)
    # Links of NPUs are the slower ones: each carries 3 MB.
    nodes = "{ npus: 2, rate: 0.5GB/s, latency: 1us }"
    took = simulated(tmp_path, full(2, 100e-6, 1e9), "all_to_all", "4MB", nodes=nodes)
    assert took == pytest.approx(50e-6 + 2e-6 + 3e6 / 0.5e9, rel=1e-6)


def test_hosts_that_are_not_connected_are_refused(tmp_path: Path) -> None:
    measured = Measured(("a", "b", "c", "d"), {(0, 1): Pair(1e-6), (2, 3): Pair(1e-6)})
    with pytest.raises(SynclineError, match="do not connect c and 1 more to a"):
        simulated(tmp_path, measured, "all_reduce", "1MB", rate="1GB/s")


def test_npus_of_a_host_reach_each_other_inside_it(tmp_path: Path) -> None:
    save(full(2, 100e-6, 1e9), str(tmp_path / "probe.parquet"))
    nodes = {"npus": 4, "rate": "10GB/s", "latency": "1us"}
    fabric = {"measured": str(tmp_path / "probe.parquet"), "nodes": nodes}
    job = {"collective": "all_to_all", "bytes": "2MB"}
    result = syncline.simulate(workload=job, fabric=fabric, placement=[4, 6], collectives={"chunks": 1}, network="flow")
    assert result.summary.total_time_s == pytest.approx(2e-6 + 1e6 / 10e9, rel=1e-6)
    links = result.table("links")
    assert {f"{one} {other}" for one, other in zip(links["from"], links["to"], strict=True)} >= {
        "a NPU 3 a",
        "b NPU 0 b",
    }


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    fabric = {"measured": str(tmp_path / "none.parquet"), "rate": "1GB/s"}
    with pytest.raises(SynclineError, match=r"none\.parquet") as refused:
        syncline.simulate(workload={"collective": "all_reduce", "bytes": "1MB"}, fabric=fabric)
    assert refused.value.exit_status == 3

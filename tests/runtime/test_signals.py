"""What a rank measures while it runs operations."""

from __future__ import annotations

import json
import re

import pytest

from tests.runtime.test_collectives import run


def test_signals_tell_bytes_times_and_what_the_kernel_knows():
    body = """
        import json
        from syncline.runtime import signals
        with Communicator.join(
            resources=Resources(shared_memory=False), plans=Plans(rules=[Rule("all_reduce", "ring")])
        ) as ranks:
            for _ in range(20):
                ranks.all_reduce(array("f", [1.0] * 300_000)).wait()
            for _ in range(5):
                ranks.all_gather(array("f", [1.0]), array("f", [0.0] * ranks.world)).wait()
            ranks.barrier().wait()
            print(json.dumps(signals.read(ranks).as_dict()))
            ranks.barrier().wait()
    """
    for rank, line in enumerate(run(3, body)):
        said = json.loads(line)
        assert (said["rank"], said["epoch"], said["edition"]) == (rank, 0, 0)
        peers = {each["rank"]: each for each in said["connections"]}
        assert sorted(peers) == sorted({0, 1, 2} - {rank})
        # A ring of three sends 2 * 2 / 3 of each vector to the next rank, and receives as much from the one before.
        # Headers and the small operations add less than a hundredth.
        ring = 20 * 4 / 3 * 1_200_000
        after, before = peers[(rank + 1) % 3], peers[(rank + 2) % 3]
        assert ring <= after["sent_bytes"] < 1.01 * ring + 20_000
        assert ring <= before["received_bytes"] < 1.01 * ring + 20_000
        assert after["received_bytes"] < 20_000 and before["sent_bytes"] < 20_000
        tcp = after["tcp"]
        assert 0 < tcp["shortest_round_trip_s"] <= tcp["round_trip_s"] + 4 * tcp["variation_s"] < 1
        assert tcp["delivery_rate_bytes_per_s"] > 1e6
        times = {(each["kind"], each["from_bytes"]): each for each in said["operations"]}
        large = times["all_reduce", 1 << 20]
        assert (large["count"], large["bytes"]) == (20, 24_000_000)
        assert large["total_s"] / 20 <= large["longest_s"] <= large["total_s"]
        assert times["all_gather", 8]["count"] == 5  # 12 bytes
        assert times["all_reduce", 1]["count"] == 1  # the barrier


def test_a_log_has_a_line_for_each_interval_and_a_last_one(tmp_path):
    file = tmp_path / "signals.jsonl"
    body = f"""
        import time
        from syncline.runtime import signals
        with Communicator.join() as ranks:
            with signals.Log(ranks, {str(file)!r} + str(ranks.rank), 0.05) as log:
                for _ in range(30):
                    ranks.barrier().wait()
                    time.sleep(0.01)
            ranks.barrier().wait()
            print(log.failed)
    """
    assert run(2, body) == ["None"] * 2
    for rank in range(2):
        lines = [json.loads(line) for line in (tmp_path / f"signals.jsonl{rank}").read_text().splitlines()]
        assert len(lines) >= 3
        assert [line["rank"] for line in lines] == [rank] * len(lines)
        assert lines[-1]["operations"][0]["count"] == 30
        times = [line["at_s"] for line in lines]
        assert times == sorted(times)


def test_a_log_that_cannot_be_written_is_an_error_or_ends_without_one(tmp_path):
    body = f"""
        from syncline import SynclineError
        from syncline.runtime import signals
        with Communicator.join() as ranks:
            try:
                signals.Log(ranks, {str(tmp_path / "none" / "log")!r})
            except SynclineError as error:
                print(error.diagnostics[0]["code"])
            try:
                signals.Log(ranks, {str(tmp_path / "log")!r}, 0)
            except SynclineError as error:
                print(error.diagnostics[0]["code"])
            with signals.Log(ranks, "/dev/full", 0.01) as log:
                pass
            print(log.failed)
    """
    (said,) = run(1, body)
    assert said.split("\n")[1:] == ["SL0102", "No space left on device"]
    assert re.fullmatch(r"SL08\d\d|SL0105", said.split("\n")[0])


def test_prometheus_can_scrape_a_rank():
    pytest.importorskip("prometheus_client")
    body = """
        import urllib.request
        from syncline.runtime import signals
        with Communicator.join(resources=Resources(shared_memory=False)) as ranks:
            ranks.all_reduce(array("f", [1.0] * 1000)).wait()
            address = signals.serve_metrics(ranks, "127.0.0.1:0")
            text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
            ranks.barrier().wait()
            print(text)
    """
    first, second = run(2, body)
    assert 'syncline_operation_seconds_count{from_bytes="2048",kind="all_reduce",rank="0"} 1.0' in first
    assert re.search(r'syncline_sent_bytes_total\{lane="0",peer="0",rank="1"\} \d', second)
    # A round trip may be written as 5e-05, without a point.
    trip = re.search(r'syncline_round_trip_seconds\{lane="0",peer="1",rank="0"\} (\S+)', first)
    assert trip and 0 < float(trip[1]) < 10
    assert 'syncline_plan_edition{rank="0"} 0.0' in first

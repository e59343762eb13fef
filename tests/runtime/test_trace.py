"""Traces of what ranks did when."""

from __future__ import annotations

from syncline import simulate
from tests.conftest import RING
from tests.runtime.test_collectives import run


def texts(trace: bytes) -> list[str]:
    """The readable names in a trace, in order."""
    found, word = [], bytearray()
    for byte in trace:
        if 32 <= byte < 127:
            word.append(byte)
            continue
        if len(word) > 4:
            found.append(word.decode())
        word.clear()
    return found


def test_rank_0_writes_what_all_ranks_did(tmp_path):
    file = tmp_path / "job.pftrace"
    body = f"""
        from syncline.runtime.trace import Trace
        with Communicator.join() as ranks:
            ranks.all_reduce(array("f", [1.0] * 100)).wait()  # before the trace
            with Trace(ranks, {str(file)!r}) as trace:
                for _ in range(4):
                    ranks.all_reduce(array("f", [1.0] * 1000)).wait()
                ranks.all_gather(array("f", [1.0]), array("f", [0.0] * ranks.world)).wait()
                if ranks.rank < 2:
                    pair = ranks.group([0, 1], "the pair")
                    pair.broadcast(array("f", [1.0] * 10), 1).wait()
                    pair.close()
            print(trace.left_out)
            ranks.barrier().wait()
    """
    assert run(3, body) == ["0"] * 3
    words = "\n".join(texts(file.read_bytes()))
    for expected in ("rank 0, measured", "rank 2, measured", "all_reduce", "all_gather", "broadcast", "the pair"):
        assert expected in words
    assert "rank 3" not in words


def test_recorded_operations_have_their_times():
    body = """
        import time
        with Communicator.join() as ranks:
            ranks.record(on=True)
            began = time.monotonic()
            for _ in range(3):
                ranks.all_reduce(array("f", [1.0] * 1000)).wait()
                time.sleep(0.05)
            recorded = ranks.record(on=False).operations
            spans = [(each.began_s - began, each.ended_s - began) for each in recorded]
            assert [(each.kind, each.bytes, each.group) for each in recorded] == [("all_reduce", 4000, "")] * 3
            assert all(0 <= start <= end for start, end in spans), spans
            assert all(end <= after for (_, end), (after, _) in zip(spans, spans[1:])), spans
            assert spans[2][0] >= 0.1, spans
            assert ranks.record(on=False).operations == []
            ranks.barrier().wait()
    """
    run(2, body)


def test_a_simulated_run_can_be_beside_it(tmp_path):
    scenario = tmp_path / "ring.yaml"
    scenario.write_text(RING)
    simulate(str(scenario), set={"trace.ranks": [0, 1]}).save(tmp_path / "run")
    simulated = tmp_path / "run" / "trace.pftrace"
    file = tmp_path / "both.pftrace"
    body = f"""
        from syncline.runtime.trace import Trace
        with Communicator.join() as ranks:
            with Trace(ranks, {str(file)!r}, beside={str(simulated)!r}):
                ranks.all_reduce(array("f", [1.0] * 1000)).wait()
            ranks.barrier().wait()
    """
    run(2, body)
    both = file.read_bytes()
    assert both.startswith(simulated.read_bytes())
    words = texts(both)
    assert any(word.startswith("rank 0, measured") for word in words)


def test_all_ranks_raise_if_rank_0_cannot_use_the_files(tmp_path):
    body = f"""
        from syncline import SynclineError
        from syncline.runtime.trace import Trace
        with Communicator.join() as ranks:
            for file, beside in [({str(tmp_path / "no" / "x")!r}, None), ({str(tmp_path / "x")!r}, "nowhere")]:
                try:
                    Trace(ranks, file, beside=beside)
                except SynclineError as error:
                    print(error.diagnostics[0]["code"], end=" ")
            pair = ranks.group([0, 1], "pair")
            try:
                pair.record(on=True)
            except SynclineError as error:
                print(error.diagnostics[0]["code"])
            ranks.barrier().wait()
    """
    assert run(2, body) == ["SL0801 SL0105 SL0102", "SL0801 SL0801 SL0102"]
    assert not (tmp_path / "x").exists()

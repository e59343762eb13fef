"""Collectives written as Python generators."""

import pytest

import syncline
from syncline.plans import Plan, after, copy, count, plan, receive, send, wait


def ring(rank: int, ranks: int):
    for step in range(ranks - 1):
        yield send((rank + 1) % ranks, block=(rank - step - 1) % ranks)
        yield receive((rank - 1) % ranks, block=(rank - step - 2) % ranks, reduce=True)
        yield wait()
    for step in range(ranks - 1):
        yield send((rank + 1) % ranks, block=(rank - step) % ranks)
        yield receive((rank - 1) % ranks, block=(rank - step - 1) % ranks)
        yield wait()


FABRIC = {
    "dims": [{"name": "d", "shape": "ring", "size": 8, "rate": "50GB/s", "latency": "500ns", "direction": "one-way"}]
}
WORKLOAD = {"collective": "all_reduce", "bytes": "8MB"}


def test_a_generated_ring_takes_as_long_as_the_built_in_one(tmp_path):
    path = plan("my_ring", "all_reduce", 8, ring).save(tmp_path / "ring.json")
    own = syncline.simulate(
        workload=WORKLOAD, fabric=FABRIC, collectives={"chunks": 1, "plans": {"all_reduce": str(path)}}
    )
    library = syncline.simulate(workload=WORKLOAD, fabric=FABRIC, collectives={"chunks": 1})
    assert own.summary.total_time_s == library.summary.total_time_s
    assert own.table("collectives")["algorithm"] == ["my_ring all_reduce"]


@pytest.mark.parametrize("first", [1, 2])
def test_messages_are_sent_in_the_order_of_the_plan(tmp_path, first):
    # Rank 0 sends to one rank first, which passes the data on while rank 0 sends to another.
    def relay(rank: int, ranks: int):
        if rank == 0:
            return [send(first, block=0), send(3 - first, block=0)]
        if rank == first:
            return [receive(0, block=0), wait(), send(3, block=0)]
        return [receive(first if rank == 3 else 0, block=0)]

    path = plan("relay", "broadcast", 4, relay, blocks=1).save(tmp_path / "relay.json")

    def microseconds(injection):
        result = syncline.simulate(
            workload={"collective": "broadcast", "bytes": "5MB"},
            fabric={"shape": "Switch(4)", "rate": "50GB/s", "latency": "500ns"},
            collectives={"chunks": 1, "plans": {"broadcast": str(path)}, "injection_latency": injection},
        )
        return 1e6 * result.summary.total_time_s

    # 5 MB at 50 GB/s and two links, twice; each message passes through memory at both its ends.
    assert microseconds("0us") == pytest.approx(2 * (100 + 1))
    assert microseconds("1us") == pytest.approx(2 * (100 + 1 + 2 * 1))


def test_a_saved_plan_reads_back_unchanged(tmp_path):
    mine = plan("my_ring", "all_reduce", 4, ring)
    assert Plan.load(mine.save(tmp_path / "ring.json")).content == mine.content


def test_a_wrong_plan_is_refused_with_the_rank_and_the_block():
    def forgetful(rank: int, ranks: int):
        return [
            op for op in ring(rank, ranks) if not (op["op"] == "receive" and op["from"] == 2 and "reduce" not in op)
        ]

    with pytest.raises(syncline.SynclineError) as caught:
        plan("forgetful", "all_reduce", 4, forgetful)
    assert caught.value.exit_status == 2
    assert caught.value.diagnostics[0]["code"] == "SL0402"
    assert "rank 3" in str(caught.value) or "seat 3" in str(caught.value)


def test_a_program_may_have_streams_and_copies():
    # Two streams, each for one half of the vector; the second waits for the first.
    def swap(rank: int, ranks: int):
        other = 1 - rank
        yield [send(other, block=0), receive(other, block=0, reduce=True), wait()]
        yield [after(0, 3), send(other, block=1), receive(other, block=1, reduce=True), wait()]

    assert plan("swap", "all_reduce", 2, swap, blocks=2).name == "swap"

    def exchange(rank: int, ranks: int):
        yield copy(("data", rank), ("output", rank))
        yield send(1 - rank, block=1 - rank)
        yield receive(1 - rank, block=1 - rank, buffer="output")

    assert plan("exchange", "all_to_all", 2, exchange).name == "exchange"


def test_a_program_is_one_stream_or_several_not_both():
    with pytest.raises(TypeError, match="not both"):
        plan("mixed", "all_reduce", 2, lambda rank, ranks: [wait(), [wait()]])


def test_messages_and_bytes_of_an_algorithm_are_counted():
    found = count("ring", "all_reduce", 8, 8000, [rank // 4 for rank in range(8)])
    assert (found.rounds, found.messages, found.wire_bytes) == (14, 112, 112_000)
    # Two of eight links cross, each with 1/8 of the vector in each round.
    assert found.across_bytes == 28_000
    assert found.sent_bytes == found.received_bytes == [14_000] * 8
    hub = count("parameter_server(placement=NCC)", "all_reduce", 3, 900, [0, 0, 0, 1])
    assert hub.sent_bytes == [900, 900, 900, 2700]


def test_invalid_requests_to_count_are_refused():
    with pytest.raises(syncline.SynclineError, match="there is no such algorithm"):
        count("rings", "all_reduce", 8, 8000, [0] * 8)
    with pytest.raises(syncline.SynclineError, match="parameter_server"):
        count("parameter_server", "broadcast", 8, 8000, [0] * 8)
    with pytest.raises(ValueError, match="there is no collective `sum`"):
        count("ring", "sum", 8, 8000, [0] * 8)
    with pytest.raises(ValueError, match="4 seats, but `groups` has 3 entries"):
        count("parameter_server(placement=NCC)", "all_reduce", 3, 900, [0, 0, 0])

"""Messages between two ranks, and groups of ranks, on the connections of collectives. Every wait ends."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.hub.certificates import make
from syncline.runtime import Communicator
from tests.options import of_rank
from tests.runtime.jobs import free_port

KEPT = 1 << 20
SMALL = 64 << 10


def descriptors():
    """Returns the open files and sockets of this process."""
    return {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}


@contextmanager
def job(world, *, deadline_s=20.0, **more):
    """Joins all ranks on threads of this process, yields their communicators, and closes them."""
    address = f"127.0.0.1:{free_port()}"
    options = of_rank(deadline_s=deadline_s, insecure=True, **more)

    def join(rank):
        return Communicator.join(rank, world, address, **options)

    with ThreadPoolExecutor(world) as threads:
        ranks = list(threads.map(join, range(world)))
    try:
        yield ranks
    finally:
        with ThreadPoolExecutor(world) as threads:
            list(threads.map(Communicator.close, ranks))


def why(pending, within_s=20.0):
    """Waits for an operation that must fail, and returns the message of its error."""
    with pytest.raises(SynclineError) as caught:
        assert pending.wait(within_s), "it goes on"
    assert caught.value.exit_status == 6
    return caught.value.diagnostics[0]["message"]


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("nbytes", [0, 1, SMALL, SMALL + 1, 5_000_000])
def test_messages_of_any_size_arrive(nbytes, shared_memory):
    with job(2, shared_memory=shared_memory) as (one, other):
        content, room = bytearray(b"x" * nbytes), bytearray(nbytes)
        told, said = threading.Event(), []
        received = other.receive(room, None, 3)
        received.then(lambda error: (said.append(error), told.set()))
        sent = one.send(content, 1, 3)
        assert sent.wait(10) and received.wait(10)
        assert room == content and received.source == 0 and sent.source == 1
        assert told.wait(10) and said == [None]


@pytest.mark.parametrize("shared_memory", [True, False])
def test_messages_of_a_job_with_certificates_use_tls(tmp_path, shared_memory):
    """A message uses a connection that certificates protect, or memory that does not leave the machine."""
    make(tmp_path / "certs", job=None, ranks=0, days=1, force=False)
    with job(2, tls=tmp_path / "certs", shared_memory=shared_memory) as (one, other):
        before = descriptors()
        room = bytearray(1_000_000)
        waiting = other.receive(room, 0, 1)
        assert one.send(bytearray(b"y" * 1_000_000), 1, 1).wait(10) and waiting.wait(10)
        assert set(one.transports.values()) == {"shared memory" if shared_memory else "TLS"}
        # The message used no new connection.
        assert descriptors() <= before


def test_small_messages_are_kept_at_the_receiver_up_to_a_limit():
    with job(2) as (one, other):
        sent = [one.send(bytearray([number]) * SMALL, 1) for number in range(2 * KEPT // SMALL)]
        assert all(each.wait(10) for each in sent[: KEPT // SMALL])
        assert not any(each.done() for each in sent[KEPT // SMALL :])
        deadline = time.monotonic() + 10
        while other.kept["messages"] < KEPT and time.monotonic() < deadline:
            time.sleep(0.05)
        assert other.kept == {"early": 0, "most_early": 0, "messages": KEPT}
        for number in range(len(sent)):
            room = bytearray(SMALL)
            assert other.receive(room, 0).wait(10)
            assert set(room) == {number}
        assert all(each.wait(10) for each in sent)
        # The receiver has room again.
        assert one.send(bytearray(SMALL), 1, 1).wait(10)


def test_a_rank_that_does_not_exist_is_refused():
    with job(2) as (one, _):
        for rank in (0, 2, -1):
            with pytest.raises(SynclineError):
                one.send(bytearray(1), rank)


def test_different_lengths_fail_on_both_ranks_and_the_job_goes_on():
    with job(2) as (one, other):
        sent, waiting = one.send(bytearray(9), 1, space=4), other.receive(bytearray(8), 0, space=4)
        for each in (sent, waiting):
            assert "rank 0 sends 9 bytes where rank 1 expects 8 bytes" in why(each)
        barriers = one.barrier(), other.barrier()
        assert all(each.wait(10) for each in barriers)


def test_a_rank_that_leaves_is_named_by_the_rank_that_waits_for_it():
    with job(2) as (one, other):
        waiting = other.receive(bytearray(4), 0, 5)
        one.close()
        left = "rank 0 has left, but other ranks still need it"
        assert why(waiting).startswith(f"{left} (recv of 4 bytes from rank 0, tag 5")


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (lambda one, _: one.receive(bytearray(4), 1, 1), "rank 1 has not sent the message that rank 0 waits for"),
        (
            lambda one, _: one.receive(bytearray(4), None, 1),
            "some rank has not sent the message that rank 0 waits for from",
        ),
        (lambda one, _: one.send(bytearray(SMALL + 1), 1, 1), "rank 1 has not received the message from rank 0"),
    ],
    ids=["receive", "receive from any", "send"],
)
def test_a_missed_deadline_fails_everything_on_all_ranks_with_the_same_message(begin, said):
    with job(3, deadline_s=1.0) as ranks:
        late = begin(*ranks[:2])
        began = time.monotonic()
        assert why(late).startswith(said)
        assert 0.9 < time.monotonic() - began < 10
        for rank in ranks:
            assert why(rank.barrier()).startswith(said)


def test_withdrawing_a_receive_does_not_fail_the_job():
    with job(2, deadline_s=1.0) as (one, other):
        waiting = one.receive(bytearray(4), 1, 1)
        waiting.withdraw()
        assert "no longer waits for it" in why(waiting)
        time.sleep(1.5)
        barriers = one.barrier(), other.barrier()
        assert all(each.wait(10) for each in barriers)


def test_groups_share_connections_and_threads_and_are_made_quickly():
    """Making one hundred groups opens no descriptors and starts no threads, and takes milliseconds."""
    with job(4) as ranks:
        before = len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))
        groups, began = [], time.monotonic()
        for number in range(100):
            members = [rank for rank in range(4) if rank != number % 4]
            groups.append([(rank, ranks[rank].group(members, f"group {number}")) for rank in members])
        each_s = (time.monotonic() - began) / 300
        assert each_s < 0.02, f"{each_s * 1000:.1f} ms"
        buffers = []
        for made in groups:
            for rank, group in made:
                buffer = bytearray([rank + 1] * 1000)
                buffers.append((group.all_reduce(buffer), buffer, made))
        for pending, buffer, made in buffers:
            assert pending.wait(30)
            assert set(buffer) == {sum(rank + 1 for rank, _ in made)}
        after = len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))
        assert after <= before
        # Ranks have their own numbers in a group, and messages stay within it.
        (_, first), (_, second), _ = groups[0]
        assert (first.rank, first.world, second.rank, first.ranks) == (0, 3, 1, [1, 2, 3])
        room = bytearray(4)
        waiting = second.receive(room, None, 0)
        first.send(bytearray(b"mine"), 1)
        assert waiting.wait(10) and room == b"mine" and waiting.source == 0


def test_closing_a_group_fails_nothing_else():
    with job(3) as ranks:
        pairs = [ranks[rank].group([0, 1], "pair") for rank in (0, 1)]
        waiting = pairs[1].receive(bytearray(4), 0)
        summed = pairs[1].all_reduce(bytearray(4))
        time.sleep(0.2)
        pairs[0].close()
        for each in (waiting, summed, pairs[1].barrier()):
            assert why(each).startswith("rank 0 has left the group, but other ranks still need it")
        barriers = [rank.barrier() for rank in ranks]
        assert all(each.wait(10) for each in barriers)
        pairs[1].close()
        again = [ranks[rank].group([0, 1], "another pair") for rank in (0, 1)]
        barriers = [group.barrier() for group in again]
        assert all(each.wait(10) for each in barriers)


def test_a_name_may_be_used_again_while_other_members_still_have_its_first_group():
    with job(3) as ranks:
        first = [ranks[rank].group([0, 1], "pair") for rank in (0, 1)]
        barriers = [group.barrier() for group in first]
        assert all(each.wait(10) for each in barriers)
        first[0].close()
        again = ranks[0].group([0, 1], "pair")
        early = again.all_reduce(bytearray(4))
        time.sleep(0.3)
        barriers = [rank.barrier() for rank in ranks]
        assert all(each.wait(10) for each in barriers), "the job goes on"
        first[1].close()
        other = ranks[1].group([0, 1], "pair")
        late = other.all_reduce(bytearray(4))
        assert early.wait(10) and late.wait(10)


def test_set_deadline_applies_to_operations_that_begin_later():
    with job(2) as ranks:
        pair = [ranks[rank].group([0, 1], "pair", deadline_s=1.0) for rank in (0, 1)]
        pair[0].set_deadline(30.0)
        waiting = pair[0].receive(bytearray(4), 1)
        barrier = pair[0].barrier()
        time.sleep(2.5)
        pair[1].send(bytearray(4), 0)
        assert pair[1].barrier().wait(10) and barrier.wait(10) and waiting.wait(10)
        pair[0].set_deadline(0.5)
        assert why(pair[0].barrier()).startswith("rank 1 has not begun operation 2 of a group")
        for wrong in (0.0, -1.0, 1e12, float("nan")):
            with pytest.raises(SynclineError, match="deadline_s"):
                pair[0].set_deadline(wrong)


def test_a_group_has_its_own_deadline_and_names_the_rank_that_has_not_begun():
    with job(3) as ranks:
        pair = [ranks[rank].group([1, 2], "pair", deadline_s=1.0) for rank in (1, 2)]
        assert why(pair[0].barrier()).startswith("rank 2 has not begun operation 1 of a group of ranks 1, 2")
        assert why(ranks[0].barrier()).startswith("rank 2 has not begun")


def test_invalid_groups_are_refused():
    with job(3) as ranks:
        for members in ([1, 2], [0, 0], [0, 3]):
            with pytest.raises(SynclineError):
                ranks[0].group(members, "none")
        group = ranks[0].group([0, 1], "some")
        with pytest.raises(SynclineError):
            ranks[0].group([0, 1], "some")
        with pytest.raises(SynclineError):
            group.group([0, 1], "of a group")
        with pytest.raises(SynclineError):
            group.renew()

"""Messages between two ranks, without PyTorch: strangers are kept out, and nobody waits for ever."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager, suppress

import pytest

from syncline.errors import SynclineError
from syncline.runtime.memory import memory
from syncline.runtime.messenger import HEADER, KEPT, LONGEST_TEXT, SMALL, Kind, Messenger

KEY = bytes(range(32))


@contextmanager
def messengers(world, *, keys=None, deadline_s=20.0, fault=lambda: None):
    """Messengers of all ranks, in one process."""
    made = [
        Messenger(
            rank,
            world,
            job="test",
            key=keys[rank] if keys else KEY,
            interface="127.0.0.1",
            deadline_s=deadline_s,
            fault=fault,
        )
        for rank in range(world)
    ]
    for each in made:
        each.meet([("127.0.0.1", other.port) for other in made])
    try:
        yield made
    finally:
        for each in made:
            each.close()


def why(transfer, within_s=10.0):
    """What a message that failed says."""
    with pytest.raises(SynclineError) as caught:
        assert transfer.wait(within_s), "it goes on"
    assert caught.value.exit_status == 6
    return caught.value.diagnostics[0]["message"]


@pytest.mark.parametrize("nbytes", [0, 1, SMALL, SMALL + 1, 5_000_000])
def test_messages_of_any_size_arrive(nbytes):
    with messengers(2) as (one, other):
        content, room = bytearray(b"x" * nbytes), bytearray(nbytes)
        said = []
        received = other.receive(memory(room), None, 3)
        sent = one.send(memory(content), 1, 3)
        received.then(said.append)
        assert sent.wait(10) and received.wait(10)
        assert room == content and received.peer == 0
        received.then(said.append)
        assert said == [None, None]


def test_small_messages_wait_at_the_receiver_as_long_as_they_are_few():
    with messengers(2) as (one, other):
        sent = [one.send(memory(bytearray([number]) * SMALL), 1, 0) for number in range(2 * KEPT // SMALL)]
        assert all(each.wait(10) for each in sent[: KEPT // SMALL])
        assert not any(each.done() for each in sent[KEPT // SMALL :])
        for number in range(len(sent)):
            room = bytearray(SMALL)
            assert other.receive(memory(room), 0, 0).wait(10)
            assert set(room) == {number}
        assert all(each.wait(10) for each in sent)
        # There is room again.
        assert one.send(memory(bytearray(SMALL)), 1, 1).wait(10)


def test_a_stranger_with_another_key_gets_nowhere():
    with messengers(2, keys=[KEY, bytes(32)]) as (one, other):
        room = bytearray(4)
        waiting = other.receive(memory(room), 0, 0)
        assert "cannot be reached" in why(one.send(memory(bytearray(b"evil")), 1, 0))
        time.sleep(0.3)
        assert not waiting.done() and room == bytearray(4)


def test_garbage_is_dropped_and_others_never_notice():
    with messengers(2) as (one, other):
        room = bytearray(1_000_000)
        waiting = other.receive(memory(room), 0, 0)
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", bytes(4096), b"\xff" * 4096):
            with socket.create_connection(("127.0.0.1", other.port), timeout=10) as stream:
                stream.sendall(garbage)
                with suppress(OSError):
                    assert stream.recv(4096) is not None
        assert one.send(memory(bytearray(b"y" * 1_000_000)), 1, 0).wait(10) and waiting.wait(10)
        assert set(room) == {ord("y")}


@pytest.mark.parametrize(
    "frame",
    [
        HEADER.pack(99, 0, 0, 0, 0),
        HEADER.pack(Kind.DATA, 0, 7, 0, 1 << 60),
        HEADER.pack(Kind.ASK, 0, 1, 0, 0),
        HEADER.pack(Kind.SMALL, 0, 1, 0, SMALL + 1),
        HEADER.pack(Kind.FAIL, 1, 0, 0, LONGEST_TEXT + 1),
        HEADER.pack(Kind.FAIL, 0, 0, 0, 3) + b"bad",
    ],
    ids=["unknown kind", "not asked for", "asks the sender", "small and large", "long text", "fails no collective"],
)
def test_frames_that_make_no_sense_end_the_connection(frame):
    with messengers(2) as (one, other):
        assert one.send(memory(bytearray(1)), 1, 0).wait(10)
        waiting = other.receive(memory(bytearray(4)), 0, 5)
        time.sleep(0.3)
        # Nobody says such things but a rank that has gone mad, past its handshake.
        connection = one._out[1]
        connection.stream.sendall(frame)
        assert "rank 0 closed its connection" in why(waiting)


def test_a_peer_that_goes_is_named():
    with messengers(2) as (one, other):
        assert one.send(memory(bytearray(1)), 1, 0).wait(10)
        waiting = other.receive(memory(bytearray(4)), 0, 5)
        time.sleep(0.3)
        one.close()
        assert why(waiting).startswith("rank 0 closed its connection (recv of 4 bytes from rank 0, tag 5")
        assert "the group is closed" in why(one.send(memory(bytearray(1)), 1, 0))


def test_deadlines_end_both_sides():
    with messengers(2, deadline_s=0.5) as (one, other):
        assert "rank 0 has not sent" in why(other.receive(memory(bytearray(4)), 0, 1))
        assert "no rank has sent" in why(other.receive(memory(bytearray(4)), None, 1))
        assert "rank 1 has not asked for what is sent" in why(one.send(memory(bytearray(SMALL + 1)), 1, 0))


def test_what_ends_the_group_ends_its_messages():
    faults = []
    with messengers(2, fault=lambda: faults[0] if faults else None) as (_, other):
        waiting = other.receive(memory(bytearray(4)), 0, 1)
        faults.append(SynclineError([{"message": "rank 0 gave no sign of life for 1.6 s"}], 6))
        assert why(waiting).startswith("rank 0 gave no sign of life for 1.6 s (recv of 4 bytes")


def test_a_collective_that_fails_somewhere_fails_everywhere():
    with messengers(3) as everybody:
        # A collective before it, so that all are connected.
        for space in (1, 2):
            rooms = {}
            for me, each in enumerate(everybody):
                for peer in {0, 1, 2} - {me}:
                    wrong = space == 2 and (me, peer) == (0, 1)
                    rooms[me, peer] = [
                        each.receive(memory(bytearray(8)), peer, 1, space=space),
                        each.send(memory(bytearray(9 if wrong else 8)), peer, 1, space=space),
                    ]
            if space == 1:
                assert all(transfer.wait(10) for pair in rooms.values() for transfer in pair)
        assert "rank 0 sends 9 bytes where rank 1 expects 8 bytes" in why(rooms[1, 0][0])
        assert "rank 0 sends 9 bytes where rank 1 expects 8 bytes" in why(rooms[0, 1][1])
        everybody[1].fail(2, SynclineError([{"message": "it failed"}], 6))
        late = everybody[2].receive(memory(bytearray(8)), 0, 1, space=2)
        assert "it failed" in why(late)

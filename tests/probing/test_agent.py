"""Agents measure what a relay with known faults does to packets, and ignore packets that are not of their session."""

from __future__ import annotations

import ast
import json
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from syncline.probing import agent
from tests.probing.agents import PROGRAM, SECRET, LocalAgent, Relay


@pytest.fixture
def stack():
    with ExitStack() as made:
        yield made


@pytest.fixture
def pair(stack):
    """Two agents, the second of which answers."""
    made = [LocalAgent(0), LocalAgent(1)]
    for each in made:
        stack.callback(each.close)
    return made


@pytest.fixture
def relay(stack):
    def make(*arguments, **options):
        made = Relay(*arguments, **options)
        stack.callback(made.close)
        return made

    return make


def flipped(packet, at=-1):
    """A packet with one bit changed."""
    changed = bytearray(packet)
    changed[at] ^= 1
    return bytes(changed)


def test_an_agent_is_python_3_8_and_imports_the_standard_library_alone():
    tree = ast.parse(PROGRAM.read_text("utf-8"), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names
    # Keywords that newer versions added to calls.
    assert not any(
        isinstance(node, ast.Call) and any(each.arg == "strict" for each in node.keywords) for node in ast.walk(tree)
    )


def test_all_echoes_of_a_sound_path_come_back(pair):
    a, b = pair
    found = a.echo(1, b.bound, count=200)
    assert len(found["rtt_ns"]) == 200
    assert (found["lost"], found["duplicates"], found["reordered"], found["ignored"]) == (0, 0, 0, 0)
    assert found["address"] == "127.0.0.3"
    assert found["kernel"] == (sys.platform == "linux")
    # Loopback takes microseconds.
    assert 0 < statistics.median(found["rtt_ns"]) < 5e6


def test_a_known_delay_is_measured(pair, relay):
    a, b = pair
    delay_s = 0.004
    slow = relay(b.bound, requests=lambda packet, _: [(delay_s, packet)], replies=lambda packet, _: [(delay_s, packet)])
    found = a.echo(1, slow.to, count=50)["rtt_ns"]
    # A sleep never ends early.
    assert 2 * delay_s * 1e9 <= min(found)
    # By the relay's own clock, less the time that the answering agent held each packet by its reply.
    headers = [agent.HEADER.unpack(each[: agent.HEADER.size]) for each in slow.seen]
    hold_ns = {header[4]: header[7] for header in headers if header[1] == agent.REPLY}
    differences = [found[at] - (slow.held_ns[at] - hold_ns[at]) for at in range(50)]
    assert 0 <= statistics.median(differences) < 300_000


def test_lost_echoes_are_counted(pair, relay):
    a, b = pair
    lossy = relay(
        b.bound,
        requests=lambda packet, number: [] if number % 10 == 3 else [(0.0, packet)],
        replies=lambda packet, number: [] if number % 18 == 7 else [(0.0, packet)],
    )
    found = a.echo(1, lossy.to, count=100)
    # 10 of 100 requests, and 5 of the 90 replies to the others.
    assert (found["lost"], len(found["rtt_ns"])) == (15, 85)


def test_duplicates_and_late_replies_are_counted(pair, relay):
    a, b = pair
    late_s = 3 * agent.MIN_TIMEOUT_S

    def replies(packet, number):
        if number % 5 == 2:
            return [(0.0, packet), (0.0, packet)]
        return [(late_s, packet)] if number == 20 else [(0.0, packet)]

    found = a.echo(1, relay(b.bound, replies=replies).to, count=50, least=50)
    assert found["reordered"] <= 1
    assert (found["lost"], len(found["rtt_ns"])) == (0, 50)
    assert found["duplicates"] == 10
    # A late reply is a sample with its true round trip, not a loss.
    assert max(found["rtt_ns"]) >= late_s * 1e9


def test_a_reply_with_a_wrong_digest_is_ignored(pair, relay):
    a, b = pair
    delay_s = 0.003

    def replies(packet, number):
        # A lying reply arrives before the true one: a changed hold time, with the old digest.
        return [(0.0, flipped(packet, agent.HEADER.size - 1)), (delay_s, packet)]

    found = a.echo(1, relay(b.bound, replies=replies).to, count=40)
    assert (found["lost"], found["ignored"], len(found["rtt_ns"])) == (0, 40, 40)
    assert min(found["rtt_ns"]) >= delay_s * 1e9


def test_replies_of_an_earlier_round_are_ignored(pair, relay):
    a, b = pair
    old = []

    def replies(packet, number):
        if number < 40:
            old.append(packet)
            return [(0.0, packet)]
        return [(0.0, old[number - 40]), (0.0, packet)]

    way = relay(b.bound, replies=replies)
    assert a.echo(1, way.to, number=1, count=40)["ignored"] == 0
    found = a.echo(1, way.to, number=2, count=40)
    assert (found["ignored"], found["lost"], len(found["rtt_ns"])) == (40, 0, 40)


def test_requests_that_are_not_of_the_session_get_no_answer(pair, relay):
    a, b = pair
    way = relay(b.bound)
    a.echo(1, way.to, number=7, count=36)
    requests = [each for each in way.seen if agent.HEADER.unpack(each[: agent.HEADER.size])[1] == agent.REQUEST]
    a.echo(1, b.bound, number=8, count=1)
    own = agent.Session(SECRET, 0)
    other = agent.Session(bytes(32), 0)
    header = (agent.MAGIC, agent.REQUEST, 0, 9, 5, 0)
    foreign = [
        b"",
        b"x" * 2000,
        flipped(requests[0]),
        requests[0],  # of an older round
        other.sealed(agent.HEADER.pack(*header, 1, 0)),
        own.sealed(agent.HEADER.pack(*header, 2, 0)),  # for another host
    ]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(tuple(b.bound[0][:2]))
        for each in foreign:
            sock.send(each)
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(2048)
        assert b.ask(order="count")["ignored"] == len(foreign)
        # The same socket gets an answer to a valid request.
        sock.send(own.sealed(agent.HEADER.pack(*header, 1, 0)))
        assert own.opened(sock.recv(2048))[0] == agent.REPLY


def test_a_rate_is_measured_over_tcp(pair):
    a, b = pair
    found = a.rate(1, b.bound)
    assert len(found["times_ns"]) == agent.REPEATS
    assert found["size"] >= agent.FIRST_SIZE
    assert all(each > 0 for each in found["times_ns"])


def test_transfers_need_the_secret(pair, stack):
    _, b = pair
    stranger = LocalAgent(2, secret=bytes(32))
    stack.callback(stranger.close)
    assert stranger.rate(1, b.bound)["why"] == "something else answers at the port"
    # One that does not check the other side still has to prove itself.
    with socket.create_connection((b.bound[0][0], b.bound[0][2])) as sock:
        sock.sendall(agent.HELLO.pack(agent.MAGIC, 2, 1, bytes(16)))
        agent.exactly(sock, agent.NONCE_BYTES + agent.DIGEST_BYTES)
        sock.sendall(bytes(agent.DIGEST_BYTES))
        assert sock.recv(1) == b""


def test_a_blocked_udp_port_is_told_from_a_host_that_is_away(pair):
    a, b = pair
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        closed = silent.getsockname()[1]
        address, _, tcp = b.bound[0]
        assert a.echo(1, [[address, closed, tcp]]) == {"id": 1, "problem": "udp"}
        assert a.echo(1, [["127.0.0.1", closed, closed]]) == {"id": 1, "problem": "unreachable"}


def test_the_first_address_that_answers_is_used(pair):
    a, b = pair
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        nowhere = ["127.0.0.1", silent.getsockname()[1], 1]
        assert a.echo(1, [nowhere, *b.bound], count=36)["address"] == "127.0.0.3"


def test_a_measurement_can_be_cancelled(pair, relay):
    a, b = pair
    slow = relay(b.bound, requests=lambda packet, _: [(0.01, packet)])
    a.send(id=1, order="echo", round=1, peer=1, to=slow.to, own=None, count=100_000, least=36, time_s=60, limit_s=60)
    time.sleep(0.5)
    a.send(order="cancel")
    assert 0 < len(a._read()["rtt_ns"]) < 100_000


def test_time_limits_the_samples_but_not_below_the_least(pair, relay):
    a, b = pair
    slow = relay(b.bound, requests=lambda packet, _: [(0.005, packet)])
    assert len(a.echo(1, slow.to, count=10_000, least=40, time_s=0.0)["rtt_ns"]) in (40, 41)
    assert len(a.echo(1, slow.to, number=2, count=10_000, least=40, time_s=0.0, limit_s=0.05)["rtt_ns"]) < 40


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({"order": "dance"}, "unknown order: dance"),
        ({"order": "echo"}, "malformed order: KeyError: 'round'"),
        ({"order": "begin", "secret": "xyz", "own": 0, "silence_s": 1}, "malformed order: ValueError"),
    ],
)
def test_malformed_orders_are_refused(pair, order, why):
    assert why in pair[0].ask(**order)["refused"]


def test_an_address_of_another_host_is_refused(stack):
    made = LocalAgent(0, address="198.51.100.1")
    stack.callback(made.close)
    assert "198.51.100.1: cannot assign requested address" in made.began["refused"]


def test_an_agent_ends_when_stdin_closes_or_is_silent():
    for silence_s, close in ((30.0, True), (0.5, False)):
        made = LocalAgent(0, silence_s=silence_s)
        if close:
            made.process.stdin.close()
        assert made.process.wait(10) == (0 if close else 3)
        made.close()


def test_the_first_order_must_be_to_begin(stack):
    process = subprocess.Popen([sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.enter_context(process)
    stack.callback(process.stdin.close)
    assert json.loads(process.stdout.readline())["hello"] == agent.PROTOCOL
    process.stdin.write('not json\n[]\n{"id": 5, "order": "rate"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"id": 5, "refused": "the first order must be `begin`"}

"""Probes of hosts that are addresses of this machine: some of them fail, and the others are measured."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from syncline.distances.hosts import Host, named
from syncline.errors import SynclineError
from syncline.probing.budget import Wanted
from syncline.probing.coordinator import probe
from syncline.probing.launching import Launch
from syncline.probing.rounds import Schedule
from tests.probing.turns import tournament

PLAIN = Launch.parse(f"{sys.executable} -")
FEW = Wanted(samples=40)
START = f"exec {sys.executable} -q -i -u"
"""What the end of a launch command becomes."""


def names(count):
    return named([f"127.0.0.{number}" for number in range(2, 2 + count)])


def shell(script):
    """A launch command that runs a script of a shell; ``-`` becomes its name and arguments."""
    return Launch(("sh", "-c", script, "-"))


def test_every_pair_is_measured_in_both_directions():
    told = []
    outcome = probe(names(3), PLAIN, tournament, Wanted(rate=True, samples=40), tell=lambda *each: told.append(each))
    assert outcome.complete
    assert outcome.measured.hosts == ("127.0.0.2", "127.0.0.3", "127.0.0.4")
    assert set(outcome.measured.pairs) == {(a, b) for a in range(3) for b in range(3) if a != b}
    for pair in outcome.measured.pairs.values():
        assert (pair.samples, pair.lost, pair.transfers) == (40, 0, 5)
        assert 0 < pair.rtt_s <= pair.rtt_median_s < 0.1
        assert pair.rate_bytes_per_s > 1e6
    assert outcome.addresses["127.0.0.4"] == "127.0.0.4"
    assert (outcome.rounds, outcome.samples, outcome.ignored) == (6, 40, 0)
    assert [text for _, text in told][:3] == ["starting agents on 3 hosts", "first contact", "round 1 of 6"]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_hosts_that_do_not_start_are_left_out():
    launch = shell(f"case {{host}} in *.3) echo no such host >&2; exit 9;; *.5) exec sleep 60;; *) {START};; esac")
    outcome = probe(names(4), launch, tournament, Wanted(samples=40, budget_s=12.0))
    assert outcome.measured.hosts == ("127.0.0.2", "127.0.0.4")
    assert len(outcome.measured.pairs) == 2
    first, second = outcome.hosts
    assert (first.host, first.why) == ("127.0.0.3", "the launch command ended with status 9: no such host")
    assert (second.host, second.why) == ("127.0.0.5", "no answer within 6 s")


def test_a_host_that_dies_keeps_what_was_measured_and_the_others_go_on(tmp_path):
    launch = shell(f"echo $$ > {tmp_path}/{{host}}; {START}")

    def tell(_, text):
        if text.startswith("round 3"):
            os.kill(int((tmp_path / "127.0.0.4").read_text()), signal.SIGKILL)

    outcome = probe(names(4), launch, tournament, FEW, tell=tell)
    (failure,) = outcome.hosts
    assert failure.host == "127.0.0.4"
    assert "was ended by signal 9" in failure.why
    # Rounds 1 and 2 were complete, and the tournament of four has six.
    assert outcome.rounds == 6
    assert set(outcome.measured.pairs) >= {(0, 1), (0, 3), (1, 0), (1, 3), (3, 0), (3, 1)}
    assert sum(2 in pair for pair in outcome.measured.pairs) == 2
    assert not outcome.pairs


def test_the_results_of_a_round_are_sent_to_a_generator():
    seen = []

    def schedule(hosts):
        def rounds():
            for pairs in ([(0, 1)], [(2, 0)]):
                results = yield pairs
                seen.append({pair: each.samples for pair, each in results.items()})

        return Schedule(rounds(), 2)

    outcome = probe(names(3), PLAIN, schedule, FEW)
    assert seen == [{(0, 1): 40}, {(2, 0): 40}]
    assert set(outcome.measured.pairs) == {(0, 1), (2, 0)}


def test_noise_before_an_agent_begins_is_ignored():
    launch = shell(f"echo Welcome to {{host}}; echo; echo '{{}}'; {START}")
    assert probe(names(2), launch, tournament, FEW).complete


def test_addresses_come_from_the_host_list():
    hosts = [Host("one", address="127.0.0.9"), Host("two", address="127.0.0.8")]
    outcome = probe(hosts, PLAIN, tournament, FEW)
    assert outcome.measured.hosts == ("one", "two")
    assert outcome.addresses == {"one": "127.0.0.9", "two": "127.0.0.8"}
    with pytest.raises(SynclineError) as raised:
        probe([hosts[0], Host("two", address="198.51.100.1")], PLAIN, tournament, FEW)
    note = raised.value.diagnostics[0]["notes"][0]
    assert note.startswith("two: no address can be used: 198.51.100.1: cannot assign requested address (its addresses")


def test_hosts_may_have_ipv6_addresses():
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    hosts = [Host("one", address="::1"), Host("two", address="::1")]
    outcome = probe(hosts, PLAIN, tournament, Wanted(rate=True, samples=40))
    assert outcome.complete
    assert outcome.addresses == {"one": "::1", "two": "::1"}


def test_lost_packets_of_a_host_are_counted(tmp_path):
    # Python runs this file first, and every fourth reply is lost.
    shim = tmp_path / "shim.py"
    shim.write_text(
        "import socket\n"
        "class Lossy(socket.socket):\n"
        "    sent = 0\n"
        "    def sendto(self, *a):\n"
        "        Lossy.sent += 1\n"
        "        return len(a[0]) if Lossy.sent % 4 == 0 else super().sendto(*a)\n"
        "socket.socket = Lossy\n"
    )
    outcome = probe(names(2), shell(f"PYTHONSTARTUP={shim} {START}"), tournament, FEW)
    for pair in outcome.measured.pairs.values():
        assert pair.samples + pair.lost == 40
        assert 9 <= pair.lost <= 11
    assert outcome.complete


def test_blocked_udp_is_reported(tmp_path):
    shim = tmp_path / "shim.py"
    shim.write_text(
        "import socket\n"
        "class Blocked(socket.socket):\n"
        "    def sendto(self, *a):\n"
        "        return len(a[0])\n"
        "socket.socket = Blocked\n"
    )
    with pytest.raises(SynclineError) as raised:
        probe(names(2), shell(f"PYTHONSTARTUP={shim} {START}"), tournament, FEW)
    (found,) = raised.value.diagnostics
    assert raised.value.exit_status == 6
    assert found["message"] == "no two hosts reach each other"
    assert found["notes"][0] == "127.0.0.2 to 127.0.0.3: UDP is blocked: no echo came back, but TCP connects"
    assert "let UDP pass" in found["help"]
    # With one such host among others, that host has failed.
    launch = shell(f"case {{host}} in *.5) export PYTHONSTARTUP={shim};; esac; {START}")
    outcome = probe(names(4), launch, tournament, FEW)
    assert {(each.origin, each.target) for each in outcome.pairs} | {each.host for each in outcome.hosts}
    assert all(pair in outcome.measured.pairs for pair in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)))


def test_a_budget_bounds_the_whole():
    began = time.monotonic()
    outcome = probe(names(3), PLAIN, tournament, Wanted(budget_s=8.0))
    assert time.monotonic() - began < 12
    assert outcome.samples >= 36
    with pytest.raises(SynclineError) as raised:
        probe(names(3), PLAIN, tournament, Wanted(budget_s=6.0, samples=1_000_000))
    assert "--budget" in raised.value.diagnostics[0]["help"]


def test_ctrl_c_keeps_what_was_measured():
    done = threading.Event()

    def tell(_, text):
        if text.startswith("round 2") and not done.is_set():
            done.set()
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    outcome = probe(names(4), PLAIN, tournament, FEW, tell=tell)
    assert outcome.interrupted
    assert {(0, 3), (1, 2)} <= set(outcome.measured.pairs)
    assert outcome.rounds < 6
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'sh: 1: python3: not found' >&2; exit 127", "ended with status 127: sh: 1: python3: not found"),
        ("echo 'a: Permission denied (publickey,password).' >&2; exit 255", "Permission denied (publickey,password)."),
        ("printf 'Password: '; read answer; exit 1", "Password:"),
        ("yes", "it prints something else: y"),
    ],
)
def test_launch_commands_that_fail_are_quoted(script, why):
    with pytest.raises(SynclineError) as raised:
        probe(names(2), shell(script), tournament, FEW)
    (found,) = raised.value.diagnostics
    assert found["code"] == "SL1104"
    assert found["message"] == "0 hosts of 2 can be probed, and at least 2 are needed"
    assert found["notes"][0].startswith("127.0.0.2: ")
    assert why in found["notes"][0]
    assert raised.value.exit_status == 6


def test_nothing_is_left_running(tmp_path):
    launch = shell(f"echo $$ > {tmp_path}/{{host}}; {START}")
    probe(names(2), launch, tournament, FEW)
    for file in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


@pytest.mark.parametrize("template", ["python3", "ssh {host} python3", "'", "-"])
def test_a_launch_command_must_read_a_program(template):
    with pytest.raises(SynclineError) as raised:
        Launch.parse(template)
    assert raised.value.diagnostics[0]["key"] == "--launch"


def test_an_unknown_launch_command_is_named():
    with pytest.raises(SynclineError) as raised:
        Launch.parse("no-such-program {host} python3 -")
    assert raised.value.diagnostics[0]["found"] == "no-such-program"


def test_one_host_is_too_few():
    with pytest.raises(SynclineError) as raised:
        probe(names(1), PLAIN, tournament, FEW)
    assert raised.value.exit_status == 2


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_agents_run_on_other_pythons(version):
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"Python {version} is not installed")
    assert probe(names(2), Launch.parse(f"{found[0]} -"), tournament, FEW).complete


def test_a_probe_runs_where_an_event_loop_runs_already():
    async def notebook():
        return probe(names(2), PLAIN, tournament, FEW)

    # Tests of browsers may have left a loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(lambda: asyncio.run(notebook())).result()
    assert len(outcome.measured.pairs) == 2

"""Traffic of tenants on this machine: it shares links, follows its schedule, and ends with its testbed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from syncline.testbed.layout import layout
from syncline.testbed.spec import read
from syncline.testbed.traffic.schedule import bursts
from tests.testbed.specs import needs_namespaces
from tests.testbed.test_testbed import gone, left, name, start  # noqa: F401 - a fixture

pytestmark = needs_namespaces

UPLINK = 40e6
CLOUD = """\
schema: syncline-testbed/1
name: {name}
fabric:
  leaf_spine: {{ leaves: 2, hosts_per_leaf: 1, spines: 1, rate: 80Mb/s, uplink_rate: 40Mb/s }}
queue: 100KB
traffic:
"""
"""Two racks of a host each, whose uplinks have half the host's rate; a packet waits at most 20 ms."""

TRANSFER = """
import os, socket, time
rank, peers = int(os.environ["RANK"]), os.environ["SYNCLINE_PEERS"].split(",")
if rank:
    sock, _ = socket.create_server((peers[1], 7000)).accept()
    while sock.recv(1 << 20):
        pass
else:
    sock = None
    while sock is None:
        try:
            sock = socket.create_connection((peers[1], 7000))
        except OSError:
            time.sleep(0.02)
    while True:
        sock.send(bytes(1 << 16))
"""
"""Rank 0 sends to rank 1 until it is ended."""


def write(cli, name, *tenants):  # noqa: F811
    """Writes the file of a testbed with tenants, and returns its name."""
    return cli.write("cloud.yaml", CLOUD.format(name=name) + "".join(f"  - {{ {line} }}\n" for line in tenants))


def up(cli, name, *tenants):  # noqa: F811
    """Brings a testbed with tenants up."""
    done = cli("testbed", "up", write(cli, name, *tenants), "--quiet")
    assert done.returncode == 0, done.stderr


def switch(cli, name, *arguments):  # noqa: F811
    """Switches traffic, and returns the states of tenants."""
    done = cli("testbed", "traffic", name, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["tenants"]


def states(cli, name):  # noqa: F811
    """Returns the states of tenants by their names."""
    found = json.loads(cli("testbed", "status", name, "--json").stdout)["tenants"]
    return {each["name"]: each for each in found}


def counted(name, port, which):  # noqa: F811
    """Returns the kernel's count of bytes at a port of a switch: ``tx`` to the host, ``rx`` from it."""
    command = ["ip", "-n", f"syncline.{name}.fabric", "-s", "-j", "link", "show", "dev", port]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(shown)[0]["stats64"][which]["bytes"]


RATES = """
import sys, time
def counts():
    lines = [line.split() for line in open("/proc/self/net/dev")]
    found = {line[0].rstrip(":"): int(line[9]) for line in lines[2:]}
    return [found[port] for port in sys.argv[2:]], time.monotonic()
before, began = counts()
time.sleep(float(sys.argv[1]))
after, ended = counts()
print(*(8 * (last - first) / (ended - began) for first, last in zip(before, after)))
"""
"""Prints the rates at which ports send, in bits per second."""


def rates(name, seconds, *ports):  # noqa: F811
    """Measures the rates from ports of switches to hosts, in bits per second."""
    command = ["ip", "netns", "exec", f"syncline.{name}.fabric", sys.executable, "-c", RATES, str(seconds), *ports]
    return [*map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())]


def full(measured):
    """Returns whether rates together fill the uplink."""
    return sum(measured) == pytest.approx(UPLINK, rel=0.1)


def filled(name, seconds, *ports):  # noqa: F811
    """Measures rates until they fill the uplink, which a busy machine may prevent for a while."""
    for _ in range(5):
        if full(found := rates(name, seconds, *ports)):
            break
    return found


def generators(name):  # noqa: F811
    """Returns the processes in the namespace of a testbed's switches."""
    done = subprocess.run(
        ["ip", "netns", "pids", f"syncline.{name}.fabric"], capture_output=True, text=True, check=False
    )
    return [int(line) for line in done.stdout.split()]


def runs(pid):
    """Returns whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pids, within_s=20.0):
    """Waits until processes have ended, and returns whether they have."""
    until = time.monotonic() + within_s
    while any(map(runs, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(runs, pids))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tenant", "least", "most"),
    [
        # Four flows share the uplink; within seconds, TCP gives a flow between a third and twice its fair share.
        ("flows: 3", 0.25 / 3, 0.5),
        # UDP does not slow down: TCP gets what is left, and the part of UDP's packets that the full queue drops.
        ("rate: 28Mb/s, protocol: udp", 0.15, 0.6),
    ],
    ids=["tcp", "udp"],
)
def test_a_tenant_takes_its_share_of_an_uplink_while_it_is_on(cli, name, tenant, least, most):  # noqa: F811
    up(cli, name, f"from: {{ rack: 0 }}, to: {{ rack: 1 }}, {tenant}")
    switch(cli, name, "off")
    sending = start(cli, "run", name, "--", sys.executable, "-c", TRANSFER)
    try:
        until = time.monotonic() + 20
        while counted(name, "h1n0", "tx") < 1_000_000 and time.monotonic() < until:
            time.sleep(0.05)
        alone = filled(name, 1.0, "h1n0")
        switch(cli, name, "on")
        time.sleep(1.0)
        shared = filled(name, 2.0, "h1n0", "m3n0")
        switch(cli, name, "off")
        time.sleep(0.5)
        again = filled(name, 1.0, "h1n0")
    finally:
        sending.send_signal(signal.SIGINT)
        sending.communicate(timeout=30)
    assert full(alone)
    assert full(shared)
    assert least * UPLINK < shared[0] < most * UPLINK
    assert full(again)


@pytest.mark.slow
@pytest.mark.parametrize("tenant", ["flows: 2", "rate: 5Mb/s, flows: 2", "rate: 10Mb/s, protocol: udp"])
def test_counters_agree_with_those_of_switches(cli, name, tenant):  # noqa: F811
    up(cli, name, f"name: a, from: {{ rack: 0 }}, to: {{ rack: 1 }}, {tenant}")
    time.sleep(1.5)
    switch(cli, name, "off")
    time.sleep(0.5)
    found = states(cli, name)["a"]
    assert found["received_bytes"] > 100_000
    assert found["failed"] == found["open"] == 0
    assert 0 <= found["sent_bytes"] - found["retransmitted_bytes"] - found["received_bytes"] < 600_000
    # Switches count headers, too: of each packet, or of each 64 KiB that the kernel sends at once.
    assert found["sent_bytes"] == pytest.approx(counted(name, "m2n0", "rx"), rel=0.06)
    assert found["received_bytes"] == pytest.approx(counted(name, "m3n0", "tx"), rel=0.06)
    # Nothing is sent while the tenant is off.
    before = counted(name, "m2n0", "rx")
    time.sleep(0.5)
    assert counted(name, "m2n0", "rx") - before < 10_000
    assert states(cli, name)["a"]["on_for_s"] is None


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["tcp", "udp, rate: 8Mb/s"])
def test_flows_of_the_schedule_are_sent_whole(cli, name, protocol):  # noqa: F811
    line = "name: a, from: random, to: { host: [0, 1] }, interarrival: 30ms, size: 20kB, until: 1s, seed: 4"
    file = write(cli, name, f"{line}, protocol: {protocol}")
    (tenant,) = layout(read(str(cli.folder / file))).traffic
    expected = list(bursts(tenant))
    assert cli("testbed", "up", file, "--quiet").returncode == 0

    def complete(count):
        """Waits until this many flows are complete, and returns the counters."""
        until = time.monotonic() + 30
        while (found := states(cli, name)["a"])["complete"] < count and time.monotonic() < until:
            time.sleep(0.2)
        assert (found["begun"], found["complete"], found["failed"]) == (count, count, 0)
        return found

    whole = sum(burst.size_bytes for burst in expected)
    assert complete(len(expected))["received_bytes"] == whole
    # Switched on again, the schedule begins anew.
    switch(cli, name, "on")
    assert complete(len(expected))["received_bytes"] == whole


@pytest.mark.slow
def test_a_paced_source_sends_its_rate_while_it_is_on(cli, name):  # noqa: F811
    up(
        cli,
        name,
        "name: half, from: { rack: 0 }, to: { rack: 1 }, rate: 4Mb/s, on: 250ms, off: 250ms, distribution: fixed",
        "name: whole, from: { host: 0 }, to: { host: 1 }, rate: 4Mb/s",
        "name: short, from: { host: 1 }, to: { host: 0 }, rate: 1Mb/s, on: 50ms, off: 150ms, distribution: fixed",
    )
    time.sleep(3.0)
    found = states(cli, name)
    for each, rate in (("half", 2e6), ("whole", 4e6), ("short", 0.25e6)):
        took = found[each]["on_for_s"]
        assert 8 * found[each]["received_bytes"] / took == pytest.approx(rate, rel=0.25), each
    # A burst sends at most its rate times its duration.
    for each, burst_bytes in (("half", 4e6 / 8 * 0.25), ("short", 1e6 / 8 * 0.05)):
        assert found[each]["received_bytes"] <= burst_bytes * found[each]["begun"], each
    assert found["half"]["begun"] == pytest.approx(found["half"]["on_for_s"] / 0.5, abs=2)


def test_arrivals_beyond_the_limit_are_blocked(cli, name):  # noqa: F811
    up(cli, name, "name: a, from: { rack: 0 }, to: { rack: 1 }, interarrival: 10ms, size: 10GB, flows: 3")
    time.sleep(1.0)
    found = states(cli, name)["a"]
    assert (found["open"], found["begun"], found["complete"]) == (3, 3, 0)
    assert found["blocked"] > 10


def test_tenants_are_switched_by_name(cli, name):  # noqa: F811
    up(cli, name, "name: a, from: random, to: random", "name: b, from: random, to: random", "from: random, to: random")
    on = {each["name"]: each["on_for_s"] is not None for each in switch(cli, name, "off", "a", "tenant2")}
    assert on == {"a": False, "b": True, "tenant2": False}
    on = {each["name"]: each["on_for_s"] is not None for each in switch(cli, name, "on", "a")}
    assert on == {"a": True, "b": True, "tenant2": False}
    done = cli("testbed", "status", name)
    assert re.search(r"^b +rack 0, 1 +rack 0, 1 +1 flow, tcp, greedy, always on$", done.stdout, re.M)
    assert re.search(r"^tenant2 +off +0 +1 +0 +0 ", done.stdout, re.M)
    done = cli("testbed", "traffic", name, "on", "c")
    assert done.returncode == 2
    assert "there is no such tenant" in done.stderr
    assert "allowed: a, b, tenant2" in done.stderr
    done = cli("testbed", "traffic", name, "maybe")
    assert done.returncode == 2
    assert "found `maybe`, allowed: on or off" in done.stderr
    done = cli("testbed", "check", name)
    assert done.returncode == 2
    assert "the links cannot be measured while tenants use them" in done.stderr
    assert f"syncline testbed traffic {name} off" in done.stderr


def test_traffic_that_was_killed_is_off_and_starts_again(cli, name):  # noqa: F811
    up(cli, name, "name: a, from: random, to: random", "name: b, from: random, to: random")
    (pid,) = generators(name)
    os.kill(pid, signal.SIGKILL)
    assert ends([pid])
    assert states(cli, name) == {}
    assert "The traffic is off." in cli("testbed", "status", name).stdout
    assert switch(cli, name, "off") == []
    found = {each["name"]: each["on_for_s"] is not None for each in switch(cli, name, "on", "b")}
    assert found == {"a": False, "b": True}
    assert len(generators(name)) == 1


def test_traffic_ends_with_its_testbed(cli, name):  # noqa: F811
    up(cli, name, "from: random, to: random")
    pids = generators(name)
    assert len(pids) == 1
    assert cli("testbed", "down", name).returncode == 0
    assert not any(map(runs, pids))


def test_traffic_ends_if_its_namespaces_are_deleted(cli, name):  # noqa: F811
    up(cli, name, "from: random, to: random")
    pids = generators(name)
    for each in left(name):
        subprocess.run(["ip", "netns", "delete", each], check=True)
    assert ends(pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_traffic_of_a_run_ends_with_it(cli, name, number):  # noqa: F811
    running = start(cli, "run", write(cli, name, "from: random, to: random"), "--", "sh", "-c", "echo up; sleep 600")
    assert "up" in running.stdout.readline()
    pids = generators(name)
    assert len(pids) == 1
    running.send_signal(number)
    running.communicate(timeout=30)
    assert gone(name)
    assert ends(pids)


def test_check_measures_a_file_without_its_traffic(cli, name):  # noqa: F811
    done = cli("testbed", "check", write(cli, name, "from: random, to: random, flows: 8"), "--json")
    assert done.returncode in (0, 1), done.stderr
    (across,) = [rate for rate in json.loads(done.stdout)["rates"] if rate["what"] == "one flow across racks"]
    assert across["measured_bits"] > 0.8 * across["expected_bits"]


def test_a_testbed_without_tenants_has_no_traffic(cli, name):  # noqa: F811
    file = cli.write("plain.yaml", CLOUD.format(name=name).replace("traffic:\n", ""))
    assert cli("testbed", "up", file, "--quiet").returncode == 0
    assert generators(name) == []
    done = cli("testbed", "traffic", name, "on")
    assert done.returncode == 2
    assert "this testbed has no tenants" in done.stderr

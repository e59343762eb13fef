"""Changed rates on this machine: transfers follow them, queued packets arrive, and temporary changes end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from syncline.testbed.layout import PAYLOAD
from tests.testbed.specs import needs_namespaces
from tests.testbed.test_testbed import name, start  # noqa: F401 - a fixture
from tests.testbed.test_traffic import TRANSFER, rates

pytestmark = [needs_namespaces, pytest.mark.slow]

RACKS = """\
schema: syncline-testbed/1
name: {name}
fabric:
  leaf_spine: {{ leaves: 2, hosts_per_leaf: 1, spines: 1, rate: 80Mb/s, uplink_rate: 40Mb/s }}
queue: 100KB
shaper: {shaper}
"""
"""Two racks of a host each, whose uplinks have half the host's rate; a packet waits at most 20 ms."""

BURST = """
import os, socket, sys, time
rank, peers = int(os.environ["RANK"]), os.environ["SYNCLINE_PEERS"].split(",")
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if rank:
    sock.bind((peers[1], 7001))
    sock.settimeout(20)
    print("ready", flush=True)
    found = set()
    while len(found) < 60:
        found.add(sock.recv(2000)[:4])
    print("received", len(found), flush=True)
else:
    time.sleep(1)
    for number in range(60):
        sock.sendto(number.to_bytes(4, "big") + bytes(1396), (peers[1], 7001))
    print("sent", flush=True)
"""
"""Rank 0 sends 60 packets at once to rank 1, which waits until all have arrived."""


def up(cli, name, shaper="htb"):  # noqa: F811
    """Brings a testbed up."""
    done = cli("testbed", "up", cli.write("bed.yaml", RACKS.format(name=name, shaper=shaper)), "--quiet")
    assert done.returncode == 0, done.stderr


def shape(cli, name, *arguments):  # noqa: F811
    """Changes rates, and returns the links with changed rates."""
    done = cli("testbed", "shape", name, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["changed"]


def changed(cli, name):  # noqa: F811
    """Returns the names of links with changed rates."""
    told = json.loads(cli("testbed", "status", name, "--json").stdout)
    return [f"{each['from']}-{each['to']}" for each in told["changed"]]


def soon(condition, within_s=20.0):
    """Waits until a condition is true, and returns whether it is."""
    until = time.monotonic() + within_s
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


def shaped(name, part, device):  # noqa: F811
    """Returns what the kernel says about the rate of a device: of the class of htb, or of tbf."""
    said = ""
    for kind in ("class", "qdisc"):
        command = ["tc", "-n", f"syncline.{name}.{part}", kind, "show", "dev", device]
        said += subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return said


def follows(name, bits):  # noqa: F811
    """Measures until the transfer has a rate, which a busy machine may prevent for a while; returns the last rate."""
    for _ in range(6):
        (found,) = rates(name, 0.7, "h1n0")
        if found == pytest.approx(bits * PAYLOAD, rel=0.1):
            break
    return found


@pytest.mark.parametrize("shaper", ["htb", "tbf"])
def test_a_transfer_follows_the_rates_of_the_links_that_it_passes(cli, name, shaper):  # noqa: F811
    up(cli, name, shaper)
    sending = start(cli, "run", name, "--", sys.executable, "-c", TRANSFER)
    try:
        found = [(40e6, follows(name, 40e6))]
        for arguments, bits in (
            (["rack 0", "--rate", "10Mb/s"], 10e6),
            # The other direction has only acknowledgements.
            (["rack0=60Mb/s", "leaf1-h1.eth0=20Mb/s", "spine0-leaf0=1Mb/s"], 20e6),
            (["--restore"], 40e6),
        ):
            shape(cli, name, *arguments)
            found.append((bits, follows(name, bits)))
    finally:
        sending.send_signal(signal.SIGINT)
        sending.communicate(timeout=30)
    assert [measured / (bits * PAYLOAD) for bits, measured in found] == pytest.approx([1.0] * 4, rel=0.1)
    assert changed(cli, name) == []


@pytest.mark.parametrize("shaper", ["htb", "tbf"])
def test_queued_packets_arrive_after_a_change(cli, name, shaper):  # noqa: F811
    up(cli, name, shaper)
    # At this rate, the packets would take 67 seconds.
    shape(cli, name, "leaf0-spine0", "--rate", "10kb/s")
    running = start(cli, "run", name, "--timeout", "40s", "--", sys.executable, "-u", "-c", BURST)
    try:
        while "sent" not in running.stdout.readline() and running.poll() is None:
            pass
        # Some packets wait behind others in the queue of the switch's port.
        assert soon(lambda: "backlog 0b" not in queue(name, "t0a"))
        shape(cli, name, "leaf0-spine0", "--rate", "20Mb/s")
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert "received 60" in out
    assert "dropped 0," in queue(name, "t0a")


def queue(name, device):  # noqa: F811
    """Returns the counters of the queue of a switch's port."""
    command = ["tc", "-s", "-n", f"syncline.{name}.fabric", "qdisc", "show", "dev", device]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_temporary_change_ends_with_its_command(cli, name, number):  # noqa: F811
    up(cli, name)
    shape(cli, name, "h0.eth0-leaf0", "--rate", "70Mb/s")
    running = start(cli, "shape", name, "h1", "h0", "--rate", "9Mb/s", "--for", "600s")
    assert soon(lambda: len(changed(cli, name)) == 4)
    assert soon(lambda: "rate 9Mbit" in shaped(name, "fabric", "h1n0"))
    running.send_signal(number)
    running.communicate(timeout=30)
    assert running.returncode == (130 if number == signal.SIGINT else -number)
    assert soon(lambda: changed(cli, name) == ["h0.eth0-leaf0"])
    assert "rate 80Mbit" in shaped(name, "fabric", "h1n0")
    assert "rate 70Mbit" in shaped(name, "h0", "eth0")


def test_check_compares_with_changed_rates(cli, name):  # noqa: F811
    file = cli.write("bed.yaml", f"name: {name}\nfabric: {{ switch: {{ hosts: 2, rate: 50Mb/s }} }}\nqueue: 100KB\n")
    assert cli("testbed", "up", file, "--quiet").returncode == 0
    shape(cli, name, "h1", "--rate", "20Mb/s", "--direction", "in")
    done = cli("testbed", "check", file, "--json")
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert [each["file_bits"] for each in found["changed"]] == [50_000_000]
    (one,) = [rate for rate in found["rates"] if rate["what"] == "one flow in a rack"]
    assert one["expected_bits"] == pytest.approx(20e6 * PAYLOAD)
    assert one["measured_bits"] == pytest.approx(20e6 * PAYLOAD, rel=0.2)


def test_a_testbed_whose_namespaces_are_gone_is_reported(cli, name):  # noqa: F811
    up(cli, name)
    subprocess.run(["ip", "netns", "delete", f"syncline.{name}.h1"], check=True)
    done = cli("testbed", "shape", name, "h0", "h1", "--rate", "9Mb/s")
    assert done.returncode == 2
    assert f"cannot change the rate of the interface h1n0 of the switches of {name}" in done.stderr
    assert f"syncline testbed down {name}" in done.stderr
    assert "rate 80Mbit" in shaped(name, "fabric", "h0n0")

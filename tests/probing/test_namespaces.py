"""Probes of hosts in network namespaces, whose rates and latencies are known."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

import pytest

from syncline import distances
from syncline.distances.hosts import named
from syncline.probing.budget import Wanted
from syncline.probing.coordinator import probe
from syncline.probing.launching import Launch
from syncline.probing.rounds import Schedule
from syncline.testbed import lifecycle
from syncline.testbed.flows import PAYLOAD
from syncline.testbed.spec import read
from tests.probing.turns import tournament
from tests.testbed.specs import RACKS, needs_namespaces

pytestmark = needs_namespaces

LAUNCH = Launch.parse(f"ip netns exec {{host}} {sys.executable} -")


def run(command):
    subprocess.run(command.split(), check=True, capture_output=True)


@pytest.fixture
def bed(tmp_path):
    """A testbed of two racks with two hosts each; yields the hosts."""
    spec = tmp_path / "bed.yaml"
    spec.write_text(RACKS.format(name=f"probe-{os.getpid()}"), "utf-8")
    with lifecycle.temporary(read(str(spec), [])) as layout:
        yield named([layout.namespace(host.number) for host in layout.hosts])


MIN_SHARE, MAX_SHARE = 0.6, 1.4
"""Rates beside those of links of 100 and 200 Mb/s. On an idle machine they are within 3 %; a busy one may let through
less, and more after a pause, when the link catches up."""


def alone(hosts):
    """One pair in a round, so that no flow shares the link between the racks."""
    rounds = [[(0, 1)], [(0, 2)], [(3, 1)], [(2, 3)]]
    return Schedule(rounds, len(rounds))


def test_rates_are_those_of_the_links(bed):
    outcome = probe(bed, LAUNCH, alone, Wanted(rtt=False, rate=True))
    assert outcome.complete
    rates = {pair: each.rate_bytes_per_s * 8 for pair, each in outcome.measured.pairs.items()}
    for pair, bits in {(0, 1): 200e6, (2, 3): 200e6, (0, 2): 100e6, (3, 1): 100e6}.items():
        assert MIN_SHARE * PAYLOAD * bits < rates[pair] < MAX_SHARE * bits


def test_hosts_of_other_racks_are_farther_away(bed):
    outcome = probe(bed, LAUNCH, tournament, Wanted(samples=400))
    assert outcome.complete
    assert outcome.clock == "kernel"
    near = [outcome.measured.round_trips[pair] for pair in ((0, 1), (2, 3))]
    far = [outcome.measured.round_trips[pair] for pair in ((0, 2), (0, 3), (1, 2), (1, 3))]
    # Two bridges and a trunk more each way.
    assert median(near) < median(far)
    assert outcome.addresses == {host.name: f"10.77.0.{number}" for number, host in enumerate(bed, start=1)}


def test_ranks_of_a_job_measure_the_rates_of_links(cli):
    spec = cli.write("bed.yaml", RACKS.format(name=f"probe-{os.getpid()}"))
    command = [sys.executable, "-m", "syncline", "probe", "--job", "--insecure", "--what", "both", "--samples", "50"]
    done = cli("testbed", "run", spec, "--hosts", "0-2", "--", *command, "--schedule", "full", "--out", "job.csv")
    assert done.returncode == 0, done.stderr
    measured = distances.read(str(cli.folder / "job.csv"))
    assert len(measured.pairs) == 6
    for (a, b), pair in measured.pairs.items():
        bits = 200e6 if {a, b} == {0, 1} else 100e6
        # Three ranks have one pair in a round.
        assert MIN_SHARE * PAYLOAD * bits < pair.rate_bytes_per_s * 8 < MAX_SHARE * bits


@pytest.fixture
def slow():
    """Two namespaces, of which the first sends 9,000 bytes per second; yields the hosts."""
    first, second = (f"syncline-probe-{os.getpid()}-{each}" for each in "ab")
    try:
        for name in (first, second):
            run(f"ip netns add {name}")
            run(f"ip -n {name} link set lo up")
        run(f"ip -n {first} link add name eth0 type veth peer name eth0 netns {second}")
        for number, name in enumerate((first, second), start=1):
            run(f"ip -n {name} address add 10.78.0.{number}/24 dev eth0")
            run(f"ip -n {name} link set eth0 up")
        run(f"tc -n {first} qdisc add dev eth0 root tbf rate 72kbit burst 200 limit 3000")
        yield named([first, second])
    finally:
        for name in (first, second):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def test_a_round_trip_is_that_of_a_link_with_a_known_rate(slow):
    outcome = probe(slow, LAUNCH, lambda _: Schedule([[(0, 1)]], 1), Wanted(samples=100))
    (pair,) = outcome.measured.pairs.values()
    # A frame has 48 bytes of payload and 42 of UDP, IPv4 and Ethernet. One after the other, they leave at 9,000 bytes
    # per second: 10 ms each. A request is sent a little after the reply before it, and waits that much less; on a busy
    # machine that may be milliseconds.
    assert 0.4 * 90 / 9000 < pair.rtt_median_s < 1.1 * 90 / 9000
    assert pair.rtt_s <= pair.rtt_median_s
    assert pair.lost == 0

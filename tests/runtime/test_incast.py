"""Many ranks send to one at the same time, on an emulated cluster whose switch drops most of their packets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.testbed.specs import needs_namespaces

pytestmark = [needs_namespaces, pytest.mark.slow, pytest.mark.timeout(300)]

HOSTS = 64
BED = """\
schema: syncline-testbed/1
name: {name}
fabric:
  leaf_spine: {{ leaves: 4, hosts_per_leaf: 16, spines: 1, rate: 100Mb/s, uplink_rate: 1600Mb/s }}
queue: 20KB
"""
"""The port to a host keeps 13 packets."""
PROGRAM = """
import sys, time
from array import array
from syncline.runtime import Communicator, Security, TimeLimits
with Communicator.join(security=Security(insecure=True), limits=TimeLimits(wait_s=120)) as ranks:
    end, more = time.monotonic() + float(sys.argv[1]), array("i", [1])
    while more[0]:
        if ranks.rank == 0:
            vectors = [bytearray(500_000) for _ in range(1, ranks.world)]
            pending = [ranks.receive(vector, rank) for rank, vector in enumerate(vectors, 1)]
        else:
            pending = [ranks.send(bytearray([ranks.rank]) * 500_000, 0)]
        for each in pending:
            each.wait()
        if ranks.rank == 0:
            assert all(vector == bytes([rank]) * 500_000 for rank, vector in enumerate(vectors, 1))
            print("turn", flush=True)
        more[0] = time.monotonic() < end
        ranks.broadcast(more).wait()
    lost = sum(each.tcp.retransmits for each in ranks.connections if each.tcp is not None)
    print("lost", lost, flush=True)
"""


@pytest.fixture
def bed(cli):
    """Brings the testbed up, yields its name, and takes it down."""
    name = f"incast-{os.getpid()}"
    done = cli("testbed", "up", cli.write("bed.yaml", BED.format(name=name)), "--quiet")
    assert done.returncode == 0, done.stderr
    yield name
    cli("testbed", "down", name)


def start(cli, bed, seconds):
    """Starts a rank on each host. The job ends after `seconds`."""
    command = [sys.executable, "-m", "syncline", "testbed", "run", bed, "--"]
    return subprocess.Popen(
        [*command, sys.executable, "-c", PROGRAM, str(seconds)],
        cwd=cli.folder,
        env=cli.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ranks_whose_packets_are_lost_are_not_taken_for_dead(cli, bed):
    """Fault: 63 ranks send to one, and the switch drops their packets for 30 s -> nobody is blamed"""
    out, err = start(cli, bed, 30).communicate(timeout=250)
    assert err == ""
    lost = [int(line.rsplit(" ", 1)[1]) for line in out.splitlines() if "lost" in line]
    assert len(lost) == HOSTS
    # Packets were lost on every way to rank 0.
    assert sum(lost) > 100 * HOSTS


def test_a_rank_that_is_killed_meanwhile_is_named(cli, bed):
    """Fault: one of 63 ranks that send to one is killed (`-9`) -> all others name it"""
    running = start(cli, bed, 60)
    assert running.stdout is not None
    while "turn" not in running.stdout.readline():
        assert running.poll() is None
    (pid, *_) = map(int, subprocess.check_output(["ip", "netns", "pids", f"syncline.{bed}.h40"], text=True).split())
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    _, err = running.communicate(timeout=200)
    assert "rank 40" in err
    assert time.monotonic() - killed < 20

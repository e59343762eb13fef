"""Network partitions during a job, on an emulated cluster: both sides name the fault within the promised time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from tests.runtime.jobs import WORKER, Since
from tests.testbed.specs import RACKS, needs_namespaces

pytestmark = needs_namespaces


@pytest.fixture
def bed(cli):
    """Brings a testbed of four hosts up, yields its name, and takes it down."""
    name = f"parts-{os.getpid()}"
    done = cli("testbed", "up", cli.write("bed.yaml", RACKS.format(name=name)), "--quiet")
    assert done.returncode == 0, done.stderr
    yield name
    cli("testbed", "down", name)


def host(name, number, *command):
    """Runs a command in the namespace of a host."""
    space = f"syncline.{name}.h{number}"
    subprocess.run(["ip", "netns", "exec", space, *command], check=True, capture_output=True)


def start(cli, name, **settings):
    """Starts the worker on every host; its output is lines ``[rank] {...}``."""
    command = [sys.executable, "-m", "syncline", "testbed", "run", name, "--"]
    return subprocess.Popen(
        [*command, sys.executable, str(WORKER), json.dumps({"insecure": True, "elements": 10_000, **settings})],
        cwd=cli.folder,
        env=cli.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def steps(running, count):
    """Waits until ``count`` ranks have finished a step."""
    assert running.stdout is not None
    for _ in range(count):
        line = running.stdout.readline()
        assert "step" in line, line or running.communicate()[1]


def lines(running):
    """Waits for the end, and returns the lines of each rank."""
    out, err = running.communicate(timeout=100)
    said = {}
    for line in out.splitlines():
        rank, _, text = line.partition("] ")
        if text.startswith("{"):
            said.setdefault(int(rank.removeprefix("[")), []).append(json.loads(text))
    assert said, err
    return said


def outcomes(running):
    """Waits for the end, and returns the last line of each rank."""
    return {rank: said[-1] for rank, said in lines(running).items()}


def test_a_host_that_is_cut_off_is_named_by_all_and_reports_it(cli, bed):
    """Fault: the network of a host goes down -> the others name its rank within 2 s; it says it receives nothing"""
    running = start(cli, bed)
    steps(running, 4)
    since = Since.now()
    host(bed, 2, "ip", "link", "set", "eth0", "down")
    said = outcomes(running)
    for rank in (0, 1, 3):
        assert said[rank]["error"]["message"].startswith("rank 2 sent nothing"), said[rank]
    assert said[2]["error"]["message"].startswith("rank 2 receives nothing from any peer"), said[2]
    assert all(each["intact"] for each in said.values()), said
    since.found(*(each["at"] for each in said.values()))


def cut(cli, name, one, other, *, both=True):
    """Drops all packets from host ``one`` to host ``other``, and with ``both`` also in the other direction.

    Returns a function that removes the cut.
    """
    layout = json.loads(cli("testbed", "status", name, "--json").stdout)["testbed"]
    address = [each["nics"][0]["address"] for each in layout["hosts"]]
    ends = [(one, address[other]), (other, address[one])][: 2 if both else 1]
    for number, peer in ends:
        host(name, number, "ip", "route", "add", "blackhole", f"{peer}/32")
    return lambda: [host(name, number, "ip", "route", "del", "blackhole", f"{peer}/32") for number, peer in ends]


@pytest.mark.parametrize("both", [True, False])
def test_a_broken_connection_between_two_live_hosts_is_named(cli, bed, both):
    """Fault: no packets pass between two hosts, one way or both -> all name that link within 2 s"""
    running = start(cli, bed)
    steps(running, 4)
    cut(cli, bed, 2, 3, both=both)
    since = Since.now()
    said = outcomes(running)
    messages = {each["error"]["message"].partition(" (")[0] for each in said.values()}
    assert len(messages) == 1, messages
    assert messages.pop().startswith("the link between rank 2 and rank 3"), said
    assert all(each["intact"] for each in said.values()), said
    since.found(*(each["at"] for each in said.values()))


@pytest.mark.parametrize("both", [True, False])
def test_a_broken_connection_to_the_coordinators_host_is_named(cli, bed, both):
    """Fault: no packets pass between rank 0's host and another, one way or both -> others name that link in 2 s"""
    running = start(cli, bed)
    steps(running, 4)
    cut(cli, bed, 0, 2, both=both)
    since = Since.now()
    said = outcomes(running)
    messages = {said[rank]["error"]["message"].partition(" (")[0] for rank in (0, 1, 3)}
    assert len(messages) == 1, messages
    assert messages.pop().startswith("the link between rank 0 and rank 2"), said
    # Rank 2 cannot receive the coordinator's decision, and reports what it knows.
    assert said[2]["error"]["message"].startswith("the coordinator sent nothing for"), said[2]
    assert "rank 0, which runs it, is silent too, and other ranks are not" in said[2]["error"]["message"], said[2]
    assert all(each["intact"] for each in said.values()), said
    since.found(*(each["at"] for each in said.values()))


def test_ranks_wait_for_a_cut_that_heals_soon(cli, bed):
    """Fault: no packets pass between two hosts for 0.3 s -> ranks wait for it"""
    running = start(cli, bed, steps=400)
    steps(running, 4)
    heal = cut(cli, bed, 2, 3)
    time.sleep(0.3)
    heal()
    said = outcomes(running)
    assert all(each == {"done": 400} for each in said.values()), said


def test_an_elastic_job_goes_on_with_the_lower_of_two_ranks_that_cannot_reach_each_other(cli, bed):
    """Fault: no packets pass between two hosts of an elastic job -> it goes on without the higher rank"""
    running = start(cli, bed, renew={}, steps=1500)
    steps(running, 4)
    cut(cli, bed, 2, 3)
    said = lines(running)
    for rank in (0, 1, 2):
        assert [line["ranks"] for line in said[rank] if "ranks" in line] == [[0, 1, 2]], said[rank]
        assert said[rank][-1] == {"done": 1500}
    assert "rank 3 cannot be reached from rank 2" in said[3][-1]["error"]["message"], said[3]

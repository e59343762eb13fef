"""Faults of ranks on a hub, and of hubs: processes that are killed, stopped or restarted."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from syncline.hub import HubResources, Service, status
from tests.runtime.jobs import Since, free_port, job

WORKER = Path(__file__).parent / "worker.py"


@pytest.fixture
def hub():
    """Runs a hub, and yields its address."""
    with Service(port=0, resources=HubResources(cores=2)) as service:
        yield service.addresses[0]


def settings(hub, **others):
    return json.dumps({"hubs": hub, "steps": 10**6, **others})


@pytest.mark.parametrize(
    ("number", "what"), [(signal.SIGKILL, "closed its connection"), (signal.SIGSTOP, "sent nothing")]
)
def test_a_lost_rank_is_named_by_all(hub, number, what):
    """Fault: a rank is killed or stopped (policy `fail`) -> all others name it within 2 s; inputs are as they were"""
    with job(4, settings(hub), worker=WORKER) as running:
        running.wait_for_steps()
        since = running.kill(2, number)
        outcomes = [running.outcome(rank) for rank in (0, 1, 3)]
    messages = {outcome["error"]["message"].partition(" (")[0] for outcome in outcomes}
    assert len(messages) == 1, messages
    assert messages.pop().startswith(f"rank 2 {what}")
    for outcome in outcomes:
        assert (outcome["error"]["code"], outcome["status"], outcome["intact"]) == ("SL1202", 6, True)
    since.found(*(outcome["at"] for outcome in outcomes))
    if number == signal.SIGKILL:
        assert "push_pull of `weights`, 200000 bytes" in outcomes[0]["error"]["message"]


def test_the_remaining_ranks_go_on(hub):
    """Fault: a rank is killed (policy `shrink`) -> the others go on"""
    with job(3, settings(hub, steps=400, policy="shrink", pause=0.005), worker=WORKER) as running:
        running.wait_for_steps()
        running.kill(0, signal.SIGKILL)
        outcomes = [running.outcome(rank) for rank in (1, 2)]
    assert [outcome["status"] for outcome in outcomes] == [0, 0], outcomes
    assert outcomes[0]["last"] == outcomes[1]["last"]


def test_a_restarted_rank_joins_the_remaining_ranks(hub):
    """Fault: a lost rank is started again (policy `shrink`) -> it joins at the next step"""
    sets = settings(hub, steps=600, policy="shrink", pause=0.01)
    with job(2, sets, worker=WORKER) as running:
        running.wait_for_steps()
        running.kill(1, signal.SIGKILL)
        running.processes[1].wait()
        with job(2, sets, ranks=[1], worker=WORKER) as again:
            first = json.loads(again.processes[0].stdout.readline())
            assert first["step"] > 0, "it takes up where the job is"
            outcomes = [running.outcome(0), again.outcome(0)]
    assert [outcome["contributors"] for outcome in outcomes] == [2, 2], outcomes
    assert outcomes[0]["last"] == outcomes[1]["last"]


def test_ranks_wait_for_a_rank_that_is_restarted(hub):
    """Fault: a rank is killed and started again (policy `wait`) -> the others wait, and every step counts once"""
    sets = settings(hub, steps=200, policy="wait", pause=0.01)
    with job(2, sets, worker=WORKER) as running:
        running.wait_for_steps()
        running.kill(0, signal.SIGKILL)
        running.processes[0].wait()
        time.sleep(0.5)
        with job(2, sets, ranks=[0], worker=WORKER) as again:
            outcomes = [running.outcome(1), again.outcome(0)]
    assert [outcome["status"] for outcome in outcomes] == [0, 0], outcomes
    # Every step of every rank counts once, although a rank was restarted.
    assert all(outcome["last"] == [400.0, 400.0] for outcome in outcomes), outcomes


def test_ranks_that_are_all_restarted_take_up_their_job(hub):
    """Fault: all ranks are killed and started again (policy `wait`) -> they resume the job where it stopped"""
    sets = settings(hub, steps=150, policy="wait", pause=0.01)
    with job(2, sets, worker=WORKER) as running:
        running.wait_for_steps()
        for rank in range(2):
            running.kill(rank, signal.SIGKILL)
            running.processes[rank].wait()
        with job(2, sets, worker=WORKER) as again:
            outcomes = [again.outcome(rank) for rank in range(2)]
    assert [outcome["last"] for outcome in outcomes] == [[300.0, 300.0]] * 2, outcomes


def test_a_second_process_of_a_rank_is_refused_and_the_first_goes_on(hub):
    """Fault: a second process of a rank joins -> it is refused, and the job is not disturbed"""
    sets = settings(hub, steps=200, pause=0.01)
    with job(2, sets, worker=WORKER) as running:
        running.wait_for_steps()
        with job(2, settings(hub, steps=1, wait_s=0.3), ranks=[1], worker=WORKER) as twice:
            refused = twice.outcome(0)
        outcomes = [running.outcome(rank) for rank in range(2)]
    assert "rank 1 of job `job` has already joined" in refused["error"]["message"]
    assert [outcome["last"] for outcome in outcomes] == [[400.0, 400.0]] * 2, outcomes


@pytest.mark.parametrize("policy", ["fail", "shrink", "wait"])
def test_a_rank_that_was_stopped_too_long_finds_out_that_it_is_the_one_at_fault(hub, policy):
    with job(2, settings(hub, policy=policy, pause=0.01), worker=WORKER) as running:
        running.wait_for_steps()
        running.kill(1, signal.SIGSTOP)
        time.sleep(3)
        running.processes[1].send_signal(signal.SIGCONT)
        outcome = running.outcome(1)
    assert outcome["error"]["message"].startswith("rank 1 sent nothing for"), outcome


def test_other_jobs_are_not_disturbed(hub):
    """Fault: a job on the hub loses a rank -> other jobs are not disturbed"""
    with (
        job(2, settings(hub, steps=300, pause=0.002), worker=WORKER) as other,
        job(2, settings(hub, job="another"), worker=WORKER) as running,
    ):
        running.wait_for_steps()
        running.kill(0, signal.SIGKILL)
        assert running.outcome(1)["status"] == 6
        outcomes = [other.outcome(rank) for rank in range(2)]
    assert [outcome["last"] for outcome in outcomes] == [[600.0, 600.0]] * 2


@pytest.mark.parametrize(
    ("number", "what"), [(signal.SIGKILL, "closed its connection"), (signal.SIGSTOP, "sent nothing")]
)
def test_a_lost_hub_is_named(number, what):
    """Fault: the hub is killed or stopped -> all ranks name it within 2 s; inputs are as they were"""
    port = free_port()
    command = [sys.executable, "-m", "syncline", "hub", "serve", "--port", str(port), "--cores", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        try:
            with job(2, settings(f"127.0.0.1:{port}"), worker=WORKER) as running:
                running.wait_for_steps()
                served.send_signal(number)
                since = Since.now()
                outcomes = [running.outcome(rank) for rank in range(2)]
        finally:
            served.kill()
    for outcome in outcomes:
        assert outcome["error"]["message"].startswith(f"hub 0 at 127.0.0.1:{port} {what}"), outcome
        assert outcome["intact"]
    since.found(*(outcome["at"] for outcome in outcomes))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_hub_of_several_is_named(number):
    """Fault: one of several hubs is killed or stopped -> all ranks name it, and no other hub, within 2 s"""
    ports = [free_port(), free_port()]
    command = [sys.executable, "-m", "syncline", "hub", "serve", "--cores", "2", "--port"]
    served = [subprocess.Popen([*command, str(port)], stderr=subprocess.PIPE, text=True) for port in ports]
    try:
        for each in served:
            assert each.stderr.readline(), "it listens"
        with job(3, settings([f"127.0.0.1:{port}" for port in ports]), worker=WORKER) as running:
            running.wait_for_steps()
            served[1].send_signal(number)
            since = Since.now()
            outcomes = [running.outcome(rank) for rank in range(3)]
    finally:
        for each in served:
            each.kill()
            each.communicate()
    for outcome in outcomes:
        assert outcome["error"]["message"].startswith("hub 1 "), outcome
        assert outcome["intact"]
    since.found(*(outcome["at"] for outcome in outcomes))


def test_a_hub_that_stops_before_the_job_begins_is_named():
    """Fault: the hub is stopped while ranks wait for others -> they name it within 2 s"""
    port = free_port()
    address = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "syncline", "hub", "serve", "--port", str(port), "--cores", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        try:
            with job(2, settings(address, wait_s=100.0), ranks=[0], worker=WORKER) as running:
                assert served.stderr.readline(), "it listens"
                while not any("waiting" in each["ranks"] for each in status(address)["jobs"]):
                    time.sleep(0.01)
                since = Since.now()
                served.send_signal(signal.SIGSTOP)
                outcome = running.outcome(0)
        finally:
            served.kill()
    assert re.search(f"lost the hub {address}: it sent nothing", outcome["error"]["message"]), outcome
    since.found(outcome["at"])


def test_ranks_wait_for_a_rank_that_is_stopped_for_a_moment(hub):
    """Fault: a rank is stopped for a moment -> the others wait for it"""
    with job(2, settings(hub, steps=300), worker=WORKER) as running:
        running.wait_for_steps()
        running.kill(1, signal.SIGSTOP)
        time.sleep(0.7)
        running.kill(1, signal.SIGCONT)
        outcomes = [running.outcome(rank) for rank in range(2)]
    assert [outcome["status"] for outcome in outcomes] == [0, 0]
    assert status(hub)["lost"] == 0

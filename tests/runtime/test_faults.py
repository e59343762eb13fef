"""Ranks that are killed, stopped, or begin other operations: the others name them within 2 s, and keep their inputs."""

from __future__ import annotations

import json
import re
import signal

import pytest

from tests.runtime.jobs import job


def check_error(faulty, since, ranks, running):
    """Checks that all ranks got the same error about ``faulty`` in time, and returns its message."""
    outcomes = [running.outcome(rank) for rank in ranks]
    assert all(outcome["error"]["code"] == "SL1202" and outcome["status"] == 6 for outcome in outcomes), outcomes
    assert all(outcome["intact"] for outcome in outcomes)
    messages = {outcome["error"]["message"].partition(" (")[0] for outcome in outcomes}
    # Without a coordinator each rank measures its silence and adds what it knows, which differs: ignore both.
    messages = {re.sub(r" for \d+\.\d s|; rank 0, which runs it, is silent.*", "", message) for message in messages}
    assert len(messages) == 1, messages
    since.found(*(outcome["at"] for outcome in outcomes))
    message = messages.pop()
    assert message.startswith(faulty), message
    return outcomes[0]["error"]["message"]


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("victim", [1, 3])
def test_a_killed_rank_is_named_by_all(victim, shared_memory):
    """Fault: a process is killed (`-9`) -> all others name it, at once; inputs are as they were"""
    with job(4, json.dumps({"shared_memory": shared_memory})) as running:
        running.wait_for_steps()
        since = running.kill(victim, signal.SIGKILL)
        message = check_error(f"rank {victim} closed", since, [rank for rank in range(4) if rank != victim], running)
    assert "all_reduce of 100000 f32 (sum), 400000 bytes" in message


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_stopped_rank_is_named_by_all(shared_memory):
    """Fault: a process is stopped (`SIGSTOP`) -> all others name it within 2 s; inputs are as they were"""
    with job(4, json.dumps({"shared_memory": shared_memory})) as running:
        running.wait_for_steps()
        since = running.kill(2, signal.SIGSTOP)
        check_error("rank 2 sent nothing", since, [0, 1, 3], running)


def test_all_ranks_report_that_the_coordinator_is_lost():
    """Fault: rank 0, which coordinates, is killed -> all others say that the coordinator is lost"""
    with job(3) as running:
        running.wait_for_steps()
        since = running.kill(0, signal.SIGKILL)
        check_error("the coordinator", since, [1, 2], running)


def test_all_ranks_report_a_stopped_coordinator():
    """Fault: rank 0, which coordinates, is stopped -> all others say within 2 s that the coordinator is lost"""
    with job(4) as running:
        running.wait_for_steps()
        since = running.kill(0, signal.SIGSTOP)
        check_error("the coordinator sent nothing", since, [1, 2, 3], running)


def test_a_coordinator_stopped_before_all_ranks_have_joined_is_reported():
    """Fault: rank 0 is stopped while it waits for others -> ranks that have joined report it within 2 s"""
    with job(3, json.dumps({"wait_s": 60}), ranks=[0, 1]) as running:
        # Wait until both have joined: there is no output that says so.
        signal.sigtimedwait([], 3.0)
        since = running.kill(0, signal.SIGSTOP)
        outcome = running.outcome(1)
    assert "lost the coordinator: it sent nothing" in outcome["error"]["message"], outcome
    since.found(outcome["at"])


def test_ranks_wait_for_a_rank_that_is_stopped_for_a_moment():
    """Fault: a process is stopped for half a second -> the others wait for it"""
    with job(3, json.dumps({"steps": 300})) as running:
        running.wait_for_steps()
        running.kill(1, signal.SIGSTOP)
        signal.sigtimedwait([], 0.5)
        running.kill(1, signal.SIGCONT)
        assert [running.outcome(rank, 60) for rank in range(3)] == [{"done": 300}] * 3


def test_ranks_wait_for_a_slow_rank():
    """Fault: a process is slowed down by a factor of 10 -> the others wait for it, and blame nobody"""
    with job(3, json.dumps({"steps": 60})) as running:
        running.wait_for_steps()
        while running.processes[1].poll() is None:
            running.kill(1, signal.SIGSTOP)
            signal.sigtimedwait([], 0.18)
            running.kill(1, signal.SIGCONT)
            signal.sigtimedwait([], 0.02)
        assert [running.outcome(rank, 60) for rank in range(3)] == [{"done": 60}] * 3


def test_ranks_that_begin_different_operations_all_get_both_in_their_errors():
    """Fault: ranks begin different operations -> every rank gets both in its error"""
    with job(3, json.dumps({"odd": {"2": 99_999}})) as running:
        outcomes = [running.outcome(rank) for rank in range(3)]
    messages = {outcome["error"]["message"].partition(" (operation")[0] for outcome in outcomes}
    assert len(messages) == 1
    message = messages.pop()
    assert "100000 f32" in message and "99999 f32" in message


def test_a_second_process_of_a_rank_is_refused_and_the_job_goes_on():
    """Fault: a second process of a rank joins -> it is refused, and the job is not disturbed"""
    with job(2) as running:
        running.wait_for_steps()
        with job(2, json.dumps({"coordinator": running.address, "wait_s": 5}), ranks=[1]) as second:
            refused = second.outcome(0)
        assert "rank 1 has already joined" in refused["error"]["message"]
        assert [process.poll() for process in running.processes] == [None, None]

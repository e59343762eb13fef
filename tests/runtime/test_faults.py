"""Ranks that die, stop, or ask for something else: others are told who, within two seconds, and keep their inputs."""

from __future__ import annotations

import json
import signal

import pytest

from tests.runtime.jobs import job


def told(faulty, since, ranks, running):
    """What ranks were told, which is the same for all, and soon."""
    outcomes = [running.outcome(rank) for rank in ranks]
    assert all(outcome["error"]["code"] == "SL1202" and outcome["status"] == 6 for outcome in outcomes), outcomes
    assert all(outcome["intact"] for outcome in outcomes)
    messages = {outcome["error"]["message"].partition(" (")[0] for outcome in outcomes}
    # Without a coordinator each rank adds what it knows itself: those that end first hear more.
    messages = {message.partition(", nor did rank 0")[0] for message in messages}
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
        message = told(f"rank {victim} closed", since, [rank for rank in range(4) if rank != victim], running)
    assert "all_reduce of 100000 f32 (sum), 400000 bytes" in message


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_stopped_rank_is_named_by_all(shared_memory):
    """Fault: a process is stopped (`SIGSTOP`) -> all others name it within 2 s; inputs are as they were"""
    with job(4, json.dumps({"shared_memory": shared_memory})) as running:
        running.wait_for_steps()
        since = running.kill(2, signal.SIGSTOP)
        told("rank 2 gave no sign of life", since, [0, 1, 3], running)


def test_whoever_loses_the_coordinator_says_so():
    """Fault: rank 0, which coordinates, is killed -> all others say that the coordinator is lost"""
    with job(3) as running:
        running.wait_for_steps()
        since = running.kill(0, signal.SIGKILL)
        told("the coordinator", since, [1, 2], running)


def test_whoever_does_not_hear_the_coordinator_says_so():
    """Fault: rank 0, which coordinates, is stopped -> all others say within 2 s that the coordinator is lost"""
    with job(4) as running:
        running.wait_for_steps()
        since = running.kill(0, signal.SIGSTOP)
        told("the coordinator gave no sign of life", since, [1, 2, 3], running)


def test_a_coordinator_that_is_stopped_before_all_have_come_is_found():
    """Fault: rank 0 is stopped while it waits for others -> those that have come say so within 2 s"""
    with job(3, json.dumps({"wait_s": 60}), ranks=[0, 1]) as running:
        # Nobody says when both have come.
        signal.sigtimedwait([], 3.0)
        since = running.kill(0, signal.SIGSTOP)
        outcome = running.outcome(1)
    assert "lost the coordinator: it gave no sign of life" in outcome["error"]["message"], outcome
    since.found(outcome["at"])


def test_a_rank_that_was_stopped_for_a_moment_is_waited_for():
    """Fault: a process is stopped for half a second -> it is waited for"""
    with job(3, json.dumps({"steps": 300})) as running:
        running.wait_for_steps()
        running.kill(1, signal.SIGSTOP)
        signal.sigtimedwait([], 0.5)
        running.kill(1, signal.SIGCONT)
        assert [running.outcome(rank, 60) for rank in range(3)] == [{"done": 300}] * 3


def test_a_rank_that_is_slow_is_waited_for():
    """Fault: a process is slowed 10 times -> it is waited for, and nobody is blamed"""
    with job(3, json.dumps({"steps": 60})) as running:
        running.wait_for_steps()
        while running.processes[1].poll() is None:
            running.kill(1, signal.SIGSTOP)
            signal.sigtimedwait([], 0.18)
            running.kill(1, signal.SIGCONT)
            signal.sigtimedwait([], 0.02)
        assert [running.outcome(rank, 60) for rank in range(3)] == [{"done": 60}] * 3


def test_ranks_that_ask_for_different_things_are_told_both():
    """Fault: ranks ask for different things -> all are told both"""
    with job(3, json.dumps({"odd": {"2": 99_999}})) as running:
        outcomes = [running.outcome(rank) for rank in range(3)]
    messages = {outcome["error"]["message"].partition(" (operation")[0] for outcome in outcomes}
    assert len(messages) == 1
    message = messages.pop()
    assert "100000 f32" in message and "99999 f32" in message


def test_a_second_process_of_a_rank_is_refused_and_the_job_never_notices():
    """Fault: a second process of a rank joins -> it is refused, and the job never notices"""
    with job(2) as running:
        running.wait_for_steps()
        with job(2, json.dumps({"coordinator": running.address, "wait_s": 5}), ranks=[1]) as second:
            refused = second.outcome(0)
        assert "rank 1 is here already" in refused["error"]["message"]
        assert [process.poll() for process in running.processes] == [None, None]

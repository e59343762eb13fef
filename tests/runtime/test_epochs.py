"""Elastic jobs: ranks in separate processes are killed, stopped and restarted."""

from __future__ import annotations

import json
import signal
import time
from array import array

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator, Plans, Rule
from tests.runtime.jobs import job


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_survivors_go_on_and_keep_their_inputs(how):
    """Fault: ranks of an elastic job are killed or stopped -> the others go on with their inputs, in a new epoch"""
    with job(4, json.dumps({"renew": {}})) as running:
        running.wait_for_steps()
        since = running.kill(2, how)
        for rank in (0, 1, 3):
            assert running.until(rank, "intact")
            assert running.until(rank, "ranks") == [0, 1, 3]
        since.found(time.time())
        # The survivors lose another rank, and go on again.
        running.kill(3, signal.SIGKILL)
        assert [running.until(rank, "ranks") for rank in (0, 1)] == [[0, 1]] * 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_restarted_rank_is_let_in_between_two_steps(how):
    """Fault: a lost rank of an elastic job is started again -> it is let in between two steps"""
    settings = {"renew": {}}
    with job(3, json.dumps(settings)) as running:
        running.wait_for_steps()
        running.kill(1, how)
        with job(3, json.dumps({**settings, "coordinator": running.address}), ranks=[1]) as again:
            assert again.until(0, "step") > 0
            for rank in (0, 2):
                # The restarted rank may join before the others have gone on without it.
                while running.until(rank, "ranks") != [0, 1, 2]:
                    pass
            again.kill(0, signal.SIGKILL)
            assert [running.until(rank, "ranks") for rank in (0, 2)] == [[0, 2]] * 2


def test_ranks_wait_for_a_lost_rank_to_come_back():
    """Fault: a rank is lost, and the others wait for it (`wait_s`) -> they go on once it is back"""
    settings = {"renew": {"wait_s": 60}}
    with job(3, json.dumps(settings)) as running:
        running.wait_for_steps()
        running.kill(1, signal.SIGKILL)
        assert running.until(0, "intact") and running.until(2, "intact")
        with job(3, json.dumps({**settings, "coordinator": running.address}), ranks=[1]) as again:
            assert [running.until(rank, "ranks") for rank in (0, 2)] == [[0, 1, 2]] * 2
            assert again.until(0, "step") >= 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_another_rank_coordinates_when_rank_0_is_lost(how):
    """Fault: an elastic job loses rank 0 -> the others go on with their inputs, and the lowest rank coordinates"""
    with job(4, json.dumps({"renew": {}})) as running:
        running.wait_for_steps()
        since = running.kill(0, how)
        for rank in (1, 2, 3):
            assert running.until(rank, "intact")
        since.found(time.time())
        assert [running.until(rank, "ranks") for rank in (1, 2, 3)] == [[1, 2, 3]] * 3
        # The next coordinator is lost, too.
        running.kill(1, signal.SIGKILL)
        assert [running.until(rank, "ranks") for rank in (2, 3)] == [[2, 3]] * 2
        running.kill(2, signal.SIGKILL)
        assert running.until(3, "ranks") == [3]


def test_ranks_0_and_1_are_lost_at_once():
    """Fault: an elastic job loses rank 0 and the next one at the same time -> the others go on"""
    with job(5, json.dumps({"renew": {}})) as running:
        running.wait_for_steps()
        running.kill(1, signal.SIGKILL)
        running.kill(0, signal.SIGKILL)
        for rank in (2, 3, 4):
            while running.until(rank, "ranks") != [2, 3, 4]:
                pass


def test_a_rank_0_that_is_started_again_joins_the_running_job():
    """Fault: rank 0 is lost and started again at its address -> it is let into the job that went on without it"""
    settings = {"renew": {}}
    with job(3, json.dumps(settings)) as running:
        running.wait_for_steps()
        running.kill(0, signal.SIGKILL)
        assert [running.until(rank, "ranks") for rank in (1, 2)] == [[1, 2]] * 2
        with job(3, json.dumps({**settings, "coordinator": running.address}), ranks=[0]) as again:
            assert again.until(0, "step") > 0
            for rank in (1, 2):
                while running.until(rank, "ranks") != [0, 1, 2]:
                    pass
            again.kill(0, signal.SIGKILL)
            assert [running.until(rank, "ranks") for rank in (1, 2)] == [[1, 2]] * 2


def test_a_coordinator_that_stops_for_a_while_does_not_go_on_beside_the_others():
    """Fault: rank 0 stops, and goes on after the others have gone on without it -> it reports that, and ends"""
    with job(3, json.dumps({"renew": {}})) as running:
        running.wait_for_steps()
        running.kill(0, signal.SIGSTOP)
        assert [running.until(rank, "ranks") for rank in (1, 2)] == [[1, 2]] * 2
        running.kill(0, signal.SIGCONT)
        outcome = running.outcome(0)
        assert outcome["error"]["code"] == "SL1201" and outcome["status"] == 6
        assert all(process.poll() is None for process in running.processes[1:])


def test_ranks_that_wait_for_an_epoch_are_not_taken_for_dead_by_a_coordinator_that_stopped():
    """Fault: rank 0 stops for a while as ranks wait for a lost one -> only one part goes on"""
    with job(5, json.dumps({"renew": {"wait_s": 8}})) as running:
        running.wait_for_steps()
        running.kill(4, signal.SIGKILL)
        for rank in range(4):
            assert running.until(rank, "intact")
        running.kill(0, signal.SIGSTOP)
        time.sleep(7.0)
        running.kill(0, signal.SIGCONT)
        outcome = running.outcome(0)
        assert outcome["error"]["code"] == "SL1201" and "ranks 1-3 are silent" in outcome["error"]["message"]
        assert [running.until(rank, "ranks") for rank in (1, 2, 3)] == [[1, 2, 3]] * 3


def test_all_ranks_go_on_after_the_coordinator_stopped_for_a_moment():
    """Fault: rank 0 stops, and goes on before another rank takes over -> all ranks go on"""
    with job(3, json.dumps({"renew": {}})) as running:
        running.wait_for_steps()
        running.kill(0, signal.SIGSTOP)
        time.sleep(2.8)
        running.kill(0, signal.SIGCONT)
        assert [running.until(rank, "ranks") for rank in range(3)] == [[0, 1, 2]] * 3


def test_ranks_0_and_2_of_three_are_lost_at_once():
    """Fault: all ranks but one are killed at the same time -> that one goes on"""
    with job(3, json.dumps({"renew": {}})) as running:
        running.wait_for_steps()
        running.kill(0, signal.SIGKILL)
        running.kill(2, signal.SIGKILL)
        while running.until(1, "ranks") != [1]:
            pass


def test_one_of_two_ranks_does_not_go_on_while_rank_0_may_live():
    """Fault: rank 0 of two ranks stops -> the other reports that it cannot know whether rank 0 goes on, and ends"""
    with job(2, json.dumps({"renew": {}})) as running:
        running.wait_for_steps()
        running.kill(0, signal.SIGSTOP)
        outcome = running.outcome(1)
        assert outcome["error"]["code"] == "SL1201" and outcome["status"] == 6
        assert "rank 0 is silent" in outcome["error"]["message"]


def alone(**settings):
    """Joins a job of one rank."""
    return Communicator.join(0, 1, "127.0.0.1:0", **settings)


def test_a_single_rank_renews_with_other_plans():
    with alone(elastic=True) as ranks:
        ranks.renew(plans=Plans(rules=[]))
        assert (ranks.epoch, ranks.ranks, ranks.rank, ranks.world, ranks.waiting) == (1, [0], 0, 1, [])
        ranks.all_reduce(array("f", [1.0])).wait()
        for wrong, words in (
            ({"wait_s": -1.0}, "wait_s"),
            ({"wait_s": 1e19}, "at most ten years"),
            ({"plans": Plans(rules=[Rule("all_reduce", "rinng")])}, "ring"),
            ({"plans": Plans(order=[1])}, "each rank once"),
        ):
            with pytest.raises(SynclineError) as refused:
                ranks.renew(**wrong)
            assert words in str(refused.value)
        ranks.renew(plans=Plans(rules=[Rule("all_reduce", "direct")]))
        ranks.barrier().wait()


def test_renewing_a_job_that_is_not_elastic_fails_and_the_job_goes_on():
    with alone() as ranks:
        with pytest.raises(SynclineError, match="the job is not elastic") as refused:
            ranks.renew()
        assert "elastic=True" in str(refused.value)
        values = array("f", [2.0])
        ranks.all_reduce(values).wait()
        assert values[0] == 2.0


def test_a_closed_communicator_cannot_be_renewed():
    ranks = alone(elastic=True)
    ranks.close()
    with pytest.raises(SynclineError, match="closed"):
        ranks.renew()

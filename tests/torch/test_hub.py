"""Parameter hubs under PyTorch: the optimizer, and the hook of DDP. Each rank is a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from syncline.hub import HubResources, Service
from tests.runtime.jobs import FOUND_WITHIN_S, SLACK_S, free_port, job
from tests.torch.ranks import run

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

WORKER = Path(__file__).parent / "hub_worker.py"


@pytest.fixture
def hub():
    """Runs a hub, and yields its address."""
    with Service(port=0, resources=HubResources(cores=2)) as service:
        yield service.addresses[0]


def cases(hub, world, case, *arguments, **more):
    return run(world, case, *arguments, cases="hub_cases", SYNCLINE_HUBS=hub, **more)


def test_steps_equal_those_of_torch_optim_on_the_averaged_gradient(hub):
    cases(hub, 2, "steps")


def test_three_ranks_accumulate_gradients_on_two_hubs(hub):
    with Service(port=0, resources=HubResources(cores=1)) as other:
        cases(f"{hub},{other.addresses[0]}", 3, "accumulated")


@pytest.mark.parametrize(("world", "case"), [(1, "odd"), (2, "odd"), (2, "schedules"), (2, "two"), (1, "refusals")])
def test_the_optimizer_trains_or_refuses_unusual_models(hub, world, case):
    cases(hub, world, case)


def test_ranks_whose_shapes_differ_all_get_both_in_their_errors(hub):
    cases(hub, 2, "shapes")


@pytest.mark.parametrize("way", ["hub", "plans"])
@pytest.mark.parametrize("world", [1, 2])
def test_two_hooks_at_once_average_unusual_gradients(hub, world, way):
    cases(hub, world, "two_hooks", way)


def test_ranks_whose_buckets_differ_all_get_both_in_their_errors(hub):
    cases(hub, 2, "hook_shapes")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hub", "plans"])
def test_a_bucket_of_one_gigabyte_is_averaged(hub, way):
    cases(hub, 2, "hook_large", way, within_s=300)


@pytest.mark.slow
def test_a_parameter_of_one_gigabyte_is_updated(hub):
    cases(hub, 2, "large", within_s=300)


def test_parameters_on_a_gpu_are_updated(hub):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use")
    cases(hub, 2, "cuda")


def disturbed(hub, world, ranks=None, **settings):
    """Starts a job whose ranks train on a hub."""
    told = json.dumps({"way": "optimizer", "hubs": hub, "in_order": True, **settings})
    return job(world, told, ranks=ranks, worker=WORKER, OMP_NUM_THREADS="1")


def running_for(running, steps, ranks):
    """Waits until ranks have printed ``steps`` lines."""
    for _ in range(steps):
        for rank in ranks:
            assert running.processes[rank].stdout.readline(), running.processes[rank].communicate()[1]


def test_a_lost_rank_is_named_by_all_and_parameters_are_unchanged(hub):
    with disturbed(hub, 3, steps=10**6) as running:
        running_for(running, 5, range(3))
        since = running.kill(1, signal.SIGKILL)
        outcomes = [running.outcome(rank) for rank in (0, 2)]
    for outcome in outcomes:
        assert "rank 1 closed its connection" in outcome["error"], outcome
        assert "push_pull of `bucket " in outcome["error"], outcome
        assert (outcome["status"], outcome["intact"]) == (6, True)
        assert outcome["at"] - since < FOUND_WITHIN_S + SLACK_S
    assert outcomes[0]["last"] == outcomes[1]["last"]


@pytest.mark.parametrize(
    ("number", "what"), [(signal.SIGKILL, "closed its connection"), (signal.SIGSTOP, "sent nothing")]
)
@pytest.mark.parametrize("way", ["optimizer", "hook"])
def test_a_lost_hub_is_named(way, number, what):
    port = free_port()
    command = [sys.executable, "-m", "syncline", "hub", "serve", "--port", str(port), "--cores", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        try:
            with disturbed(f"127.0.0.1:{port}", 2, way=way, steps=10**6) as running:
                running_for(running, 5, range(2))
                since = time.time()
                served.send_signal(number)
                outcomes = [running.outcome(rank) for rank in range(2)]
        finally:
            served.kill()
    for outcome in outcomes:
        assert f"hub 0 at 127.0.0.1:{port} {what}" in outcome["error"], outcome
        assert outcome["intact"] or way == "hook"
        assert outcome["at"] - since < FOUND_WITHIN_S + SLACK_S


@pytest.mark.parametrize("way", ["optimizer", "hook"])
def test_the_remaining_ranks_go_on(hub, way):
    with disturbed(hub, 3, way=way, steps=150, policy="shrink", pause=0.01) as running:
        running_for(running, 5, range(3))
        running.kill(1, signal.SIGKILL)
        outcomes = [running.outcome(rank) for rank in (0, 2)]
    assert [outcome["status"] for outcome in outcomes] == [0, 0], outcomes
    assert outcomes[0]["last"] == outcomes[1]["last"]
    if way == "optimizer":
        assert outcomes[0]["contributors"] == [2, 3]


def test_a_restarted_rank_joins_between_steps(hub):
    # PyTorch takes seconds to import, longer on a busy machine.
    sets = {"steps": 900, "policy": "shrink", "pause": 0.02}
    with disturbed(hub, 2, **sets) as running:
        running_for(running, 5, range(2))
        running.kill(1, signal.SIGKILL)
        running.processes[1].wait()
        with disturbed(hub, 2, ranks=[1], **sets) as again:
            said = json.loads(again.processes[0].stdout.readline())
            assert 0 < said["joined"] < 900, "it takes up where the job is"
            outcomes = [running.outcome(0), again.outcome(0)]
    assert outcomes[0]["contributors"] == [1, 2], outcomes[0]["contributors"]
    assert outcomes[1]["contributors"] == [2], "it begins with a whole step"
    assert outcomes[0]["last"] == outcomes[1]["last"]


def test_waiting_for_a_rank_does_not_change_results(hub):
    sets = {"steps": 60, "policy": "wait", "pause": 0.01}
    with disturbed(hub, 2, job="undisturbed", **sets) as running:
        expected = [running.outcome(rank) for rank in range(2)]
    with disturbed(hub, 2, **sets) as running:
        running_for(running, 7, range(2))
        running.kill(0, signal.SIGKILL)
        running.processes[0].wait()
        with disturbed(hub, 2, ranks=[0], **sets) as again:
            outcomes = [running.outcome(1), again.outcome(0)]
    assert [outcome["status"] for outcome in outcomes] == [0, 0], outcomes
    # Every step counts once, with the gradients of both, bit for bit.
    assert outcomes[0]["last"] == outcomes[1]["last"] == expected[0]["last"] == expected[1]["last"]

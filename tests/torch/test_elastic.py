"""Training goes on after ranks are killed or stopped, and with ranks that come back, with the right parameters."""

from __future__ import annotations

import json
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from syncline.errors import SynclineError
from syncline.runtime import Communicator
from tests.runtime.jobs import job

torch = pytest.importorskip("torch", reason="PyTorch is not installed: see `make test-torch`")
import syncline.torch  # noqa: E402 - the import needs PyTorch

WORKER = Path(__file__).parent / "elastic.py"
STEPS = 40


def start(world, *, ranks=None, **settings):
    """Starts ranks that train."""
    return job(world, json.dumps({"steps": STEPS, "pause_s": 0.02, **settings}), ranks=ranks, worker=WORKER)


def rest(running, rank):
    """Waits for a rank; returns its steps that counted, with the ranks that took part, and its parameters."""
    out, err = running.processes[rank].communicate(timeout=120)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert lines and "done" in lines[-1], (lines[-1:], err)
    return {line["step"]: line["ranks"] for line in lines if "step" in line}, lines[-1]["done"]


def expected(parts):
    """Computes the parameters after steps in which the given ranks took part, without communication."""
    from tests.torch import elastic

    torch.manual_seed(0)
    net = elastic.network()
    descent = elastic.optimizer(net)
    for step in range(len(parts)):
        descent.zero_grad()
        for rank in parts[step]:
            (elastic.loss(net, step, rank) / len(parts[step])).backward()
        descent.step()
    return [value for each in net.parameters() for value in each.flatten().tolist()]


def check(told, parts):
    """Checks that all ranks have the same parameters, and that these are the expected ones."""
    for steps, parameters in told:
        assert parameters == told[0][1]
        assert all(parts[step] == ranks for step, ranks in steps.items())
    assert parameters == pytest.approx(expected(parts), abs=1e-5)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_survivors_lose_no_step(how):
    """Fault: a rank that trains is killed or stopped -> the others go on and lose no step"""
    with start(4) as running:
        for rank in range(4):
            assert running.until(rank, "step") == 0
        running.kill(2, how)
        told = [rest(running, rank) for rank in (0, 1, 3)]
    parts = {0: [0, 1, 2, 3], **told[0][0]}
    assert parts[STEPS - 1] == [0, 1, 3]
    assert sorted(parts) == list(range(STEPS))
    check(told, parts)


@pytest.mark.parametrize("wait_s", [0.0, 60.0])
def test_a_restarted_rank_gets_the_state_of_the_others(wait_s):
    """Fault: the rank is started again -> it gets the state of the others, and takes part in the next step"""
    with start(3, wait_s=wait_s, whole=True) as running:
        for rank in range(3):
            assert running.until(rank, "step") == 0
        running.kill(1, signal.SIGKILL)
        with start(3, ranks=[1], wait_s=wait_s, whole=True, join={"coordinator": running.address}) as again:
            back, parameters = rest(again, 0)
            told = [*(rest(running, rank) for rank in (0, 2)), (back, parameters)]
    parts = {0: [0, 1, 2], **told[0][0]}
    assert min(back) > 0 and parts[max(parts)] == [0, 1, 2]
    assert sorted(parts) == list(range(len(parts)))
    assert (wait_s > 0) == all(ranks == [0, 1, 2] for ranks in parts.values())
    check(told, parts)


def test_a_rank_that_dies_while_it_gets_the_state_does_not_stop_the_others():
    """Fault: the rank dies while it gets the state -> the others go on"""
    with start(3, whole=True) as running:
        for rank in range(3):
            assert running.until(rank, "step") == 0
        running.kill(1, signal.SIGKILL)
        with start(3, ranks=[1], dies=True, join={"coordinator": running.address}) as dying:
            assert dying.processes[0].wait(timeout=60) == 9
        with start(3, ranks=[1], whole=True, join={"coordinator": running.address}) as again:
            back = rest(again, 0)
            told = [*(rest(running, rank) for rank in (0, 2)), back]
    check(told, {0: [0, 1, 2], **told[0][0]})


def test_the_loss_of_rank_0_costs_no_step_and_it_is_let_in_again():
    """Fault: rank 0 is killed, and started again -> no step is lost, and it gets the state of the others"""
    with start(3, whole=True) as running:
        for rank in range(3):
            assert running.until(rank, "step") == 0
        running.kill(0, signal.SIGKILL)
        with start(3, ranks=[0], whole=True, join={"coordinator": running.address}) as again:
            back = rest(again, 0)
            told = [*(rest(running, rank) for rank in (1, 2)), back]
    parts = {0: [0, 1, 2], **told[0][0]}
    assert parts[max(parts)] == [0, 1, 2]
    assert sorted(parts) == list(range(len(parts)))
    check(told, parts)


def test_gradients_that_are_copied_are_averaged_and_tried_again():
    """Fault: a rank is killed while buckets are copied between memories -> the others lose no step"""
    with start(3, copies=True) as running:
        for rank in range(3):
            assert running.until(rank, "step") == 0
        running.kill(1, signal.SIGKILL)
        told = [rest(running, rank) for rank in (0, 2)]
    parts = {0: [0, 1, 2], **told[0][0]}
    assert parts[STEPS - 1] == [0, 2] and sorted(parts) == list(range(STEPS))
    check(told, parts)


def test_a_gpu_trains_with_the_same_gradients():
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use")
    with start(2, device="cuda") as running:
        for rank in range(2):
            assert running.until(rank, "step") == 0
        running.kill(0, signal.SIGKILL)
        told = [rest(running, 1)]
    check(told, {0: [0, 1], **told[0][0]})


def alone(net, **settings):
    """Begins a training of one rank."""
    ranks = Communicator.join(0, 1, "127.0.0.1:0", elastic=True)
    return syncline.torch.Elastic(ranks, net, torch.optim.SGD(net.parameters(), lr=1.0), **settings)


def test_gradients_accumulate_within_no_sync():
    net = torch.nn.Linear(2, 1, bias=False)
    training = alone(net)
    training.begin()
    with training.no_sync():
        net(torch.ones(1, 2)).sum().backward()
    net(torch.ones(1, 2)).sum().backward()
    training.average()
    assert net.weight.grad.tolist() == [[2.0, 2.0]]
    training.optimizer.step()
    training.begin()
    with pytest.raises(SynclineError, match="a second gradient before step"):
        for _ in range(2):
            net(torch.ones(1, 2)).sum().backward()
    training.ranks.close()


def test_parameters_without_gradient_get_zeros_and_frozen_ones_get_none():
    net = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
    net[2].requires_grad_(False)
    training = alone(net)
    assert training.begin() == 0
    net[0](torch.ones(1, 2)).sum().backward()
    training.optimizer.step()
    assert training.step == 1
    assert net[1].weight.grad.tolist() == [[0.0, 0.0]] * 2
    assert net[2].weight.grad is None
    training.close()
    net[0](torch.ones(1, 2)).sum().backward()
    training.ranks.close()


def test_calls_in_the_wrong_order_are_refused():
    net = torch.nn.Linear(2, 2)
    training = alone(net)

    def backward():
        net(torch.ones(1, 2)).sum().backward()

    for refused, words in (
        (backward, "no step has begun"),
        (training.optimizer.step, "no step has begun"),
        (training.begin, None),
        (training.begin, "a step has already begun"),
        (lambda: training.optimizer.step(backward), "gradients of a closure"),
        (backward, None),
        (training.begin, "gradients are being exchanged"),
        (lambda: net.weight.grad.mul_(0.5), None),
        (training.optimizer.step, "gradients were changed"),
    ):
        with pytest.raises(SynclineError, match=words) if words else nullcontext():
            refused()
    training.ranks.close()


def test_gradients_may_be_clipped_once_they_are_averaged():
    net = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        net.weight.zero_()
    training = alone(net)
    training.begin()
    net(torch.ones(1, 2)).sum().backward()
    training.average()
    net.weight.grad.mul_(0.5)
    training.optimizer.step()
    assert net.weight.tolist() == [[-0.5, -0.5]]
    training.ranks.close()


def test_invalid_arguments_are_refused():
    with pytest.raises(SynclineError, match="a bucket must have some bytes"):
        alone(torch.nn.Linear(2, 2), bucket_mb=0)
    with pytest.raises(SynclineError, match="cpu"):
        alone(torch.nn.Linear(2, 2, device="meta"))

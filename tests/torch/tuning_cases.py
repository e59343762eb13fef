"""Cases of jobs that change plans, tune them, and probe their network; each is a program for one rank."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist

import syncline.torch
from syncline import SynclineError
from syncline.runtime import Plans, Resources, Rule
from syncline.torch import Options
from syncline.tuning import Settings


def changed() -> None:
    """DDP trains while the plans of its group change; gradients remain the averages of all ranks."""
    dist.init_process_group("syncline")
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64, bias=False))
    ranks = syncline.torch.communicator()
    pair = dist.new_group([0, 1])
    if dist.get_rank() == 0:
        syncline.torch.communicator(pair).change_plans(Plans(rules=[Rule("all_reduce", "direct")]))
    for step in range(30):
        if dist.get_rank() == 1 and step == 5:
            ranks.change_plans(Plans(rules=[Rule("all_reduce", "halving_doubling")]))
        model.zero_grad()
        # The gradient of each weight is the sum of an input over the batch, which is the rank's number plus one.
        model(torch.full((2, 64), dist.get_rank() + 1.0)).sum().backward()
        mean = (dist.get_world_size() + 1) / 2
        assert torch.all(model.module.weight.grad == 2 * mean), step
        if dist.get_rank() < 2:
            value = torch.ones(1)
            dist.all_reduce(value, group=pair)
            assert value.item() == 2
    assert [change.proposer for change in ranks.plan_changes] == [1]
    dist.destroy_process_group()


def tuned() -> None:
    """The tuner makes trials beside training."""
    options = Options(
        autotune="on", tuning=Settings(window_s=0.1, operations=3, finetune=0), resources=Resources(shared_memory=False)
    )
    dist.init_process_group("syncline", pg_options=options)
    more = torch.ones(1)
    until = time.monotonic() + 60
    while more.item():
        for _ in range(5):
            value = torch.ones(50_000)
            dist.all_reduce(value)
            assert value[0] == value[-1] == dist.get_world_size()
        tuner = syncline.torch.tuner()
        more.fill_(not tuner.decisions and time.monotonic() < until)
        dist.broadcast(more, 0)
    if dist.get_rank() == 0:
        assert tuner.decisions and tuner.failed is None, tuner.failed
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        assert syncline.torch.tuner(pair) is None
    dist.destroy_process_group()


def refused() -> None:
    """Options that contradict each other, and names that nobody offers, are refused before ranks join."""
    for options in (
        Options(in_order=True, autotune="on"),
        Options(in_order=True, groups="probe"),
        Options(groups="prob"),
    ):
        try:
            dist.init_process_group("syncline", pg_options=options)
        except (SynclineError, RuntimeError) as error:
            sys.stdout.write(str(error).splitlines()[0] + "\n")
            continue
        raise AssertionError(options)


if __name__ == "__main__":
    globals()[sys.argv[1]]()

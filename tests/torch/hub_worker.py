"""One rank that trains on hubs, with ``HubOptimizer`` or with DDP and its hook, for tests that kill or restart ranks.

It prints lines of JSON: one with ``step`` after each step, and a last one with the outcome.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import syncline.torch
from syncline.errors import SynclineError
from syncline.hub import Hub, Sgd

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.options import of_worker


def say(**what: object) -> None:
    """Prints a line of JSON."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def network() -> torch.nn.Module:
    """Returns a small network whose parameters need several buckets."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 40), torch.nn.Linear(40, 3))


def main() -> None:
    """Trains until all steps are done, or an error occurs."""
    settings = json.loads(sys.argv[1])
    way, steps, pause = settings.pop("way"), settings.pop("steps"), settings.pop("pause", 0.0)
    hubs = settings.pop("hubs")
    rank = int(os.environ["RANK"])
    trained = network()
    before = [param.detach().clone() for param in trained.parameters()]
    status, error, contributors, done = 0, None, [], 0
    try:
        if way == "optimizer":
            optimizer = syncline.torch.HubOptimizer(
                trained.parameters(), Sgd(lr=0.05, momentum=0.5), hubs, bucket_mb=0.004, **of_worker(**settings)
            )
            done = optimizer.steps
        else:
            host, _, port = os.environ["MASTER_ADDR"].partition(":")
            os.environ.update(MASTER_ADDR=host, MASTER_PORT=port)
            dist.init_process_group("gloo", timeout=timedelta(seconds=30))
            hub = Hub.join(hubs, syncline.torch.vectors(trained), **of_worker(**settings))
            wrapped = torch.nn.parallel.DistributedDataParallel(trained, bucket_cap_mb=0.004)
            wrapped.register_comm_hook(None, syncline.torch.hook(hub, wrapped))
            trained, optimizer = wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.05, momentum=0.5)
        say(joined=done)
        for step in range(done, steps):
            drawn = torch.Generator().manual_seed(1000 * rank + step)
            optimizer.zero_grad()
            trained(torch.randn(5, 6, generator=drawn)).square().mean().backward()
            before = [param.detach().clone() for param in trained.parameters()]
            optimizer.step()
            contributors.append(getattr(optimizer, "contributors", 0))
            say(step=step, contributors=contributors[-1])
            time.sleep(pause)
    except (SynclineError, RuntimeError) as raised:
        status, error = 6, str(raised)
    at = time.time()
    now = [param.detach() for param in trained.parameters()]
    intact = all(torch.equal(one, other) for one, other in zip(now, before, strict=True))
    last = [value.hex() for param in now for value in param.flatten().tolist()]
    say(status=status, error=error, at=at, intact=intact, last=last, contributors=sorted(set(contributors)))
    # Exit without waiting for a process group that may have lost a rank.
    sys.stdout.flush()
    if way == "optimizer" and error is None:
        optimizer.close()
    os._exit(status)


main()

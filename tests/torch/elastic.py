"""One rank of an elastic training. It prints lines of JSON with each step that counted, and the ranks that took part.

Usage: elastic.py SETTINGS, with ``steps``, ``wait_s``, ``whole`` (does not end before lost ranks are back),
``dies`` (exits while it gets the state of the others), ``store`` (ranks meet as under torchrun), ``saves`` (a file in
which the state is saved and looked for), ``dies_at`` (exits at that step, unless it was started again), ``redis`` (a
server through which ranks meet, with their numbers in JOB_RANK and JOB_WORLD), ``copies`` (treats memory as if it were
on another device), ``device``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import syncline.torch
from syncline.errors import SynclineError
from syncline.runtime import Communicator, Meeting, RedisRendezvous
from syncline.torch import device

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.options import of_rank


def network() -> torch.nn.Module:
    """Returns the model. Each rank begins with different parameters, which are replaced."""
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))


def loss(net: torch.nn.Module, step: int, rank: int, where: str = "cpu") -> torch.Tensor:
    """Returns the loss on a rank's data for a step."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    inputs, targets = torch.randn(8, 16, generator=draw), torch.randn(8, 4, generator=draw)
    return torch.nn.functional.mse_loss(net(inputs.to(where)), targets.to(where))


def optimizer(net: torch.nn.Module) -> torch.optim.Optimizer:
    """Returns an optimizer with state, which restarted ranks must receive."""
    return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)


def say(**what: Any) -> None:
    """Prints a line of JSON for the test."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def join(rank: int, settings: dict[str, Any]) -> Communicator:
    """Joins the job in the way that the settings ask for."""
    if settings.get("store"):
        return syncline.torch.join(elastic=True)
    if "redis" in settings:
        meeting = Meeting(rendezvous=RedisRendezvous(settings["redis"], "training"))
        return Communicator.join(rank, int(os.environ["JOB_WORLD"]), elastic=True, meeting=meeting)
    return Communicator.join(elastic=True, **of_rank(**settings.get("join", {})))


def main() -> None:
    """Trains for the number of steps in the settings."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    rank = int(os.environ.get("JOB_RANK", os.environ["RANK"]))
    torch.manual_seed(rank)
    if settings.get("copies"):
        device.in_place = lambda _: False
    where = settings.get("device", "cpu")
    net = network().to(where)
    descent = optimizer(net)
    ranks = join(rank, settings)
    training = syncline.torch.Elastic(ranks, net, descent, wait_s=settings.get("wait_s", 0.0), bucket_mb=0.001)
    if settings.get("dies"):
        # Exit while the others send the state.
        training._give = lambda _: os._exit(9)
    saves = Path(settings["saves"]) if "saves" in settings else None
    if saves is not None and saves.exists():
        training.load_state_dict(torch.load(saves))
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    dies_at = -1 if again else settings.get("dies_at", {}).get(str(rank), -1)
    least = int(os.environ.get("JOB_WORLD", os.environ["WORLD_SIZE"])) if settings.get("whole") else 1
    # Number of ranks that took part in the last step.
    parts = 0
    try:
        while (step := training.begin()) < settings["steps"] or parts < least:
            descent.zero_grad()
            loss(net, step, rank, where).backward()
            if step == dies_at:
                os._exit(9)
            descent.step()
            if saves is not None and ranks.rank == 0:
                torch.save(training.state_dict(), saves.with_suffix(".new"))
                saves.with_suffix(".new").replace(saves)
            parts = ranks.world
            say(step=step, ranks=ranks.ranks)
            time.sleep(settings.get("pause_s", 0.0))
    except SynclineError as error:
        say(error=error.diagnostics[0])
        return
    say(done=[value for each in net.parameters() for value in each.cpu().flatten().tolist()])


if __name__ == "__main__":
    main()

"""One host's process in a training job of an application, under many orders of ranks, by its unchanged software.

Usage: applications.py APPLICATION STEPS ORDERS. ``APPLICATION`` is ``pytorch`` (DDP on Gloo) or ``lightgbm`` (its own
sockets), and ``ORDERS`` lists orders of hosts, as ``3,1,2,0;0,1,2,3``. The first host prints a list in JSON: the median
seconds of a step without communication, with all hosts busy at the same time, then those in each order. Needs the
packages torch and numpy, or lightgbm and its own requirements.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Timed = Callable[[list[int] | None, int], list[float]]
    """Trains some steps with the hosts in an order, or each host alone; returns the seconds of each step."""

WARM_UP = 2
# PyTorch
LAYERS = {"convolutions": (64, 256), "fc6": (256, 1024), "fc7": (1024, 216), "fc8": (216, 125)}
"""Sizes of matrices with 2 MiB of parameters in all, of which the last three have 94 %, as in AlexNet (96 %)."""
PAUSE_S = 0.0165
"""Time of a GPU in a step."""
BATCH = 8
# LightGBM
ROWS, FEATURES, BINS, LEAVES, GROUP = 400, 500, 63, 31, 20
"""Rows on each host, features, bins of a feature, leaves of a tree, rows of a query."""
FIRST_PORT = 20_000


def pytorch() -> Timed:
    """A network with AlexNet's proportions; a pause stands for the GPU, a third of it in the forward pass."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    host, hosts = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), hosts, host == 0, timedelta(minutes=2)
    )

    class Pause(torch.autograd.Function):  # type: ignore[misc,unused-ignore] # PyTorch may have no types here
        """Passes values on, after the time of a GPU in the pass."""

        @staticmethod
        def forward(_: Any, values: torch.Tensor) -> torch.Tensor:
            time.sleep(PAUSE_S / 3)
            return values.clone()

        @staticmethod
        def backward(_: Any, *gradients: torch.Tensor) -> Any:
            time.sleep(2 * PAUSE_S / 3)
            return gradients[0]

    class Network(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleDict(
                {name: torch.nn.Linear(*sizes, bias=False) for name, sizes in LAYERS.items()}
            )

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            for layer in self.layers.values():
                values = torch.relu(layer(values))
            # At the end, so that the whole backward pass comes before any gradient: nothing overlaps.
            return Pause.apply(values)

    def train(order: list[int] | None, steps: int) -> list[float]:
        torch.manual_seed(0)
        number = next(numbers)
        rank = host if order is None else order.index(host)
        dist.init_process_group("gloo", store=dist.PrefixStore(str(number), store), rank=rank, world_size=hosts)
        network = torch.nn.parallel.DistributedDataParallel(Network())
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        sizes = [*LAYERS.values()]
        inputs, targets = torch.randn(BATCH, sizes[0][0]), torch.randn(BATCH, sizes[-1][1])
        seconds = []
        for _ in range(steps):
            if order is None:
                dist.barrier()
            began = time.perf_counter()
            with network.no_sync() if order is None else nullcontext():
                torch.nn.functional.mse_loss(network(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
            seconds.append(time.perf_counter() - began)
        dist.barrier()
        dist.destroy_process_group()
        return seconds

    numbers = iter(range(sys.maxsize))
    return train


def lightgbm() -> Timed:
    """A ranking by boosted trees. In a step, all hosts grow a tree together: they sum the histograms of each leaf."""
    import lightgbm
    import numpy as np

    host = int(os.environ["RANK"])
    peers = os.environ["SYNCLINE_PEERS"].split(",")
    random = np.random.default_rng(host)
    rows = random.random((ROWS, FEATURES))
    labels = np.digitize(rows[:, :5].sum(axis=1) + random.random(ROWS), [2.5, 3, 3.5])

    def train(order: list[int] | None, steps: int) -> list[float]:
        port = FIRST_PORT + next(numbers) * len(peers) + host
        settings: dict[str, Any] = {
            "objective": "lambdarank",
            "num_leaves": LEAVES,
            "max_bin": BINS,
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 0,
            "num_threads": 1,
            "force_col_wise": True,
            "verbosity": -1,
        }
        if order is not None:
            first = port - host
            settings |= {
                "tree_learner": "data",
                "pre_partition": True,
                "num_machines": len(peers),
                "local_listen_port": port,
                # A machine's rank is its place in the list.
                "machines": ",".join(f"{peers[each]}:{first + each}" for each in order),
            }
        ends: list[float] = []
        data = lightgbm.Dataset(rows, labels, group=[GROUP] * (ROWS // GROUP))
        callback = [lambda _: ends.append(time.perf_counter())]
        lightgbm.train(settings, data, num_boost_round=steps + 1, callbacks=callback)
        return [after - before for before, after in itertools.pairwise(ends)]

    numbers = iter(range(sys.maxsize))
    return train


def main(application: str, steps: int, orders: list[list[int]]) -> None:
    """Times the steps without communication, then those in each order."""
    # LightGBM logs to stdout, which is for the result.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    train = pytorch() if application == "pytorch" else lightgbm()
    medians = [statistics.median(train(order, WARM_UP + steps)[WARM_UP:]) for order in (None, *orders)]
    if int(os.environ["RANK"]) == 0:
        results.write(json.dumps(medians) + "\n")
        results.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [[*map(int, each.split(","))] for each in sys.argv[3].split(";")])

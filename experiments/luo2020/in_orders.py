"""One host's process in all-reduces under many orders of ranks, by Gloo or by the executor, without starting anew.

Usage: in_orders.py LIBRARY PLAN BYTES ORDERS. ``LIBRARY`` is gloo or syncline, ``PLAN`` the executor's plan, and
``ORDERS`` lists orders of hosts, as ``3,1,2,0;0,1,2,3``. The first host prints the median seconds of each order as a
list in JSON. Gloo needs PyTorch alone.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Joined = Callable[[int, list[int]], AbstractContextManager[Callable[[], object]]]

WARM_UP, REPEATS = 1, 3


def gloo(nbytes: int) -> Joined:
    """All-reduces of Gloo; each order has a process group of its own, which meets in a store of its own."""
    from contextlib import contextmanager
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    host, hosts = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(*at, hosts, host == 0, timedelta(minutes=2))
    vector = torch.ones(nbytes // 4)

    @contextmanager
    def joined(number: int, order: list[int]) -> Iterator[Callable[[], object]]:
        rank = order.index(host)
        dist.init_process_group("gloo", store=dist.PrefixStore(str(number), store), rank=rank, world_size=hosts)
        yield lambda: dist.all_reduce(vector)
        dist.barrier()
        dist.destroy_process_group()

    return joined


def executor(plan: str, nbytes: int) -> Joined:
    """All-reduces of the executor; each order is a group of the job, over the same connections."""
    from contextlib import contextmanager

    from syncline.runtime import Communicator, Plans, Resources, Rule, Security, TimeLimits

    vector = array("f", [1.0]) * (nbytes // 4)
    ranks = Communicator.join(
        security=Security(insecure=True),
        resources=Resources(congestion="cubic"),
        limits=TimeLimits(interval_s=1.0, silence_s=20.0),  # many ranks share the machine's cores
    )

    @contextmanager
    def joined(number: int, order: list[int]) -> Iterator[Callable[[], object]]:
        plans = Plans(rules=[Rule("all_reduce", plan)], order=order)
        with ranks.group(range(ranks.world), f"order {number}", plans=plans) as group:
            yield lambda: group.all_reduce(vector).wait()
            group.barrier().wait()

    return joined


def main(library: str, plan: str, nbytes: int, orders: list[list[int]]) -> None:
    """Times all orders."""
    joined = gloo(nbytes) if library == "gloo" else executor(plan, nbytes)
    host = int(os.environ["RANK"])
    medians = []
    for number, order in enumerate(orders):
        with joined(number, order) as exchange:
            seconds = []
            for step in range(WARM_UP + REPEATS):
                began = time.perf_counter()
                exchange()
                seconds += [time.perf_counter() - began] if step >= WARM_UP else []
            medians.append(statistics.median(seconds))
    if host == 0:
        sys.stdout.write(json.dumps(medians) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), [[*map(int, each.split(","))] for each in sys.argv[4].split(";")])

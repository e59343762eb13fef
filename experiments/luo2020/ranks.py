"""One rank of what Figures 6.5 to 6.12 run, on a host of a testbed. Rank 0 of those that exchange prints the seconds.

``ranks.py ARM BYTES STEPS [KEY=VALUE ...]``. Ranks compute nothing: they exchange a vector of f32 and wait, again and
again (the ``ZeroComputeEngine`` of luo2020, 6.1.4). Arms:

- ``hub``: the first ``hubs`` ranks serve with ``cores`` cores, and the others are the workers of ``jobs`` jobs, each
with as many;
- ``sharded``: every rank serves, too, each with its part of the vectors (PShard);
- ``racks``: the first ``racks`` ranks are hubs, one a rack, and exchange what they have summed;
- ``plan``: the executor, with the plan ``plan`` in messages of ``message`` bytes;
- ``gloo``: PyTorch's.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP = 3
"""Exchanges that are not timed: connections are open then, and their windows, too."""
CONTROL = "cubic"
CHUNK = 32 << 10
FIRST_PORT = 29_420


def timed(exchange: Callable[[], object], steps: int) -> list[float]:
    """Seconds of each exchange."""
    times = []
    for step in range(WARM_UP + steps):
        began = time.perf_counter()
        exchange()
        times += [time.perf_counter() - began] if step >= WARM_UP else []
    return times


def serve(addresses: list[str], cores: int, jobs: int = 1) -> None:
    """A hub, until its jobs are over."""
    from syncline.hub import Service

    with Service(addresses, cores=cores, insecure=True, congestion=CONTROL) as service:
        ended = 0
        while ended < jobs:
            time.sleep(0.02)
            ended += sum(each["event"] == "job_ends" for each in service.events())


def work(hubs: Any, nbytes: int, steps: int, rank: int, world: int, **options: Any) -> list[float]:
    """A worker of a job on hubs."""
    from syncline.hub import Hub

    vector = array("f", bytes(nbytes // 4 * 4))
    settings = {"rank": rank, "world": world, "insecure": True, "congestion": CONTROL, **options}
    with Hub.join(hubs, {"vector": vector}, **settings) as job:
        return timed(lambda: job.push_pull("vector", vector).wait(), steps)


def hub(nbytes: int, steps: int, given: dict[str, str]) -> list[float] | None:
    """Hubs on hosts of their own (NCC, NCS), and the workers of one job or several."""
    peers, rank = os.environ["SYNCLINE_PEERS"].split(","), int(os.environ["RANK"])
    hubs, jobs = int(given.get("hubs", 1)), int(given.get("jobs", 1))
    if rank < hubs:
        # A testbed has one way between hosts: several interfaces are ports of one.
        ports = [f"{peers[rank]}:{FIRST_PORT + at}" for at in range(int(given.get("interfaces", 1)))]
        serve(ports, int(given.get("cores", 2)), jobs)
        return None
    world = (len(peers) - hubs) // jobs
    job, place = divmod(rank - hubs, world)
    options: dict[str, Any] = {"job": f"job-{job}", "chunk": int(given.get("chunk", CHUNK))}
    if "mapping" in given:
        options["mapping"] = given["mapping"]
    return work(peers[:hubs], nbytes, steps, place, world, **options)


def sharded(nbytes: int, steps: int, given: dict[str, str]) -> list[float]:
    """A hub and a worker on every host (CS)."""
    from syncline.hub import Service

    peers, rank = os.environ["SYNCLINE_PEERS"].split(","), int(os.environ["RANK"])
    with Service([peers[rank]], cores=1, insecure=True, congestion=CONTROL) as service:
        times = work(peers, nbytes, steps, rank, len(peers), chunk=int(given.get("chunk", CHUNK)))
        # Other ranks may yet wait for this hub's part of their last exchange.
        while service.status()["jobs"]:
            time.sleep(0.05)
        return times


def racks(nbytes: int, steps: int, given: dict[str, str]) -> list[float] | None:
    """A hub in each rack, and its workers: hubs are the first ranks, and workers follow rack by rack."""
    from syncline.hub import Racks

    peers, rank = os.environ["SYNCLINE_PEERS"].split(","), int(os.environ["RANK"])
    count = int(given["racks"])
    if rank < count:
        serve([peers[rank]], int(given.get("cores", 1)))
        return None
    world = len(peers) - count
    of = [worker * count // world for worker in range(world)]
    places = Racks(of, [[address] for address in peers[:count]], given.get("between", "sharded"))
    return work(None, nbytes, steps, rank - count, world, racks=places, chunk=int(given.get("chunk", CHUNK)))


def plan(nbytes: int, steps: int, given: dict[str, str]) -> list[float]:
    """A plan of the library, on the executor."""
    from syncline.runtime import Communicator, Pace, Rule

    rules = [Rule("all_reduce", given["plan"], message=int(given["message"]))]
    vector = array("f", bytes(nbytes // 4 * 4))
    pace = Pace(lanes=int(given.get("lanes", 1)))
    with Communicator.join(rules=rules, insecure=True, congestion=CONTROL, pace=pace) as ranks:
        return timed(lambda: ranks.all_reduce(vector).wait(), steps)


def gloo(nbytes: int, steps: int, _: dict[str, str]) -> list[float]:
    """Gloo, as PyTorch has it."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    vector = torch.zeros(nbytes // 4)
    times = timed(lambda: dist.all_reduce(vector), steps)
    dist.destroy_process_group()
    return times


ARMS: dict[str, Callable[[int, int, dict[str, str]], list[float] | None]] = {
    each.__name__: each for each in (hub, sharded, racks, plan, gloo)
}


def main(arm: str, nbytes: str, steps: str, *options: str) -> None:
    """Runs a rank; the first that exchanges tells."""
    given = dict(each.split("=", 1) for each in options)
    times = ARMS[arm](int(nbytes), int(steps), given)
    first = int(given.get("hubs", 1)) if arm == "hub" else int(given.get("racks", 0))
    if times is not None and int(os.environ["RANK"]) == first:
        sys.stdout.write(json.dumps(times) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

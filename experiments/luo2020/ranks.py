"""Program of one rank in Figures 6.5 to 6.12, on a host of a testbed. The first exchanging rank prints the times.

``ranks.py ARM BYTES STEPS [KEY=VALUE ...]``. Ranks compute nothing: they repeatedly exchange a vector of f32 and wait
(the ``ZeroComputeEngine`` of luo2020, 6.1.4). Arms:

- ``hub``: the first ``hubs`` ranks are hubs with ``cores`` cores; the others are divided evenly among ``jobs`` jobs as
their workers;
- ``sharded``: every rank is a worker, and a hub for its part of the vector (PShard);
- ``racks``: the first ``racks`` ranks are hubs, one per rack, which exchange their sums;
- ``plan``: the executor, with the plan ``plan`` in messages of ``message`` bytes;
- ``gloo``: PyTorch's Gloo.
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
"""Untimed exchanges at the beginning, which open the connections and their windows."""
CONTROL = "cubic"
CHUNK = 32 << 10
FIRST_PORT = 29_420


def timed(exchange: Callable[[], object], steps: int) -> list[float]:
    """Runs ``exchange`` repeatedly; returns the seconds of each one after the warm-up."""
    times = []
    for step in range(WARM_UP + steps):
        began = time.perf_counter()
        exchange()
        times += [time.perf_counter() - began] if step >= WARM_UP else []
    return times


def serve(addresses: list[str], cores: int, jobs: int = 1) -> None:
    """Runs a hub until ``jobs`` jobs have ended."""
    from syncline.hub import HubResources, Service
    from syncline.runtime import Security

    with Service(
        addresses, resources=HubResources(cores=cores, congestion=CONTROL), security=Security(insecure=True)
    ) as service:
        ended = 0
        while ended < jobs:
            time.sleep(0.02)
            ended += sum(each["event"] == "job_ended" for each in service.events())


def work(
    hubs: Any, nbytes: int, steps: int, rank: int, world: int, given: dict[str, str], job: str = "job"
) -> list[float]:
    """Runs a worker of a job on hubs."""
    from syncline.hub import Hub, Terms
    from syncline.runtime import Security

    vector = array("f", bytes(nbytes // 4 * 4))
    # The hub checks the word.
    mapping: Any = given.get("mapping", Terms.mapping)
    joined = Hub.join(
        hubs,
        {"vector": vector},
        rank=rank,
        world=world,
        job=job,
        terms=Terms(chunk=int(given.get("chunk", CHUNK)), mapping=mapping),
        security=Security(insecure=True),
        congestion=CONTROL,
    )
    with joined as worker:
        return timed(lambda: worker.push_pull("vector", vector).wait(), steps)


def hub(nbytes: int, steps: int, given: dict[str, str]) -> list[float] | None:
    """Hubs on hosts without workers (NCC, NCS), and the workers of one or several jobs."""
    peers, rank = os.environ["SYNCLINE_PEERS"].split(","), int(os.environ["RANK"])
    hubs, jobs = int(given.get("hubs", 1)), int(given.get("jobs", 1))
    if rank < hubs:
        # A testbed has one path between two hosts, so several interfaces are ports of one interface.
        ports = [f"{peers[rank]}:{FIRST_PORT + at}" for at in range(int(given.get("interfaces", 1)))]
        serve(ports, int(given.get("cores", 2)), jobs)
        return None
    world = (len(peers) - hubs) // jobs
    job, place = divmod(rank - hubs, world)
    return work(peers[:hubs], nbytes, steps, place, world, given, f"job-{job}")


def sharded(nbytes: int, steps: int, given: dict[str, str]) -> list[float]:
    """A hub and a worker on every host (CS)."""
    from syncline.hub import HubResources, Service
    from syncline.runtime import Security

    peers, rank = os.environ["SYNCLINE_PEERS"].split(","), int(os.environ["RANK"])
    with Service(
        [peers[rank]], resources=HubResources(cores=1, congestion=CONTROL), security=Security(insecure=True)
    ) as service:
        times = work(peers, nbytes, steps, rank, len(peers), given)
        # Other ranks may still wait for this hub's part of their last exchange.
        while service.status()["jobs"]:
            time.sleep(0.05)
        return times


def racks(nbytes: int, steps: int, given: dict[str, str]) -> list[float] | None:
    """A hub in each rack, and the rack's workers: hubs are the first ranks, and workers follow rack by rack."""
    from syncline.hub import Racks

    peers, rank = os.environ["SYNCLINE_PEERS"].split(","), int(os.environ["RANK"])
    count = int(given["racks"])
    if rank < count:
        serve([peers[rank]], int(given.get("cores", 1)))
        return None
    world = len(peers) - count
    of = [worker * count // world for worker in range(world)]
    between: Any = given.get("between", Racks.between)
    places = Racks(of, [[address] for address in peers[:count]], between)
    return work(places, nbytes, steps, rank - count, world, given)


def plan(nbytes: int, steps: int, given: dict[str, str]) -> list[float]:
    """The executor with a plan of the library."""
    from syncline.runtime import Communicator, Plans, Resources, Rule, Security

    rules = [Rule("all_reduce", given["plan"], message=int(given["message"]))]
    vector = array("f", bytes(nbytes // 4 * 4))
    with Communicator.join(
        plans=Plans(rules=rules),
        security=Security(insecure=True),
        resources=Resources(lanes=int(given.get("lanes", 1)), congestion=CONTROL),
    ) as ranks:
        return timed(lambda: ranks.all_reduce(vector).wait(), steps)


def gloo(nbytes: int, steps: int, _: dict[str, str]) -> list[float]:
    """Gloo, as shipped with PyTorch."""
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
    """Runs a rank; the first exchanging rank prints its times."""
    given = dict(each.split("=", 1) for each in options)
    times = ARMS[arm](int(nbytes), int(steps), given)
    first = int(given.get("hubs", 1)) if arm == "hub" else int(given.get("racks", 0))
    if times is not None and int(os.environ["RANK"]) == first:
        sys.stdout.write(json.dumps(times) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

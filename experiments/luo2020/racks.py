"""Plans for the simulator in which each rack has a hub.

The first ranks are the hubs, one per rack; workers follow rack by rack. A vector has one block per rack, owned by the
rack's hub. Blocks are independent of each other, like the chunks of :mod:`syncline.hub`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline import plans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from syncline.plans import Instruction

WAYS = ("flat", "sharded", "ring")
"""How hubs share the work. ``flat``: each hub serves all workers with its part of the vector. Otherwise each hub sums
for its own rack, then hubs exchange their sums: each hub for its part (``sharded``), or around a ring (``ring``)."""


def members(racks: int, ranks: int) -> list[list[int]]:
    """The workers of each rack."""
    workers = range(racks, ranks)
    return [[each for each in workers if (each - racks) * racks // len(workers) == rack] for rack in range(racks)]


def program(way: str, racks: int) -> Callable[[int, int], list[list[Instruction]]]:
    """A function that returns a rank's instructions, one stream per block."""

    def of(rank: int, ranks: int) -> list[list[Instruction]]:
        placed = members(racks, ranks)
        if rank >= racks:
            rack = next(number for number, each in enumerate(placed) if rank in each)
            return [list(_worker(block if way == "flat" else rack, block)) for block in range(racks)]
        if way == "flat":
            everybody = [other for other in range(ranks) if other != rank]
            return [list(_served(rank, everybody, block)) for block in range(racks)]
        exchange = _sharded if way == "sharded" else _round
        return [
            [*_gather(placed[rank], block), *exchange(rank, block, racks), *_give(placed[rank], block)]
            for block in range(racks)
        ]

    return of


def _worker(hub: int, block: int) -> Iterator[Instruction]:
    yield plans.send(hub, block)
    yield plans.receive(hub, block)
    yield plans.wait()


def _served(rank: int, others: Sequence[int], block: int) -> Iterator[Instruction]:
    """A hub's instructions if each hub serves all workers: for blocks of other hubs it acts as a worker."""
    if block != rank:
        yield from _worker(block, block)
    else:
        yield from _gather(others, block)
        yield from _give(others, block)


def _gather(workers: Sequence[int], block: int) -> Iterator[Instruction]:
    for each in workers:
        yield plans.receive(each, block, reduce=True)
    yield plans.wait()


def _give(workers: Sequence[int], block: int) -> Iterator[Instruction]:
    for each in workers:
        yield plans.send(each, block)


def _sharded(rank: int, block: int, racks: int) -> Iterator[Instruction]:
    """The block's owner sums the other hubs' blocks and sends them the result."""
    if rank != block:
        yield from _worker(block, block)
        return
    others = [other for other in range(racks) if other != rank]
    yield from _gather(others, block)
    yield from _give(others, block)


def _round(rank: int, block: int, racks: int) -> Iterator[Instruction]:
    """The block goes around the ring of hubs once to be summed, beginning after its owner, and again as the result."""
    before, behind = (rank - 1) % racks, (rank + 1) % racks
    if racks == 1:
        return
    if before != block:
        yield plans.receive(before, block, reduce=True)
        yield plans.wait()
    if rank != block:
        yield plans.send(behind, block)
        yield plans.receive(before, block)
        yield plans.wait()
    if behind != block:
        yield plans.send(behind, block)


def plan(folder: Path, way: str, racks: int, ranks: int) -> str:
    """The path of a proved plan in a folder; writes the plan if it is not there yet."""
    name = f"hubs-{way}-{racks}-{ranks}"
    path = (folder / f"{name}.json").resolve()
    if not path.is_file():
        made: Any = plans.plan(name, "all_reduce", ranks, program(way, racks), blocks=racks)
        folder.mkdir(parents=True, exist_ok=True)
        made.save(path)
    return str(path)

"""All-reduces in which each block of the vector has its own masters (luo2020 4.2.2).

In each group, such as a rack, one rank is the block's *local master*: it sums what the ranks of its group contribute.
One of the local masters is the block's *global master*: it sums what the local masters have, and sends the result back
to them, from where it goes to the ranks of each group. Blocks with different masters share the work among all ranks, as
unevenly as the assignment says. With one group, this is an all-reduce by sharded parameter servers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from syncline.input.problem import bad_value
from syncline.plans import Plan, plan, receive, send, wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.plans import Instruction

Groups = tuple[tuple[int, ...], ...]
"""The ranks of each group. Every rank is in one."""

MAX_INSTRUCTIONS = 6_000
"""Most instructions of a plan. All ranks prove it while the job runs, which takes half a second for as many."""


@dataclass(frozen=True)
class Assignment:
    """The masters of each block."""

    groups: Groups
    local_masters: tuple[tuple[int, ...], ...]
    """For each block, the local master of each group."""
    global_masters: tuple[int, ...]
    """For each block, its global master, which is one of its local masters."""
    _group: dict[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the assignment."""
        for number, ranks in enumerate(self.groups):
            self._group.update(dict.fromkeys(ranks, number))
        count = sum(map(len, self.groups))
        if sorted(self._group) != list(range(count)):
            raise bad_value("the groups do not have each rank once", str(self.groups), allowed="each rank from 0 once")
        for local, top in zip(self.local_masters, self.global_masters, strict=True):
            wrong = len(local) != len(self.groups) or any(
                self._group.get(rank) != number for number, rank in enumerate(local)
            )
            if wrong or top not in local:
                found = f"local masters {local}, global master {top}"
                raise bad_value("the masters of a block do not fit the groups", found, allowed="one rank of each group")

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self.global_masters)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self._group)

    def group(self, rank: int) -> int:
        """The group of a rank."""
        return self._group[rank]

    @cached_property
    def sent(self) -> tuple[float, ...]:
        """What each rank sends in one all-reduce, in vectors. It receives as much.

        A rank sends each block to its local master and gets it back. A local master sends a result to the others of its
        group, and to the global master what its group has. A global master sends results to the other local masters.
        """
        blocks = [0] * self.ranks
        for local, top in zip(self.local_masters, self.global_masters, strict=True):
            for number, members in enumerate(self.groups):
                master = local[number]
                for rank in members:
                    blocks[rank] += len(members) - 1 if rank == master else 1
                if master != top:
                    blocks[master] += 1
            blocks[top] += len(self.groups) - 1
        return tuple(count / self.blocks for count in blocks)

    def mastered(self, rank: int) -> tuple[list[int], list[int]]:
        """The blocks of which a rank is the global master, and those of which it is only a local master."""
        top = [block for block, master in enumerate(self.global_masters) if master == rank]
        local = [
            block
            for block, masters in enumerate(self.local_masters)
            if rank in masters and self.global_masters[block] != rank
        ]
        return top, local

    def moved(self, block: int, source: int, target: int) -> Assignment | None:
        """Moves the mastery of a block from one rank to another; ``None`` if the rank cannot take it over.

        Within a group, the target takes over the local mastery, and with it a global one. Between groups, only a global
        mastery can move; it goes to the target if that is the block's local master, or becomes it.
        """
        local, top = list(self.local_masters[block]), self.global_masters[block]
        if source not in local:
            return None
        here, there = self.group(source), self.group(target)
        if here == there:
            local[here] = target
            top = target if top == source else top
        elif top == source:
            local[there] = top = target
        else:
            return None
        every, tops = list(self.local_masters), list(self.global_masters)
        every[block], tops[block] = tuple(local), top
        return Assignment(self.groups, tuple(every), tuple(tops))

    def plan(self) -> Plan:
        """The all-reduce, proved."""

        def program(rank: int, _: int) -> Iterator[list[Instruction]]:
            own = self.group(rank)
            for block, (local, top) in enumerate(zip(self.local_masters, self.global_masters, strict=True)):
                master = local[own]
                others = [other for other in self.groups[own] if other != rank]
                if rank != master:
                    yield [send(master, block), receive(master, block), wait()]
                    continue
                sums = [receive(other, block, reduce=True) for other in others]
                results = [send(other, block) for other in others]
                if rank == top:
                    masters = [each for each in local if each != rank]
                    sums += [receive(each, block, reduce=True) for each in masters]
                    results = [send(each, block) for each in masters] + results
                    yield [*sums, wait(), *results]
                else:
                    yield [*sums, wait(), send(top, block), receive(top, block), wait(), *results]

        return plan("masters", "all_reduce", self.ranks, program, blocks=self.blocks)


def even_groups(ranks: int) -> Groups:
    """All ranks in one group."""
    return (tuple(range(ranks)),)


def default_blocks(groups: Groups, per_rank: int = 4) -> int:
    """The number of blocks that lets masters be moved in steps of a fraction of a rank's share.

    Raises ``SynclineError`` if even one block for each rank makes a plan that is too large.
    """
    ranks = sum(map(len, groups))
    each = 4 * ranks + 6 * len(groups)
    most = MAX_INSTRUCTIONS // each
    if most < ranks:
        raise bad_value(
            "there are too many ranks for masters by block", f"{ranks} ranks", allowed=f"at most {_most_ranks()} ranks"
        )
    return min(per_rank * ranks, most)


def _most_ranks() -> int:
    ranks = 1
    while (ranks + 1) * (4 * (ranks + 1) + 6) <= MAX_INSTRUCTIONS:
        ranks += 1
    return ranks


def groups_of(racks: Sequence[int]) -> Groups:
    """Groups from the rack of each rank."""
    return tuple(tuple(rank for rank, rack in enumerate(racks) if rack == each) for each in sorted(set(racks)))

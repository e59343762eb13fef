"""Assigns masters in one step from measured rates (luo2020 4.2.3, *Quicktune*).

The paper minimises the longest time that a rank needs for the blocks of which it is a master, and approximates that by
shares proportional to rates. Here a rank's time also has what it sends as a member, and blocks are assigned one by one
to the masters with which the longest time grows least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.input.problem import bad_value
from syncline.tuning.masters import Assignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.tuning.masters import Groups


def times(assignment: Assignment, rates: Sequence[float]) -> list[float]:
    """How long each rank sends in one all-reduce, in vectors over the unit of ``rates``."""
    return [sent / rate for sent, rate in zip(assignment.sent, rates, strict=True)]


def proportional(groups: Groups, rates: Sequence[float], blocks: int) -> Assignment:
    """The paper's approximation: shares of global masters by the rates of groups, of local masters by those of ranks.

    Raises ``SynclineError`` if a rate is not above 0.
    """
    _check(rates)
    totals = [sum(rates[rank] for rank in ranks) for ranks in groups]
    tops = _shares(totals, blocks)
    local = [_shares([rates[rank] for rank in ranks], blocks) for ranks in groups]
    chosen = tuple(tuple(ranks[local[number][block]] for number, ranks in enumerate(groups)) for block in range(blocks))
    return Assignment(groups, chosen, tuple(chosen[block][tops[block]] for block in range(blocks)))


def quicktune(groups: Groups, rates: Sequence[float], blocks: int) -> Assignment:
    """Assigns masters so that the longest time of a rank is short: see the module.

    ``rates`` are of ranks, in any unit. Raises ``SynclineError`` if one is not above 0.
    """
    _check(rates)
    # What a rank sends if it is the master of nothing: each block once.
    load = [float(blocks)] * len(rates)
    local: list[tuple[int, ...]] = []
    tops: list[int] = []
    for _ in range(blocks):
        masters = []
        for ranks in groups:
            # A master sends the block to the others of its group, and not to a master.
            more = len(ranks) - 2
            master = min(ranks, key=lambda rank: ((load[rank] + more) / rates[rank], rank))
            load[master] += more
            masters.append(master)
        if len(groups) > 1:
            # Of the global master, in addition: to the other local masters. Of these: to the global master.
            for master in masters:
                load[master] += 1
            more = len(groups) - 2
            top = min(masters, key=lambda rank: ((load[rank] + more) / rates[rank], rank))
            load[top] += more
        else:
            top = masters[0]
        local.append(tuple(masters))
        tops.append(top)
    return Assignment(groups, tuple(local), tuple(tops))


def _check(rates: Sequence[float]) -> None:
    for rank, rate in enumerate(rates):
        if not rate > 0:
            raise bad_value("a rate is not above 0", f"{rate} for rank {rank}", allowed="rates above 0")


def _shares(weights: Sequence[float], count: int) -> list[int]:
    """Deals ``count`` items to holders by their weights, in turn, so that holders are spread over the items.

    The holder that lags most behind its share gets the next item: no share is off by more than one item.
    """
    total = sum(weights)
    given = [0] * len(weights)
    dealt = []
    for number in range(count):
        due = [weight / total * (number + 1) - has for weight, has in zip(weights, given, strict=True)]
        holder = max(range(len(weights)), key=lambda each: (due[each], -each))
        given[holder] += 1
        dealt.append(holder)
    return dealt

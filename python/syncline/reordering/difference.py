"""What an order exchanges over long distances, and another one does not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline import _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.reordering.jobs import ReorderedJob
    from syncline.reordering.reorder import Reordered
    from syncline.reordering.simulation import Traffic

CLEAR = 1.3
"""Least ratio of the means of far and near distances; closer ones are not told apart."""


@dataclass(frozen=True)
class Exchange:
    """Two hosts that exchange, and the time of one message between them."""

    hosts: tuple[str, str]
    time_s: float
    nbytes: int | None = None
    """Bytes that they exchange in a step, if a job was simulated."""
    messages: int | None = None
    """Messages of these."""


@dataclass(frozen=True)
class Difference:
    """Exchanges of two orders. Far pairs are those beyond ``far_s``, which splits all distances best in two."""

    far_s: float | None
    """Time from which hosts are far from each other; None if distances do not fall into near and far ones."""
    far_pairs: float
    """Fraction of all pairs of hosts that are far."""
    exchanges: int
    """Exchanges of the new order."""
    far_before: int
    """Exchanges between far hosts, before."""
    far_after: int
    far_messages_before: int
    """Messages that far hosts exchanged in a step before; 0 if no job was simulated."""
    far_messages_after: int
    far_bytes_before: int
    """Bytes of these."""
    far_bytes_after: int
    longest_before: Exchange
    longest_after: Exchange
    dropped: tuple[Exchange, ...]
    """Exchanges of the old order alone, the longest first."""
    added: tuple[Exchange, ...]
    """Exchanges of the new order alone, the longest first."""


def difference(found: Reordered) -> Difference:
    """Compares the exchanges of an order with those of the order before."""
    number = {name: at for at, name in enumerate(found.before)}
    times = found.distances.times()
    pairs = {(low, high) for _, low, high in _core.exchanging_ranks(found.algorithm, len(found.before))}

    def of(order: Sequence[str]) -> list[Exchange]:
        ends = ((order[low], order[high]) for low, high in sorted(pairs))
        named = (tuple(sorted(each, key=number.__getitem__)) for each in ends)
        return [Exchange((a, b), times[number[b]][number[a]]) for a, b in named]

    return _compare(of(found.before), of(found.hosts), (time for row in times for time in row))


def difference_of_job(found: ReorderedJob) -> Difference:
    """Compares what a job exchanges in an order with what it exchanges in the order before.

    A time is that of one message of mean size.
    """
    number = {name: at for at, name in enumerate(found.before)}
    size = found.traffic_before.message_bytes

    def of(order: Sequence[str], traffic: Traffic) -> list[Exchange]:
        exchanges = []
        for (low, high), nbytes in sorted(traffic.nbytes.items()):
            a, b = sorted((number[order[low]], number[order[high]]))
            time = found.distances.one_way_s(a, b, size)
            exchanges.append(Exchange((found.before[a], found.before[b]), time, nbytes, traffic.messages[low, high]))
        return exchanges

    hosts = range(len(found.before))
    times = (found.distances.one_way_s(a, b, size) for b in hosts for a in range(b))
    return _compare(of(found.before, found.traffic_before), of(found.hosts, found.traffic), times)


def _compare(before: Iterable[Exchange], after: Iterable[Exchange], times: Iterable[float]) -> Difference:
    """Compares exchanges; ``times`` are those of a message between any two hosts."""
    old = {each.hosts: each for each in before}
    new = {each.hosts: each for each in after}
    all_times = sorted(times)
    far = split(all_times)

    def of_far(exchanges: dict[tuple[str, str], Exchange]) -> list[Exchange]:
        return [] if far is None else [each for each in exchanges.values() if each.time_s >= far]

    def only(one: dict[tuple[str, str], Exchange], other: dict[tuple[str, str], Exchange]) -> tuple[Exchange, ...]:
        return tuple(sorted((one[each] for each in one.keys() - other.keys()), key=lambda e: (-e.time_s, e.hosts)))

    def longest(exchanges: dict[tuple[str, str], Exchange]) -> Exchange:
        return max(exchanges.values(), key=lambda each: each.time_s)

    return Difference(
        far,
        0.0 if far is None else sum(each >= far for each in all_times) / len(all_times),
        len(new),
        len(of_far(old)),
        len(of_far(new)),
        sum(each.messages or 0 for each in of_far(old)),
        sum(each.messages or 0 for each in of_far(new)),
        sum(each.nbytes or 0 for each in of_far(old)),
        sum(each.nbytes or 0 for each in of_far(new)),
        longest(old),
        longest(new),
        only(old, new),
        only(new, old),
    )


def split(times: Sequence[float]) -> float | None:
    """The time that splits sorted times best in two: both parts vary least in their logarithms (Otsu 1979).

    None if the means of both parts are less than :data:`CLEAR` apart.
    """
    logs = [math.log(max(each, 1e-12)) for each in times]
    total, size = sum(logs), len(logs)
    best, at, left = -1.0, 0, 0.0
    for count in range(1, size):
        left += logs[count - 1]
        apart = total - left
        # The spread between both parts; what is within them is the rest.
        between = left * left / count + apart * apart / (size - count)
        if times[count] > times[count - 1] and (at == 0 or between > best):
            best, at = between, count
    if at == 0:
        return None
    near, far = sum(logs[:at]) / at, sum(logs[at:]) / (size - at)
    return times[at] if far - near >= math.log(CLEAR) else None

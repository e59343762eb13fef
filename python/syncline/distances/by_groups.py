"""Distances between groups of hosts, in place of those of single pairs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from syncline.distances.measured import Measured, Pair

if TYPE_CHECKING:
    from collections.abc import Sequence


def by_groups(measured: Measured, groups: Sequence[int]) -> Measured:
    """Gives all pairs of hosts between two groups, or within one, the same round trip and rate: the median of theirs.

    ``groups`` has the group of each host. Single measurements are noisy, above all rates, which depend on what else a
    link carried at that time. An order of ranks by them follows the noise; an order by groups does not. Pairs that were
    not measured get the values of their groups; without any measurement between two groups, they stay missing.
    """
    found = {
        "round trips": _medians(measured.round_trips, groups),
        "rates": _medians(measured.rates, groups),
    }
    pairs = {}
    for a in range(len(groups)):
        for b in range(a + 1, len(groups)):
            key = _key(groups[a], groups[b])
            trip, rate = (found[what].get(key) for what in ("round trips", "rates"))
            if trip is not None or rate is not None:
                pairs[a, b] = Pair(rtt_s=trip, rate_bytes_per_s=rate)
    return Measured(measured.hosts, pairs, measured.source)


def _medians(values: dict[tuple[int, int], float], groups: Sequence[int]) -> dict[tuple[int, int], float]:
    between: dict[tuple[int, int], list[float]] = defaultdict(list)
    for (a, b), value in values.items():
        between[_key(groups[a], groups[b])].append(value)
    return {key: statistics.median(each) for key, each in between.items()}


def _key(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)

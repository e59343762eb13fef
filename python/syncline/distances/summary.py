"""What a file of measurements holds: how many pairs, how sure they are, how far they spread, and what is missing."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from heapq import nlargest, nsmallest
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.distances.measured import Measured, Pair

By = Literal["rtt", "rate"]
"""What was measured: round trips in seconds, or rates in bytes per second."""
EXTREMES = 3
"""Pairs that are listed at each end of the spread."""
MAX_MISSING = 1000
"""The most pairs without a measurement that are listed."""

Ends = tuple[str, str]
"""Names of the hosts of a pair."""


@dataclass(frozen=True)
class Range:
    """Fewest, median and most of something that is counted for each measured pair."""

    fewest: int
    median: float
    most: int


@dataclass(frozen=True)
class Asymmetry:
    """How far the two directions of pairs differ: the larger value over the smaller one, minus 1."""

    pairs: int
    """Pairs that were measured in both directions."""
    median: float
    largest: float
    between: Ends
    """The hosts with the largest difference."""


@dataclass(frozen=True)
class Spread:
    """The values of pairs of hosts: of both directions the larger round trip, or the lower rate."""

    pairs: int
    smallest: float
    percentile_10: float
    median: float
    percentile_90: float
    largest: float
    lowest: list[tuple[Ends, float]]
    """The pairs with the smallest values, the smallest first."""
    highest: list[tuple[Ends, float]]
    """The pairs with the largest values, the largest first."""
    asymmetry: Asymmetry | None
    """None if no pair was measured in both directions."""


@dataclass(frozen=True)
class HostSummary:
    """What was measured of one host."""

    name: str
    pairs: int
    """Other hosts with a measurement to or from it."""
    median_rtt_s: float | None
    median_rate_bytes_per_s: float | None


@dataclass(frozen=True)
class Summary:
    """A file of measurements in numbers. A pair is one of two hosts, whatever the direction, unless it says otherwise.

    Times are in seconds and rates in bytes per second.
    """

    source: str
    """The file."""
    hosts: list[HostSummary]
    possible: int
    """Pairs that the hosts form."""
    measured: int
    """Pairs with a round trip or a rate in some direction."""
    both_directions: int
    """Pairs with one in both directions."""
    without_value: int
    """Pairs that the file lists without a round trip or rate, for example because all echoes were lost."""
    round_trips: Spread | None
    rates: Spread | None
    samples: Range | None
    """Echoes of each measured direction. None if the file does not say, as CSV files need not."""
    transfers: Range | None
    """Timed transfers of each measured direction. None if the file does not say."""
    relative_error: tuple[float, float] | None
    """Half the width of the 95 % confidence interval over the round trip: median and largest. None if unknown."""
    sent: int
    """Echoes that were sent."""
    lost: int
    """Echoes that did not come back."""
    missing: list[Ends]
    """Pairs without a measurement, at most :data:`MAX_MISSING` of them."""

    def spread(self, by: By) -> Spread | None:
        """The spread of round trips, or of rates."""
        return self.round_trips if by == "rtt" else self.rates

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain data for ``--json``."""
        found = asdict(self)
        if self.relative_error is not None:
            found["relative_error"] = dict(zip(("median", "largest"), self.relative_error, strict=True))
        for key in ("round_trips", "rates"):
            if found[key] is not None:
                for end in ("lowest", "highest"):
                    found[key][end] = [{"hosts": ends, "value": value} for ends, value in found[key][end]]
        return found


def summarise(measured: Measured) -> Summary:
    """Summarises measurements; takes time in proportion to the pairs."""
    count = len(measured.hosts)
    known = [
        pair for pair, each in measured.pairs.items() if each.rtt_s is not None or each.rate_bytes_per_s is not None
    ]
    ends = _ends(known)
    named = ends if len(known) == len(measured.pairs) else _ends(measured.pairs)
    trips = [each for each in measured.pairs.values() if each.rtt_s is not None]
    errors = [each.rtt_error_s / each.rtt_s for each in trips if each.rtt_error_s is not None and each.rtt_s]
    possible = count * (count - 1) // 2
    return Summary(
        source=measured.source,
        hosts=_hosts(measured, ends),
        possible=possible,
        measured=len(ends),
        both_directions=len(known) - len(ends),
        without_value=len(named) - len(ends),
        round_trips=_spread(measured, "rtt"),
        rates=_spread(measured, "rate"),
        samples=_range([each.samples for each in trips]),
        transfers=_range([each.transfers for each in measured.pairs.values() if each.rate_bytes_per_s is not None]),
        relative_error=(median(errors), max(errors)) if errors else None,
        sent=sum(each.samples + each.lost for each in measured.pairs.values()),
        lost=sum(each.lost for each in measured.pairs.values()),
        missing=_missing(measured, ends) if len(ends) < possible else [],
    )


def _ends(pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs ``(a, b)`` with ``a < b``, whatever the direction."""
    return {(a, b) if a < b else (b, a) for a, b in pairs}


def values(measured: Measured, by: By) -> dict[tuple[int, int], float]:
    """The round trips of pairs ``(a, b)`` with ``a < b``, or their rates."""
    return measured.round_trips if by == "rtt" else measured.rates


def _value(pair: Pair, by: By) -> float | None:
    return pair.rtt_s if by == "rtt" else pair.rate_bytes_per_s


def _hosts(measured: Measured, ends: set[tuple[int, int]]) -> list[HostSummary]:
    degree = [0] * len(measured.hosts)
    for pair in ends:
        for host in pair:
            degree[host] += 1
    medians = []
    for by in ("rtt", "rate"):
        of_host: list[list[float]] = [[] for _ in measured.hosts]
        for pair, value in values(measured, by).items():
            for host in pair:
                of_host[host].append(value)
        medians.append([median(each) if each else None for each in of_host])
    return [
        HostSummary(name, pairs, rtt, rate)
        for name, pairs, rtt, rate in zip(measured.hosts, degree, *medians, strict=True)
    ]


def _spread(measured: Measured, by: By) -> Spread | None:
    found = values(measured, by)
    if not found:
        return None
    ranked = sorted(found.values())
    # Equal values are listed in the order of hosts.
    lowest = nsmallest(EXTREMES, found.items(), key=lambda each: (each[1], each[0]))
    highest = nlargest(EXTREMES, found.items(), key=lambda each: (each[1], -each[0][0], -each[0][1]))
    return Spread(
        pairs=len(ranked),
        smallest=ranked[0],
        percentile_10=_percentile(ranked, 0.1),
        median=median(ranked),
        percentile_90=_percentile(ranked, 0.9),
        largest=ranked[-1],
        lowest=[(_names(measured, pair), value) for pair, value in lowest],
        highest=[(_names(measured, pair), value) for pair, value in highest],
        asymmetry=_asymmetry(measured, by),
    )


def _percentile(ranked: Sequence[float], share: float) -> float:
    """The percentile by linear interpolation between order statistics (type 7 of Hyndman and Fan 1996)."""
    at = share * (len(ranked) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (at - low) * (ranked[high] - ranked[low])


def _asymmetry(measured: Measured, by: By) -> Asymmetry | None:
    found: list[tuple[float, tuple[int, int]]] = []
    for (a, b), there in measured.pairs.items():
        if a < b and (back := measured.pairs.get((b, a))) is not None:
            one, other = _value(there, by), _value(back, by)
            if one and other:
                found.append((max(one, other) / min(one, other) - 1, (a, b)))
    if not found:
        return None
    largest, pair = max(found, key=lambda each: (each[0], -each[1][0], -each[1][1]))
    return Asymmetry(len(found), median(each for each, _ in found), largest, _names(measured, pair))


def _range(counts: Sequence[int]) -> Range | None:
    return Range(min(counts), median(counts), max(counts)) if any(counts) else None


def _names(measured: Measured, pair: tuple[int, int]) -> Ends:
    return measured.hosts[pair[0]], measured.hosts[pair[1]]


def _missing(measured: Measured, ends: set[tuple[int, int]]) -> list[Ends]:
    found: list[Ends] = []
    count = len(measured.hosts)
    for a in range(count):
        for b in range(a + 1, count):
            if (a, b) not in ends:
                found.append(_names(measured, (a, b)))
                if len(found) == MAX_MISSING:
                    return found
    return found

"""What samples say of a path: a quantile with its confidence interval, by order statistics."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from syncline.distances import Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

QUANTILE = 0.1
"""The quantile of round trips that stands for a path (luo2020 5.2.2)."""
CONFIDENCE = 0.95
MIN_SAMPLES = 36
"""The fewest samples with an interval: 0.9^36 = 0.0225 is at most 0.025, the chance that the interval is too high."""


def quantile(ordered: Sequence[float], share: float = QUANTILE) -> float:
    """Returns the smallest of the sorted values that at least ``share`` of them do not exceed."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def bounds(count: int, share: float = QUANTILE, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Returns the two order statistics, counted from 1, between which a quantile lies with at least this confidence.

    Of ``count`` independent samples, the number below the quantile has the binomial distribution B(count, share). So
    the l-th and the u-th smallest enclose the quantile with probability F(u - 1) - F(l - 1), where F is the cumulative
    distribution (Conover, "Practical Nonparametric Statistics", 3.2). l is the largest and u the smallest such that
    each side misses with at most half of ``1 - confidence``. Returns ``None`` if there are too few samples for that.
    """
    tail = (1 - confidence) / 2
    low, high, below = 0, None, 0.0
    for successes in range(count + 1):
        log_chance = (
            math.lgamma(count + 1)
            - math.lgamma(successes + 1)
            - math.lgamma(count - successes + 1)
            + successes * math.log(share)
            + (count - successes) * math.log1p(-share)
        )
        below += math.exp(log_chance)
        if below <= tail:
            low = successes + 1
        if below >= 1 - tail:
            high = successes + 1
            break
    return None if low == 0 or high is None or high > count else (low, high)


def of_samples(samples: Sequence[float], lost: int = 0, duplicates: int = 0) -> Pair:
    """Returns what the round trips ``samples``, in seconds, say of a path."""
    if not samples:
        return Pair(lost=lost, duplicates=duplicates)
    ordered = sorted(samples)
    between = bounds(len(ordered))
    return Pair(
        rtt_s=quantile(ordered),
        rtt_median_s=statistics.median(ordered),
        rtt_error_s=None if between is None else (ordered[between[1] - 1] - ordered[between[0] - 1]) / 2,
        samples=len(ordered),
        lost=lost,
        duplicates=duplicates,
    )


def rate_of(size: int, times_ns: Sequence[int]) -> float:
    """Returns the median rate of transfers of ``size`` bytes, in bytes per second."""
    return statistics.median(size * 1e9 / max(each, 1) for each in times_ns)

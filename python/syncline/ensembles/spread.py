"""Values of several runs: median, range, quartiles, and whether they fall into two groups."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_COUNT = 16
"""Fewest values that are divided into groups: fewer would too often look like two groups by chance."""
MIN_SHARE = 0.1
"""Minimum share of the values in the smaller of two groups, which has at least two values."""
MIN_RATIO = 1.01
"""Minimum ratio between the nearest values of two groups."""


@dataclass(frozen=True)
class Groups:
    """Two groups of values, one below the other."""

    low: tuple[float, ...]
    """The smaller values, in order."""
    high: tuple[float, ...]
    """The larger values, in order."""

    @property
    def ratio(self) -> float:
        """The least of the larger values over the largest of the smaller values."""
        return self.high[0] / self.low[-1]


@dataclass(frozen=True)
class Spread:
    """The spread of a number over several runs."""

    count: int
    """Number of values."""
    least: float
    """The smallest value."""
    lower_quartile: float
    """A quarter of the values are below it."""
    median: float
    """Half of the values are below it."""
    upper_quartile: float
    """A quarter of the values are above it."""
    most: float
    """The largest value."""
    groups: Groups | None
    """The two groups into which the values fall; None if they do not. See :func:`two_groups`."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        ordered = sorted(values)
        return cls(
            count=len(ordered),
            least=ordered[0],
            lower_quartile=_quantile(ordered, 0.25),
            median=median(ordered),
            upper_quartile=_quantile(ordered, 0.75),
            most=ordered[-1],
            groups=two_groups(ordered),
        )


def two_groups(values: Sequence[float]) -> Groups | None:
    """The two groups into which positive values fall, or None: tells whether outcomes are bimodal.

    Values are divided at the largest ratio between neighbours. They form two groups if that ratio is larger than the
    ratio of the largest to the smallest value within either group. This is Dunn's criterion for compact, well-separated
    clusters (J. C. Dunn, "Well-separated clusters and optimal fuzzy partitions", Journal of Cybernetics 4, 1974: an
    index above 1), applied to logarithms. Each group must have at least two values and a tenth of all values, so that a
    single outlier is not a group, and the nearest values of the two groups must differ by 1 % or more. Values drawn
    uniformly over a factor of two, normally or exponentially, fall into two groups in less than 2 % of draws of 16, and
    less than 1 % of draws of 20.
    """
    ordered = sorted(values)
    if len(ordered) < MIN_COUNT or ordered[0] <= 0:
        return None
    logs = [log(value) for value in ordered]
    at = max(range(1, len(logs)), key=lambda index: logs[index] - logs[index - 1])
    gap = logs[at] - logs[at - 1]
    smallest = min(at, len(logs) - at)
    apart = gap > max(logs[at - 1] - logs[0], logs[-1] - logs[at]) and gap >= log(MIN_RATIO)
    if not apart or smallest < max(2, MIN_SHARE * len(logs)):
        return None
    return Groups(tuple(ordered[:at]), tuple(ordered[at:]))


def _quantile(ordered: Sequence[float], part: float) -> float:
    """A quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan, 1996)."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])

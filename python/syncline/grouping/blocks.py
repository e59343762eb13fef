"""A block model of distances: how far two hosts are depends on their groups alone, apart from noise.

It judges a partition by the distances themselves, where an embedding must first squeeze them into a few dimensions.
Values are logarithms of distances. Noise has a Student t distribution with :data:`FREEDOM` degrees of freedom, so a
rare long delay counts little (Lange, Little and Taylor, "Robust statistical modeling using the t distribution", 1989):
each value gets the weight ``(FREEDOM + 1) / (FREEDOM + (residual / sigma)^2)``. Levels of pairs of groups with few
values are drawn towards those of a tree of the groups (average linkage), because data centres are trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from syncline.grouping.arrays import Floats, Ints

FREEDOM = 4.0
"""Degrees of freedom of the noise."""
PRIOR = 3.0
"""Number of values that the level from the tree counts as."""
MIN_SIGMA = 1e-3
"""Smallest noise, as a share of the distance: 0.1 %."""
_ROUNDS = 3
"""Rounds in which levels and weights are computed from each other."""


@dataclass(frozen=True, eq=False)
class Values:
    """Logarithms of measured distances of pairs of hosts; a pair may occur more than once."""

    hosts: int
    a: Ints
    b: Ints
    logs: Floats

    def beyond_the_nearest(self) -> Floats:
        """Values less that of the nearest hundredth, which count as 0: the smallest one alone would be an outlier."""
        return np.maximum(self.logs - np.quantile(self.logs, 0.01), 0.0)

    def only(self, kept: Ints) -> Values:
        """Some of the values: ``kept`` holds their positions."""
        return Values(self.hosts, self.a[kept], self.b[kept], self.logs[kept])

    def among(self, hosts: Ints) -> Values:
        """The values between some of the hosts, which are renumbered in the order given."""
        number = np.full(self.hosts, -1, dtype=np.int64)
        number[hosts] = np.arange(len(hosts))
        a, b = number[self.a], number[self.b]
        kept = (a >= 0) & (b >= 0)
        return Values(len(hosts), a[kept], b[kept], self.logs[kept])


@dataclass(frozen=True, eq=False)
class Blocks:
    """Levels of a partition."""

    levels: Floats
    """Logarithm of the distance between hosts of two groups; on the diagonal, within a group."""
    tree: Floats
    """The same from the tree of groups; on the diagonal, the mean within groups."""
    sigma: float
    """Scale of the noise of logarithms."""
    weights: Floats
    """Weight of each value."""

    def scores(self, values: Values, groups: Ints) -> Floats:
        """Log-likelihood of each value, given the group of each host."""
        residuals = (values.logs - self.levels[groups[values.a], groups[values.b]]) / self.sigma
        return np.asarray(-(FREEDOM + 1) / 2 * np.log1p(residuals**2 / FREEDOM) - np.log(self.sigma), dtype=np.float64)

    def placements(self, values: Values, groups: Ints, levels: Floats | None = None) -> Floats:
        """Log-likelihood of each host (row) in each group (column), up to a constant of the host.

        Hosts whose group is -1 count nothing for others. ``levels`` replaces the levels of this partition.
        """
        count = len(self.levels)
        levels = self.levels if levels is None else levels
        sums: Floats = np.zeros(values.hosts * count)
        totals: Floats = np.zeros(values.hosts * count)
        for near, far in ((values.a, values.b), (values.b, values.a)):
            known = groups[far] >= 0
            at = near[known] * count + groups[far][known]
            totals += np.bincount(at, self.weights[known], values.hosts * count)
            sums += np.bincount(at, (self.weights * values.logs)[known], values.hosts * count)
        by_group, weight = sums.reshape(-1, count), totals.reshape(-1, count)
        found = (by_group @ levels - 0.5 * weight @ levels**2) / self.sigma**2
        return np.asarray(found, dtype=np.float64)


def tree(sums: Floats, counts: Floats) -> Floats:
    """Average linkage: the mean of all values between the two sides of the merge that first joins two groups.

    ``sums`` and ``counts`` of the values of each pair of groups are symmetric. Without any value between them, groups
    are joined last, at the mean of all values.
    """
    count = len(sums)
    sums, counts = sums.copy(), counts.copy()
    np.fill_diagonal(sums, 0)
    np.fill_diagonal(counts, 0)
    overall = sums.sum() / counts.sum() if counts.any() else 0.0
    found = np.zeros((count, count))
    members = [[group] for group in range(count)]
    means = np.where(counts > 0, sums / np.maximum(counts, 1e-12), np.inf)
    alive = np.ones(count, dtype=bool)
    for _ in range(count - 1):
        a, b = divmod(int(np.argmin(means)), count)
        height = means[a, b]
        if not np.isfinite(height):
            a, b = (int(each) for each in np.flatnonzero(alive)[:2])
            height = overall
        found[np.ix_(members[a], members[b])] = found[np.ix_(members[b], members[a])] = height
        members[a] += members[b]
        alive[b] = False
        for table in (sums, counts):
            table[a] += table[b]
            table[:, a] = table[a]
            table[a, a] = 0
        row = np.where((counts[a] > 0) & alive, sums[a] / np.maximum(counts[a], 1e-12), np.inf)
        row[a] = np.inf
        means[a], means[:, a] = row, row
        means[b], means[:, b] = np.inf, np.inf
    return found


def fit(values: Values, groups: Ints, count: int) -> Blocks:
    """The levels of a partition into ``count`` groups. Values of hosts whose group is -1 are unused, with weight 1."""
    a, b = groups[values.a], groups[values.b]
    known = (a >= 0) & (b >= 0)
    a, b, logs = a[known], b[known], values.logs[known]
    weights = np.ones(len(logs))
    sigma = MIN_SIGMA
    levels = means = np.zeros((count, count))
    for _ in range(_ROUNDS):
        counts: Floats = np.bincount(a * count + b, weights, count**2).reshape(count, count).astype(np.float64)
        sums: Floats = np.bincount(a * count + b, weights * logs, count**2).reshape(count, count).astype(np.float64)
        sums, counts = sums + sums.T, counts + counts.T
        within = np.trace(sums) / np.trace(counts) if np.trace(counts) > 0 else float(logs.min(initial=np.inf))
        means = tree(sums, counts)
        np.fill_diagonal(means, within if np.isfinite(within) else 0.0)
        levels = (sums + PRIOR * means) / (counts + PRIOR)
        residuals = logs - levels[a, b]
        sigma = max(float(np.sqrt(np.average(residuals**2, weights=weights))), MIN_SIGMA) if len(logs) else 1.0
        weights = (FREEDOM + 1) / (FREEDOM + (residuals / sigma) ** 2)
    whole = np.ones(len(values.logs))
    whole[known] = weights
    return Blocks(levels, means, sigma, whole)


def numbered(groups: Ints) -> tuple[Ints, int]:
    """The same partition with groups 0, 1, 2 and so on, and their number."""
    names, found = np.unique(groups, return_inverse=True)
    return found.astype(np.int64), len(names)


def refine(values: Values, groups: Ints, rounds: int = 12) -> Ints:
    """Moves hosts to the groups in which the block model finds them likeliest, until none moves. Groups may vanish.

    Every other host moves in a round, or pairs of hosts would change places forever.
    """
    groups, count = numbered(groups)
    hosts = np.arange(values.hosts)
    still = 0
    for turn in range(rounds):
        if count < 2:
            break
        likely = fit(values, groups, count).placements(values, groups)
        best = likely.argmax(axis=1)
        moves = (likely[hosts, best] > likely[hosts, groups] + 1e-9) & ((hosts + turn) % 2 == 0)
        still = 0 if moves.any() else still + 1
        if still == 2:
            break
        groups, count = numbered(np.where(moves, best, groups))
    return groups


def merge(values: Values, groups: Ints, worth: float = 3.0) -> Ints:
    """Joins groups whose hosts are as near to each other as the hosts of each group are among themselves.

    Two groups are joined if the values between them are likelier by the level within groups than by their own level,
    or less likely by at most ``worth``; the likeliest pair first.
    """
    while True:
        groups, count = numbered(groups)
        if count < 2:
            return groups
        blocks = fit(values, groups, count)
        a, b = groups[values.a], groups[values.b]
        apart = np.flatnonzero(a != b)
        low, high = np.minimum(a, b)[apart], np.maximum(a, b)[apart]
        inside = np.diag(blocks.levels)
        residuals = (values.logs[apart] - (inside[low] + inside[high]) / 2) / blocks.sigma
        joined = -(FREEDOM + 1) / 2 * np.log1p(residuals**2 / FREEDOM) - np.log(blocks.sigma)
        gains = np.bincount(low * count + high, joined - blocks.scores(values, groups)[apart], count**2)
        measured = np.bincount(low * count + high, minlength=count**2) > 0
        gains = np.where(measured, gains + worth, -np.inf)
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            return groups
        groups = np.where(groups == best % count, best // count, groups)

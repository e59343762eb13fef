"""A block model of distances: how far two hosts are depends on their groups alone, apart from noise.

It judges a partition by the distances themselves, where an embedding must first squeeze them into a few dimensions.
Values are logarithms of distances. Noise has a Student t distribution with :data:`FREEDOM` degrees of freedom, so a
rare long delay counts little (Lange, Little and Taylor, "Robust statistical modeling using the t distribution", 1989):
each value gets the weight ``(FREEDOM + 1) / (FREEDOM + (residual / sigma)^2)``. Levels of pairs of groups are drawn
towards those of a tree of the groups (average linkage), because data centres are trees: the more, the nearer the values
are to such a tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from syncline.grouping.arrays import Floats, Ints

FREEDOM = 4.0
"""Degrees of freedom of the noise."""
PRIOR = 3.0
"""Number of values that the level from the tree counts as, before it is estimated."""
MAX_PRIOR = 1e4
"""The most that this is."""
MIN_SIGMA = 1e-3
"""Smallest noise, as a share of the distance: 0.1 %."""
GRID = 0.5
"""Levels that are nearer to each other than this share of the noise count as equal when hosts are placed."""
CLEAR = 5.0
"""Logarithm of a ratio of likelihoods that noise alone rarely reaches: once in e^5 = 150 cases."""
HEAT = 1.0
"""First temperature of :func:`anneal`: at 1, each host draws its group from the posterior."""
SWEEPS = 40
"""Rounds of :func:`anneal`."""
_ROUNDS = 2
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
    free: float
    """Effective number of free levels: those of the tree, and the share that each pair of groups has of its own."""

    def scores(self, values: Values, groups: Ints) -> Floats:
        """Log-likelihood of each value, given the group of each host."""
        return self._likely(values.logs - self.levels[groups[values.a], groups[values.b]])

    def placements(self, values: Values, groups: Ints, levels: Floats | None = None) -> Floats:
        """Log-likelihood of each host (row) in each group (column), with the groups of all other hosts as they are.

        Hosts whose group is -1 count nothing for others. ``levels`` replaces the levels of this partition: a row for
        each column of the result. Levels within :data:`GRID` of each other count as equal, which keeps this fast: a
        data centre has many pairs of groups, but few distances between them.
        """
        count = len(self.levels)
        levels = self.levels if levels is None else levels
        known_a, known_b = groups[values.b] >= 0, groups[values.a] >= 0
        at = np.concatenate(
            [(values.a * count + groups[values.b])[known_a], (values.b * count + groups[values.a])[known_b]]
        )
        steps = np.round(levels / (GRID * self.sigma))
        found: Floats = np.zeros((values.hosts, len(levels)))
        for step in np.unique(steps):
            near = steps == step
            likely = self._likely(values.logs - levels[near].mean())
            sums = np.bincount(at, np.concatenate([likely[known_a], likely[known_b]]), values.hosts * count)
            found += sums.reshape(-1, count) @ near.T.astype(np.float64)
        return found

    def _likely(self, residuals: Floats) -> Floats:
        """Log-density of noise, up to a constant."""
        scaled = (residuals / self.sigma) ** 2
        return np.asarray(-(FREEDOM + 1) / 2 * np.log1p(scaled / FREEDOM) - np.log(self.sigma), dtype=np.float64)


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
    # Leaves in the order of the tree, and the height at which each is joined with the one before it.
    leaves = [[group] for group in range(count)]
    joins: list[list[float]] = [[] for _ in range(count)]
    means = np.where(counts > 0, sums / np.maximum(counts, 1e-12), np.inf)
    alive = np.ones(count, dtype=bool)
    for _ in range(count - 1):
        a, b = divmod(int(np.argmin(means)), count)
        height = means[a, b]
        if not np.isfinite(height):
            a, b = (int(each) for each in np.flatnonzero(alive)[:2])
            height = overall
        joins[a] += [height, *joins[b]]
        leaves[a] += leaves[b]
        alive[b] = False
        for table in (sums, counts):
            table[a] += table[b]
            table[:, a] = table[a]
            table[a, a] = 0
        row = np.where((counts[a] > 0) & alive, sums[a] / np.maximum(counts[a], 1e-12), np.inf)
        row[a] = np.inf
        means[a], means[:, a] = row, row
        means[b], means[:, b] = np.inf, np.inf
    root = int(np.flatnonzero(alive)[0])
    order, between = np.array(leaves[root]), np.array(joins[root])
    found = np.zeros((count, count))
    for at in range(count - 1):
        # Two leaves are joined at the highest of the joins between them.
        found[order[at], order[at + 1 :]] = found[order[at + 1 :], order[at]] = np.maximum.accumulate(between[at:])
    return found


def fit(values: Values, groups: Ints, count: int) -> Blocks:
    """The levels of a partition into ``count`` groups. Values of hosts whose group is -1 are unused."""
    a, b = groups[values.a], groups[values.b]
    known = (a >= 0) & (b >= 0)
    a, b, logs = a[known], b[known], values.logs[known]
    weights = np.ones(len(logs))
    sigma = MIN_SIGMA
    levels = means = np.zeros((count, count))
    prior = PRIOR
    for turn in range(_ROUNDS):
        counts: Floats = np.bincount(a * count + b, weights, count**2).reshape(count, count).astype(np.float64)
        sums: Floats = np.bincount(a * count + b, weights * logs, count**2).reshape(count, count).astype(np.float64)
        sums, counts = sums + sums.T, counts + counts.T
        within = np.trace(sums) / np.trace(counts) if np.trace(counts) > 0 else float(logs.min(initial=np.inf))
        means = tree(sums, counts)
        np.fill_diagonal(means, within if np.isfinite(within) else 0.0)
        if turn:
            prior = _prior(sums, counts, means, sigma)
        levels = (sums + prior * means) / (counts + prior)
        residuals = logs - levels[a, b]
        sigma = max(float(np.sqrt(np.average(residuals**2, weights=weights))), MIN_SIGMA) if len(logs) else 1.0
        weights = (FREEDOM + 1) / (FREEDOM + (residuals / sigma) ** 2)
    free = count + float((counts / (counts + prior))[np.triu_indices(count)].sum()) if len(logs) else 0.0
    return Blocks(levels, means, sigma, free)


def _prior(sums: Floats, counts: Floats, means: Floats, sigma: float) -> float:
    """Number of values that a level from the tree counts as: ``(sigma / tau)^2``.

    ``tau`` is how far levels really are from those of the tree, beyond what noise explains (DerSimonian and Laird
    1986). In a network that is a tree it is 0, between cities it is large.
    """
    upper = np.triu(counts > 0, 1)
    of_pairs = counts[upper]
    if not len(of_pairs):
        return MAX_PRIOR
    apart = sums[upper] / counts[upper] - means[upper]
    # If tau is 0, these are squares of standard normal numbers, with median 0.455; that of n of them has a standard
    # deviation of 2.3 / sqrt(n) times as much. A median, because one wrong join of the tree misplaces some levels only.
    ratio = float(np.median(of_pairs * apart**2)) / sigma**2 / 0.455 - 1
    excess = len(of_pairs) * (ratio - 2 * 2.3 / math.sqrt(len(of_pairs)))
    return min(float(of_pairs.sum()) / max(excess, 1e-12), MAX_PRIOR)


def evidence(values: Values, groups: Ints) -> float:
    """How well a partition explains the values, less what its choice costs; partitions are compared by it.

    It is the integrated classification likelihood (Biernacki, Celeux and Govaert 2000): the groups of hosts cost the
    logarithm of the number of partitions into groups of these sizes, and each free level half that of the values. So
    noise alone makes ``k`` groups look better than one with a probability of about ``exp(-difference)``.
    """
    groups, count = numbered(groups)
    found = fit(values, groups, count)
    sizes = np.bincount(groups)
    choice = float((sizes * np.log(values.hosts / sizes)).sum()) + count / 2 * math.log(values.hosts)
    levels = found.free / 2 * math.log(max(len(values.logs), 2))
    return float(found.scores(values, groups).sum()) - choice - levels


def numbered(groups: Ints) -> tuple[Ints, int]:
    """The same partition with groups 0, 1, 2 and so on, and their number."""
    names, found = np.unique(groups, return_inverse=True)
    return found.astype(np.int64), len(names)


def anneal(
    values: Values, groups: Ints, random: np.random.Generator, *, heat: float = HEAT, sweeps: int = SWEEPS
) -> Ints:
    """Moves hosts between groups by simulated annealing, then as :func:`refine` does. Groups may vanish.

    In each sweep half of the hosts draw a group, with the posterior probability of each group raised to one over the
    temperature, which falls from ``heat`` to a tenth of it. The probability of a group before anything is measured
    grows with its size. This leaves partitions in which moving any single host is worse, although moving several would
    be better.
    """
    for turn in range(sweeps):
        groups, count = numbered(groups)
        if count < 2:
            return groups
        temperature = heat * 0.1 ** (turn / max(sweeps - 1, 1))
        likely = fit(values, groups, count).placements(values, groups) + size_prior(groups, count)
        drawn = (likely + temperature * random.gumbel(size=likely.shape)).argmax(axis=1)
        groups = np.where(random.random(values.hosts) < 0.5, drawn, groups)
    return refine(values, groups)


def size_prior(groups: Ints, count: int) -> Floats:
    """Logarithm of how many other hosts are in each group (column), for each host (row); finite if there are none."""
    others = np.bincount(groups[groups >= 0], minlength=count) - (groups[:, None] == np.arange(count))
    return np.asarray(np.log(np.maximum(others, 0.1)), dtype=np.float64)


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
        likely = fit(values, groups, count).placements(values, groups) + size_prior(groups, count)
        best = likely.argmax(axis=1)
        moves = (likely[hosts, best] > likely[hosts, groups] + 1e-9) & ((hosts + turn) % 2 == 0)
        still = 0 if moves.any() else still + 1
        if still == 2:
            break
        groups, count = numbered(np.where(moves, best, groups))
    return groups


def merge(values: Values, groups: Ints) -> Ints:
    """Joins groups whose hosts are as near to each other as the hosts of each group are among themselves.

    Two groups are joined if the values between them are likelier by the level within groups than by their own level, or
    less likely by no more than :data:`CLEAR`. The likeliest pair comes first.
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
        gains = np.where(measured, gains + CLEAR, -np.inf)
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            return groups
        groups = np.where(groups == best % count, best // count, groups)

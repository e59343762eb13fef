"""Finds groups of hosts that are near each other.

1. Distances become logarithms: noise of round trips is relative and skewed to the right, and in logarithms it is nearly
   symmetric. Logarithms also compact long distances, as ``alpha`` does in the paper, so ``alpha`` is 1 by default.
2. Hosts are embedded (:mod:`~syncline.grouping.embedding`) and clustered into several numbers of groups
   (:mod:`~syncline.grouping.clusters`).
3. From each of these partitions, the block model moves hosts that the embedding misplaced, by simulated annealing, and
   joins groups that are one (:mod:`~syncline.grouping.blocks`).
4. The partition with the most evidence is kept: the one that explains the values best, less what the choice of its
   groups and levels costs. That is the finest level that the measurements support.
5. Values are kept back, and groups found without them, to say how sure the groups are: these values did not help to
   choose them, so if groups mean nothing, they are as often small within groups as between groups. The test is that of
   Mann and Whitney (1947).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from syncline.codes import Code
from syncline.grouping import blocks, clusters
from syncline.grouping.embedding import Embedding, embed
from syncline.grouping.grouping import Grouping
from syncline.grouping.packages import needed
from syncline.input.problem import bad_value, error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.distances import Measured
    from syncline.grouping.arrays import Floats, Ints

LIMIT = 0.001
"""Largest p-value of groups that are reported. The test takes pairs as independent, so chance passes it a little more
often than that; groups must also have more evidence than one group."""
MIN_HOSTS = 4
"""Fewest hosts that can be grouped."""
MIN_PAIRS = 2
"""Fewest measured pairs per host."""
BALANCE = 0.25
"""How far sizes may be from equal ones if the number of groups is given."""
DIMENSIONS = 16
"""Dimensions of the embedding. Equally distant racks need many: k of them span k - 1 dimensions."""
_FOLDS = 5
"""Parts of the values that are kept back in turn; of many values, only the first part is."""
_MANY = 4096
"""Values from which one part is enough."""
_MAX_GROUPS = 256
_PATIENCE = 6
"""Numbers of groups that may have less evidence than the best one before the search ends."""
_WORK = 1_000_000
"""Values that annealing from one start may read."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to search for groups."""

    groups: int | Literal["auto", "sqrt"] = "auto"
    """Number of groups. ``auto`` finds it, ``sqrt`` is the root of the number of hosts, which balances the load of the
    two levels of hierarchical aggregation (luo2020 4.2)."""
    balance: float | None = None
    """How far sizes may be from equal ones: 0.25 is 25 %. None: any sizes if the number is found, since racks differ in
    size, and else :data:`BALANCE`."""
    dimensions: int = DIMENSIONS
    alpha: float = 1.0
    """Exponent of embedded distances, from 1 to 2 (luo2020 4.1)."""
    heights: bool = False
    """Whether hosts have heights: delays of their own, which all their distances include."""
    by: Literal["rtt", "rate"] = "rtt"
    """Whether distances are round trips or inverse rates."""
    seed: int = 0


def find(
    measured: Measured, settings: Settings | None = None, progress: Callable[[float, str], None] | None = None
) -> Grouping:
    """Finds groups from measurements. The same measurements and settings give the same groups.

    :raises SynclineError: settings are invalid, there are too few measurements, or a package is not installed.
    """
    settings = settings or Settings()
    tell = progress or (lambda done, part: None)
    _check(settings, len(measured.hosts))
    for module, package in (("scipy", "scipy"), ("sklearn", "scikit-learn")):
        needed(module, package)
    of_pairs = measured.round_trips if settings.by == "rtt" else measured.rates
    values = _values(measured, of_pairs, settings.by)
    tell(0.0, "groups")
    place = _embed(values, settings)
    final = _without_heights(values, place)
    tell(0.2, "groups")
    start, labels = _best(final, place, _candidates(values.hosts, settings.groups), settings, tell)
    tell(0.8, "certainty")
    score, p_value = _certainty(values, start, settings)
    count = blocks.numbered(labels)[1]
    if settings.groups == "auto" and (count == 1 or p_value > LIMIT):
        count, labels, method = 1, np.zeros(values.hosts, dtype=np.int64), "one group"
    else:
        method = "Ward's method on the embedding, refined by a block model"
    second = clusters.ward(place.coordinates, [count])[count]
    balance = settings.balance if settings.balance is not None else None if settings.groups == "auto" else BALANCE
    if balance is not None and count > 1:
        tell(0.9, "clusters")
        labels = clusters.balanced(place.coordinates, count, balance, seed=settings.seed, start=second)
        method = f"balanced k-means, sizes within {balance:.0%} of equal ones".replace("%", " %")
    return Grouping(
        hosts=measured.hosts,
        groups=tuple(_by_first(labels)),
        score=score,
        p_value=p_value,
        agreement=clusters.agreement(labels, second),
        method=method,
        seed=settings.seed,
        by=settings.by,
        source=measured.source,
        values=of_pairs,
        coordinates=place.coordinates,
    )


def _check(settings: Settings, hosts: int) -> None:
    if hosts < MIN_HOSTS:
        raise_errors(
            error(Code.BAD_DISTANCES, "too few hosts to group", found=f"{hosts} hosts", allowed=f"at least {MIN_HOSTS}")
        )
    if isinstance(settings.groups, int) and not 2 <= settings.groups <= hosts // 2:
        raise bad_value(
            "not a valid number of groups", f"{settings.groups}", allowed=f"2 to {hosts // 2} for {hosts} hosts"
        )
    if settings.balance is not None and not 0 <= settings.balance <= 1:
        raise bad_value("not a valid balance", f"{settings.balance}", allowed="0 (equal sizes) to 1")
    if not 1 <= settings.alpha <= 2:
        raise bad_value("not a valid alpha", f"{settings.alpha}", allowed="1 to 2")
    if not 1 <= settings.dimensions <= 64:
        raise bad_value("not a valid number of dimensions", f"{settings.dimensions}", allowed="1 to 64")


def _values(measured: Measured, of_pairs: dict[tuple[int, int], float], by: str) -> blocks.Values:
    """Logarithms of the distances: of round trips, or of inverse rates (luo2020 4.2.1)."""
    kept = [(pair, value) for pair, value in of_pairs.items() if value > 0]
    hosts = len(measured.hosts)
    what = "round trips" if by == "rtt" else "rates"
    if len(kept) < MIN_PAIRS * hosts:
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                f"too few {what} to find groups",
                found=f"{len(kept)} pairs of {hosts} hosts",
                allowed=f"at least {MIN_PAIRS * hosts} pairs",
                help="measure more pairs" if of_pairs else f"measure {what}, or choose the others with --by",
            )
        )
    ends = np.array([pair for pair, _ in kept], dtype=np.int64)
    counts = np.bincount(ends.ravel(), minlength=hosts)
    if not counts.all():
        name = measured.hosts[int(np.argmin(counts))]
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                f"a host has no {what}",
                found=name,
                help="measure it, or leave it out of the file",
            )
        )
    logs = np.log(np.array([value for _, value in kept]))
    return blocks.Values(hosts, ends[:, 0], ends[:, 1], logs if by == "rtt" else -logs)


def _candidates(hosts: int, groups: int | str) -> list[int]:
    if isinstance(groups, int):
        return [groups]
    if groups == "sqrt":
        return [max(2, round(math.sqrt(hosts)))]
    return clusters.counts(2, min(_MAX_GROUPS, max(2, hosts // 2)))


def _embed(values: blocks.Values, settings: Settings) -> Embedding:
    return embed(
        values.hosts,
        (values.a, values.b),
        values.beyond_the_nearest(),
        dimensions=min(settings.dimensions, values.hosts - 1),
        alpha=settings.alpha,
        with_heights=settings.heights,
        seed=settings.seed,
        starts=2 if len(values.logs) < _MANY else 1,
        steps=200,
    )


def _without_heights(values: blocks.Values, place: Embedding) -> blocks.Values:
    own = place.heights
    return blocks.Values(values.hosts, values.a, values.b, values.logs - own[values.a] - own[values.b])


def _groups(values: blocks.Values, start: Ints, settings: Settings) -> Ints:
    """The partition that the block model reaches from ``start``; the more values, the fewer sweeps it needs."""
    random = np.random.default_rng([settings.seed, len(values.logs)])
    sweeps = min(max(_WORK // len(values.logs), 2), blocks.SWEEPS)
    return blocks.merge(values, blocks.anneal(values, start, random, sweeps=sweeps))


def _best(
    values: blocks.Values,
    place: Embedding,
    wanted: list[int],
    settings: Settings,
    tell: Callable[[float, str], None],
) -> tuple[int, Ints]:
    """The number of groups to start from whose partition has the most evidence, and the partition."""
    cuts = clusters.ward(place.coordinates, wanted)
    if len(wanted) == 1:
        return wanted[0], cuts[wanted[0]]
    best = (blocks.evidence(values, np.zeros(values.hosts, dtype=np.int64)), 1, np.zeros(values.hosts, dtype=np.int64))
    worse = 0
    for at, count in enumerate(wanted):
        tell(0.2 + 0.6 * at / len(wanted), f"{count} groups")
        groups = _groups(values, cuts[count], settings)
        found = blocks.evidence(values, groups)
        worse = 0 if found > best[0] else worse + 1
        if found > best[0]:
            best = (found, count, groups)
        if best[1] > 1 and worse >= _PATIENCE:
            break
    return best[1], best[2]


def _certainty(values: blocks.Values, start: int, settings: Settings) -> tuple[float, float]:
    """Score and p-value of groups that are found from ``start`` groups, by values that were kept back."""
    if start == 1:
        return 0.5, 1.0
    random = np.random.default_rng([settings.seed, len(values.logs)])
    fold = random.permutation(len(values.logs)) % _FOLDS
    inside, between = [], []
    for turn in range(_FOLDS if len(values.logs) < _MANY else 1):
        train, test = values.only(np.flatnonzero(fold != turn)), values.only(np.flatnonzero(fold == turn))
        place = _embed(train, settings)
        train, test = _without_heights(train, place), _without_heights(test, place)
        groups = _groups(train, clusters.ward(place.coordinates, [start])[start], settings)
        same = groups[test.a] == groups[test.b]
        own_levels = _own_levels(train)
        logs = test.logs - own_levels[test.a] - own_levels[test.b]
        inside.append(logs[same])
        between.append(logs[~same])
    return _compare(np.concatenate(inside), np.concatenate(between))


def _own_levels(values: blocks.Values) -> Floats:
    """By how much the values of each host exceed those of all hosts: a slow host is far from all, not in no rack."""
    both = np.concatenate([values.a, values.b])
    counts = np.bincount(both, minlength=values.hosts)
    sums = np.bincount(both, np.concatenate([values.logs, values.logs]), values.hosts)
    return np.where(counts > 0, sums / np.maximum(counts, 1) - values.logs.mean(), 0.0)


def _compare(inside: Floats, between: Floats) -> tuple[float, float]:
    """Probability that a value inside is smaller than one between, and the p-value of the one-sided test."""
    if not len(inside) or not len(between):
        return 0.5, 1.0
    test = needed("scipy.stats", "scipy").mannwhitneyu(inside, between, alternative="less", method="asymptotic")
    return float(1 - test.statistic / (len(inside) * len(between))), float(test.pvalue)


def _by_first(labels: Ints) -> list[int]:
    """The same groups, numbered by their first hosts."""
    names: dict[int, int] = {}
    return [names.setdefault(label, len(names)) for label in labels.tolist()]

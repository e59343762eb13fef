"""Divides hosts that have coordinates into groups: balanced k-means (luo2020 4.2.1), and Ward's method beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from syncline.grouping.packages import needed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.grouping.arrays import Floats, Ints

CLUSTERINGS = 4
"""Clusterings of which the most even one is kept."""
ROUNDS = 50
"""Most rounds of a clustering."""


def counts(first: int, most: int) -> list[int]:
    """Numbers of groups to try: from ``first``, each a third larger, up to ``most``; at least ``first``."""
    found = [first]
    while (following := max(found[-1] + 1, round(4 / 3 * found[-1]))) <= most:
        found.append(following)
    return found


def sizes(hosts: int, groups: int, balance: float) -> tuple[int, int]:
    """Least and greatest size of a group: within ``balance`` (0.25 is 25 %) of equal sizes, and always possible."""
    even = hosts / groups
    least = max(1, min(math.ceil(even * (1 - balance) - 1e-9), hosts // groups))
    return least, max(math.floor(even * (1 + balance) + 1e-9), math.ceil(even))


def balanced(coordinates: Floats, groups: int, balance: float, *, seed: int = 0, start: Ints | None = None) -> Ints:
    """Groups of hosts whose sizes are within ``balance`` of equal sizes, by constrained k-means.

    k-means++ chooses the first centres. A minimum-cost flow assigns hosts to centres (Bradley, Bennett and Demiriz
    2000, as in the paper): here as an assignment of hosts to places, of which each group has as many as it may have
    hosts. Of several clusterings the most even one is kept, by the variance of sizes, and of equally even ones the
    tightest. ``start`` is one more clustering to begin from, with the same number of groups.

    :raises SynclineError: the packages `scipy` and `scikit-learn` are not installed.
    """
    first = needed("sklearn.cluster", "scikit-learn").kmeans_plusplus
    least, most = sizes(len(coordinates), groups, balance)
    centres = [first(coordinates, groups, random_state=seed + turn)[0] for turn in range(CLUSTERINGS)]
    if start is not None:
        centres.append(_centres(coordinates, start, groups))
    found = []
    for turn, chosen in enumerate(centres):
        labels, misfit = _constrained(coordinates, np.asarray(chosen, dtype=np.float64), least, most)
        found.append((float(np.bincount(labels, minlength=groups).var()), misfit, turn, labels))
    return min(found, key=lambda each: each[:3])[3]


def _constrained(coordinates: Floats, centres: Floats, least: int, most: int) -> tuple[Ints, float]:
    """Lloyd's algorithm with sizes from ``least`` to ``most``; returns groups, and the sum of squared distances."""
    labels: Ints = np.full(len(coordinates), -1, dtype=np.int64)
    for _ in range(ROUNDS):
        squares = ((coordinates[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        chosen = _assigned(squares, least, most)
        if (chosen == labels).all():
            break
        labels = chosen
        centres = _centres(coordinates, labels, len(centres))
    return labels, float(((coordinates - centres[labels]) ** 2).sum())


def _assigned(costs: Floats, least: int, most: int) -> Ints:
    """The cheapest assignment of hosts (rows) to groups (columns) with sizes from ``least`` to ``most``.

    Each group has ``most`` places. Nobody takes those that stay empty, at no cost; of the first ``least`` of a group,
    none may.
    """
    hosts, groups = costs.shape
    places = np.repeat(np.arange(groups), most)
    full = np.zeros((groups * most, groups * most))
    full[:hosts] = costs[:, places]
    needed_places = np.tile(np.arange(most) < least, groups)
    # More than any assignment costs.
    full[hosts:, needed_places] = costs.sum() + 1.0
    _, columns = needed("scipy.optimize", "scipy").linear_sum_assignment(full)
    return np.asarray(places[columns[:hosts]], dtype=np.int64)


def _centres(coordinates: Floats, labels: Ints, groups: int) -> Floats:
    return np.stack([coordinates[labels == group].mean(axis=0) for group in range(groups)])


def ward(coordinates: Floats, counts: Iterable[int]) -> dict[int, Ints]:
    """Groups by Ward's method (Ward 1963), by each number of groups.

    :raises SynclineError: the package `scipy` is not installed.
    """
    library = needed("scipy.cluster.hierarchy", "scipy")
    merges = library.linkage(coordinates, "ward")
    return {count: np.asarray(library.fcluster(merges, count, "maxclust"), dtype=np.int64) - 1 for count in counts}


def agreement(one: Ints, other: Ints) -> float:
    """Adjusted Rand index of two partitions: 1 if they are equal, about 0 if they are unrelated (Hubert, Arabie 1985).

    :raises SynclineError: the package `scikit-learn` is not installed.
    """
    return float(needed("sklearn.metrics", "scikit-learn").adjusted_rand_score(one, other))

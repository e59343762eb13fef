"""Divides hosts that have coordinates into groups: balanced k-means (luo2020 4.2.1), and Ward's method beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from syncline.grouping.packages import needed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.grouping.arrays import Floats, Ints

CLUSTERINGS = 4
"""Clusterings of which the most even one is kept."""


def sizes(hosts: int, groups: int, balance: float) -> tuple[int, int]:
    """Least and greatest size of a group: within ``balance`` (0.25 is 25 %) of equal sizes, and always possible."""
    even = hosts / groups
    least = max(1, min(math.ceil(even * (1 - balance) - 1e-9), hosts // groups))
    return least, max(math.floor(even * (1 + balance) + 1e-9), math.ceil(even))


def balanced(coordinates: Floats, groups: int, balance: float, *, seed: int = 0, start: Ints | None = None) -> Ints:
    """Groups of hosts whose sizes are within ``balance`` of equal sizes, by constrained k-means.

    k-means++ chooses the first centres, and a minimum-cost flow assigns hosts (Bradley, Bennett and Demiriz 2000, as in
    the paper). Of several clusterings the most even one is kept, by the variance of sizes, and of equally even ones
    the tightest. ``start`` is one more clustering to begin from, with the same number of groups.

    :raises SynclineError: the package `k-means-constrained` is not installed.
    """
    library = needed("k_means_constrained", "k-means-constrained")
    least, most = sizes(len(coordinates), groups, balance)
    starts: list[Any] = ["k-means++"] * CLUSTERINGS
    if start is not None:
        starts.append(_centres(coordinates, start, groups))
    found = []
    for turn, first in enumerate(starts):
        clustering = library.KMeansConstrained(
            n_clusters=groups, size_min=least, size_max=most, init=first, n_init=1, random_state=seed + turn, n_jobs=1
        ).fit(coordinates)
        labels = np.asarray(clustering.labels_, dtype=np.int64)
        found.append((float(np.bincount(labels, minlength=groups).var()), float(clustering.inertia_), turn, labels))
    return min(found, key=lambda each: each[:3])[3]


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

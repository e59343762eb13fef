"""Orders hosts so that near ones are neighbours, for heat maps.

With SciPy: agglomerative clustering by average linkage (Sokal and Michener 1958) of the logarithms of distances, whose
leaves are then ordered optimally (Bar-Joseph, Gifford and Jaakkola 2001). Without it: the merges of single linkage,
which need no distances of pairs that were not measured.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from syncline.distances.summary import By
    from syncline.grouping.arrays import Floats

Pairs = dict[tuple[int, int], float]
"""A value for each pair of hosts ``(a, b)`` with ``a < b``."""
MAX_OPTIMAL = 2048
"""The most hosts whose leaves are ordered optimally, which takes time in proportion to their square or cube."""
_STEPS = 1e9
"""The core compares whole numbers: steps of a logarithm."""


def distances(values: Mapping[tuple[int, int], float], by: By) -> Pairs:
    """Logarithms of round trips or inverse rates (luo2020 4.2.1) above the smallest one, which is 0."""
    sign = 1 if by == "rtt" else -1
    logs = {pair: sign * math.log(value) for pair, value in values.items()}
    least = min(logs.values(), default=0.0)
    return {pair: value - least for pair, value in logs.items()}


def by_cluster(
    count: int, of_pairs: Pairs, groups: Sequence[int] | None = None, matrix: Floats | None = None
) -> list[int]:
    """The order of ``count`` hosts by their :func:`distances`.

    ``groups`` has the group of each host: the hosts of a group then stay together, and near groups are neighbours.
    ``matrix`` is the one of :func:`filled`, if it is known already. The same distances give the same order.
    """
    if of_pairs and count > 2 and _scipy():
        order = _leaves(filled(count, of_pairs) if matrix is None else matrix)
    else:
        merges = sorted(of_pairs, key=lambda pair: (of_pairs[pair], pair))
        order = [host for chain in _chains(count, merges) for host in chain]
    if groups is None:
        return order
    members: dict[int, list[tuple[int, int]]] = {}
    for place, host in enumerate(order):
        members.setdefault(groups[host], []).append((place, host))
    ranked = sorted(members.values(), key=lambda group: (median(place for place, _ in group), group[0]))
    return [host for group in ranked for _, host in group]


def filled(count: int, of_pairs: Pairs) -> Floats:
    """The symmetric matrix of distances, 0 on the diagonal, in which those of unmeasured pairs are inferred.

    They are inferred as those of :mod:`syncline.distances.pairs`. Hosts that no chain of measured pairs connects are
    twice as far from each other as any that one connects.
    """
    import numpy as np

    from syncline import _core

    steps = [(a, b, round(value * _STEPS)) for (a, b), value in of_pairs.items()]
    far = max((value for _, _, value in steps), default=0) + round(math.log(2) * _STEPS)
    heads = [min(chain) for chain in _chains(count, of_pairs)]
    steps += [(min(heads[0], head), max(heads[0], head), far) for head in heads[1:]]
    matrix = np.array(_core.complete_pairs(count, steps), dtype=np.float64).reshape(count, count) / _STEPS
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _scipy() -> bool:
    """Whether SciPy is installed and works."""
    try:
        import scipy.cluster.hierarchy  # noqa: F401
    except ImportError:
        return False
    return True


def _leaves(matrix: Floats) -> list[int]:
    """Leaves of the tree by average linkage, in their optimal order up to :data:`MAX_OPTIMAL` hosts."""
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    flat = squareform(matrix, checks=False)
    merges = linkage(flat, "average")
    if len(matrix) <= MAX_OPTIMAL:
        merges = optimal_leaf_ordering(merges, flat)
    order: list[int] = leaves_list(merges).tolist()
    # A tree can be read from either end: begin with the end whose host is first in the file.
    return order if order[0] < order[-1] else order[::-1]


def _chains(count: int, merges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Hosts in the order in which pairs join them (Kruskal 1956): a list for each connected part."""
    chain = {host: [host] for host in range(count)}
    part = list(range(count))
    for a, b in merges:
        if part[a] == part[b]:
            continue
        # The shorter chain moves, which keeps the time small; of equally long ones the later.
        longer, shorter = sorted((part[a], part[b]), key=lambda each: (-len(chain[each]), each))
        moved = chain.pop(shorter)
        chain[longer] += moved
        for host in moved:
            part[host] = longer
        if len(chain) == 1:
            break
    return list(chain.values())

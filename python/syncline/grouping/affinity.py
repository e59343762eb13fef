"""How well distances tell who is near whom: physical affinity inference accuracy (luo2020 6.2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from syncline.codes import Code
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def affinity_accuracy(distances: npt.ArrayLike, locations: Sequence[Sequence[object]]) -> float:
    """Share of triplets ``(a, b, c)`` for which the distances know whether ``a`` or ``b`` is nearer to ``c``.

    ``distances`` is a matrix: row ``c``, column ``a`` holds the measured distance, or NaN if there is none; the unit
    does not matter. ``locations`` holds the position of each host, from the highest level down, such as ``(region,
    data centre, cluster, row, rack)``; the host itself may follow.

    As in the paper, ``a`` and ``b`` are comparable to ``c`` if their positions share prefixes of different lengths with
    the position of ``c``, and a longer prefix is nearer. The score is 1 if the measured distances are in that order and
    0 otherwise, so equal distances score 0. Triplets with a missing distance have no score. Takes memory in
    proportion to the square of the number of hosts.

    :raises SynclineError: the matrix does not fit the locations, or no hosts are comparable.
    """
    matrix = np.asarray(distances, dtype=float)
    count = len(locations)
    if matrix.shape != (count, count):
        shape = " x ".join(map(str, matrix.shape))
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                "the matrix of distances does not fit the locations",
                found=f"{shape} numbers for {count} locations",
                allowed=f"{count} x {count} numbers",
            )
        )
    right = comparable = 0
    for observer in range(count):
        shared = np.array([_shared(locations[observer], other) for other in locations])
        known = np.isfinite(matrix[observer]) & (np.arange(count) != observer)
        for length in np.unique(shared[known])[1:]:
            near = np.sort(matrix[observer][known & (shared == length)])
            far = matrix[observer][known & (shared < length)]
            comparable += len(near) * len(far)
            # For each farther host, the nearer ones whose distance is smaller.
            right += int(np.searchsorted(near, far, side="left").sum())
    if not comparable:
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                "no two hosts are at different distances from a third one",
                help="locations need at least two levels, and hosts that differ in them",
            )
        )
    return right / comparable


def _shared(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the longest common prefix."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

"""Places hosts in a plane: a map on which near hosts are near.

Stress majorisation (Gansner, Koren and North 2004) lowers the sum over pairs of ``w (|x_i - x_j| - d_ij)^2`` with
weights ``w = d^-2`` in every step. A plane has too few dimensions for many racks that are equally far from each other.
These weights let long distances give way rather than racks break up, as they do in the two main axes of an embedding.
Hosts start on a circle, in the order of a heat map. Few of them also start by classical scaling (Torgerson 1952), and
the map with less stress is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.grouping.arrays import Floats
    from syncline.grouping.order import Pairs

STEPS = 100
"""The most steps."""
_ENOUGH = 1e-4
"""The steps end when one lowers the stress by less than this share."""
_LEAST = 0.02
"""Least distance, as a share of the largest one: nearer hosts would weigh more than all others together."""
_FEW = 256
"""The most hosts that also start by classical scaling, whose time grows with the cube of their number."""
_INFERRED = 0.01
"""Weight of distances that were not measured, beside that of measured ones."""


def places(matrix: Floats, of_pairs: Pairs, order: Sequence[int]) -> Floats:
    """Coordinates of hosts, two each, in the unit of the distances; the longer axis is the first.

    ``matrix`` holds all distances, as :func:`~syncline.grouping.order.filled` infers them, and ``of_pairs`` those that
    were measured. ``order`` has near hosts beside each other. The same distances give the same coordinates.
    """
    count = len(matrix)
    circle = np.empty((count, 2))
    angles = 2 * np.pi * np.arange(count) / count
    circle[np.asarray(order)] = np.column_stack([np.cos(angles), np.sin(angles)])
    if not (largest := float(matrix.max())):
        # No host is nearer than another.
        return circle
    targets = np.maximum(matrix, _LEAST * largest)
    weights = targets**-2.0 * _INFERRED
    a, b = np.array(list(of_pairs), dtype=np.int64).T
    weights[a, b] = weights[b, a] = weights[a, b] / _INFERRED
    np.fill_diagonal(weights, 0.0)
    starts = [circle * largest / 2]
    if count <= _FEW:
        starts.append(_classical(matrix))
    found = [_majorised(start, targets, weights) for start in starts]
    return _turned(min(found, key=lambda each: each[1])[0])


def _classical(matrix: Floats) -> Floats:
    """Classical scaling: the two main axes of the doubly centred squares of distances."""
    squares = -0.5 * matrix**2
    squares = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(squares)
    found = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    # Hosts at one point could not be told apart by the steps that follow.
    apart = 1e-3 * float(matrix.max()) * np.random.default_rng(0).standard_normal(found.shape)
    return np.asarray(found + apart, dtype=np.float64)


def _majorised(start: Floats, targets: Floats, weights: Floats) -> tuple[Floats, float]:
    """Coordinates and stress. Each step solves the least-squares problem that bounds the stress from above."""
    count = len(start)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    # The constant vector is in the kernel; adding its projection makes the matrix invertible and changes no step.
    inverse = np.linalg.inv(laplacian + np.diag(laplacian).mean() / count)
    found, stress, before = start, np.inf, np.inf
    for _ in range(STEPS):
        lengths = _lengths(found)
        stress = float((weights * (lengths - targets) ** 2).sum())
        if before - stress < _ENOUGH * stress:
            break
        before = stress
        ratios = weights * targets / lengths
        np.fill_diagonal(ratios, 0.0)
        found = inverse @ (ratios.sum(axis=1)[:, None] * found - ratios @ found)
    return found, stress


def _lengths(points: Floats) -> Floats:
    """Distances between points; on the diagonal and between equal points a number that may be divided by."""
    squares = (points**2).sum(axis=1)
    found = squares[:, None] + squares[None, :] - 2 * points @ points.T
    return np.asarray(np.sqrt(np.maximum(found, 1e-12 * max(float(squares.max()), 1e-300))), dtype=np.float64)


def _turned(points: Floats) -> Floats:
    """The points around their mean, turned so that the first axis is the longest."""
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    signs = np.where(turned[np.argmax(np.abs(turned), axis=0), (0, 1)] < 0, -1.0, 1.0)
    return np.asarray(turned * signs, dtype=np.float64)


def agreement(points: Floats, of_pairs: Pairs) -> float | None:
    """Correlation of distances on the map with the measured ones: 1 if the map is exact.

    None if either are all equal, or there are too few.
    """
    if len(of_pairs) < 3:
        return None
    a, b = np.array(list(of_pairs), dtype=np.int64).T
    lengths = np.linalg.norm(points[a] - points[b], axis=1)
    measured = np.fromiter(of_pairs.values(), dtype=np.float64)
    if lengths.std() < 1e-12 * lengths.mean() or measured.std() < 1e-12 * max(float(measured.mean()), 1e-300):
        return None
    return float(np.corrcoef(lengths, measured)[0, 1])

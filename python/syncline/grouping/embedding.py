"""Places hosts in a Euclidean space in which their distances fit what was measured (luo2020 4.2.1, objective 4.1).

Coordinates ``v`` and optional heights ``h`` minimise the sum over measured pairs of ``(|v_i - v_j|^alpha + h_i + h_j -
p_ij)^2``. The optimiser is Adam (Kingma and Ba, 2015), which the paper uses as well. The start is random; of several
starts, computed together, the one with the smallest misfit is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from syncline.grouping.arrays import Floats, Ints

LARGEST_BATCH = 8_192
"""Most pairs of one step: of more pairs, each step draws this many."""
STEPS = 300
"""Steps of the optimiser."""
RATE = 0.1
"""First learning rate, for distances whose root mean square is 1. It falls to zero along half a cosine."""
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8
_NEAR = 1e-12
"""Added to squared distances, so that their roots have a gradient."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """Where hosts are."""

    coordinates: Floats
    """A row for each host. Distances, raised to ``alpha``, are in the unit of the values that were embedded."""
    heights: Floats
    """What each host adds to all its distances, at least 0; zeros if they were not asked for."""
    alpha: float
    """Exponent of distances in the objective."""
    misfit: float
    """Root mean square of the differences from the measured values, in their unit."""

    def distances(self, a: Ints, b: Ints) -> Floats:
        """Denoised distances of pairs, in the unit of the measured values."""
        squares = np.sum((self.coordinates[a] - self.coordinates[b]) ** 2, axis=1)
        return np.asarray(squares ** (self.alpha / 2) + self.heights[a] + self.heights[b], dtype=np.float64)


def objective(
    coordinates: Floats, heights: Floats, ends: tuple[Ints, Ints], values: Floats, alpha: float
) -> tuple[float, Floats, Floats]:
    """The sum of objective 4.1, and its gradients by coordinates (a row for each host) and by heights."""
    a, b = ends
    apart = coordinates[a] - coordinates[b]
    squares = np.sum(apart**2, axis=1) + _NEAR
    error = squares ** (alpha / 2) + heights[a] + heights[b] - values
    # The derivative of |v|^alpha by v is alpha |v|^(alpha - 2) v.
    pull = (2 * error * alpha * squares ** (alpha / 2 - 1))[:, None] * apart
    count, dimensions = coordinates.shape
    by_place = np.empty_like(coordinates)
    for axis in range(dimensions):
        by_place[:, axis] = np.bincount(a, pull[:, axis], count) - np.bincount(b, pull[:, axis], count)
    by_height: Floats = (np.bincount(a, 2 * error, count) + np.bincount(b, 2 * error, count)).astype(np.float64)
    return float(error @ error), by_place, by_height


def embed(
    count: int,
    ends: tuple[Ints, Ints],
    values: Floats,
    *,
    dimensions: int = 8,
    alpha: float = 2.0,
    with_heights: bool = False,
    seed: int = 0,
    starts: int = 2,
    steps: int = STEPS,
) -> Embedding:
    """Embeds ``count`` hosts. Pair ``k`` is of the hosts ``ends[0][k]`` and ``ends[1][k]``; pairs may be missing.

    Values must not be negative. The same seed gives the same coordinates. Takes time in proportion to steps, starts and
    the pairs of a step, of which there are at most :data:`LARGEST_BATCH`.
    """
    random = np.random.default_rng(seed)
    scale = float(np.sqrt(np.mean(values**2))) or 1.0
    target = values / scale
    size = count * starts
    # All starts are one problem: the hosts of a start have numbers of their own.
    shift = np.repeat(np.arange(starts, dtype=np.int64) * count, len(target))
    a, b = np.tile(ends[0], starts) + shift, np.tile(ends[1], starts) + shift
    targets = np.tile(target, starts)
    place = random.standard_normal((size, dimensions)) * 0.5 / np.sqrt(dimensions)
    height = np.zeros(size)
    # Coordinates and heights are rows of one array, so that one update moves both.
    state = np.column_stack([place, height])
    first, second = np.zeros_like(state), np.zeros_like(state)
    degree = np.maximum(np.bincount(a, minlength=size) + np.bincount(b, minlength=size), 1)[:, None]
    for step in range(1, steps + 1):
        if len(a) > LARGEST_BATCH * starts:
            drawn = random.integers(len(target), size=LARGEST_BATCH)
            drawn = (drawn[None, :] + np.arange(starts)[:, None] * len(target)).ravel()
            _, by_place, by_height = objective(state[:, :-1], state[:, -1], (a[drawn], b[drawn]), targets[drawn], alpha)
        else:
            _, by_place, by_height = objective(state[:, :-1], state[:, -1], (a, b), targets, alpha)
        gradient = np.column_stack([by_place, by_height if with_heights else np.zeros(size)]) / degree
        first = _BETA1 * first + (1 - _BETA1) * gradient
        second = _BETA2 * second + (1 - _BETA2) * gradient**2
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        mean, variance = first / (1 - _BETA1**step), second / (1 - _BETA2**step)
        state -= rate * mean / (np.sqrt(variance) + _EPSILON)
        np.maximum(state[:, -1], 0.0, out=state[:, -1])
    best, least = 0, np.inf
    for start in range(starts):
        own = state[start * count : (start + 1) * count]
        misfit, _, _ = objective(own[:, :-1], own[:, -1], ends, target, alpha)
        if misfit < least:
            best, least = start, misfit
    own = state[best * count : (best + 1) * count]
    return Embedding(
        coordinates=own[:, :-1] * scale ** (1 / alpha),
        heights=own[:, -1] * scale,
        alpha=alpha,
        misfit=scale * float(np.sqrt(least / max(len(target), 1))),
    )

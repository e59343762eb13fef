"""Made-up data centres with known racks, and what probes between their hosts measure.

Round trips are those of :class:`syncline.grouping.DataCentre`. Rates are shares of links: a probe's connection shares
each link of its path with connections of other tenants, whose number is drawn anew for each probe, and gets the rate of
the link with the most of them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from syncline.grouping import DataCentre, embed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from syncline.grouping import Embedding

    Floats = npt.NDArray[np.float64]

HOSTS = 64
OVERSUBSCRIPTION = 2
"""Connections on a link of a level, relative to those on a link of the level below."""


@dataclass(frozen=True)
class Layout:
    """A tree of hosts, one in each rack, as 64 virtual machines in 61 racks nearly are (luo2020 6.2.5)."""

    fan_out: Sequence[int]
    """Racks in a row, rows in a cluster, and so on."""
    round_trips_s: Sequence[float]
    """Round trip of two hosts whose lowest common level is the rack, the row, and so on."""

    def centre(self, noise: float, seed: int) -> DataCentre:
        """The data centre with this noise: the standard deviation of the logarithm of a round trip."""
        return DataCentre(
            hosts=HOSTS,
            rack=1,
            spread=0.0,
            fan_out=self.fan_out,
            round_trips_s=self.round_trips_s,
            noise=noise,
            tail="log-normal",
            oversubscription=1.0,
            missing=0.0,
            seed=seed,
        )

    def places(self) -> list[int]:
        """Number of racks, rows, clusters and so on."""
        found = [HOSTS]
        for many in self.fan_out:
            found.append(math.ceil(found[-1] / many))
        return found

    def compared(self) -> dict[tuple[int, int], int]:
        """Number of triplets by the levels at which an observer meets the nearer host and the farther one."""
        sizes = [1, *(math.prod(self.fan_out[:level]) for level in range(1, len(self.fan_out) + 1)), HOSTS]
        met = [larger - smaller for smaller, larger in itertools.pairwise(sizes)]
        return {
            (near + 1, far + 1): HOSTS * met[near] * met[far]
            for far in range(len(met))
            for near in range(far)
            if met[near] and met[far]
        }


ONE = Layout((8, 4), (10e-6, 20e-6, 35e-6, 60e-6))
"""One data centre: 8 rows in 2 clusters. Of the trees with equal branches it comes closest to the paper's number of
triplets; round trips are the defaults of the package."""
MANY = Layout((4, 2, 4), (10e-6, 20e-6, 35e-6, 60e-6, 500e-6))
"""Two data centres with 8 clusters and 16 rows, nearly the paper's 2, 7 and 15. The round trip between data centres is
an assumption; between zones of a region of IBM Cloud it is 0.13 to 2.2 ms."""


def round_trips(centre: DataCentre) -> Floats:
    """Matrix of measured round trips in seconds."""
    measured = centre.measured()
    return np.array(measured.matrix(measured.round_trips))


def inverse_rates(centre: DataCentre, load: float) -> Floats:
    """Matrix of inverse rates of probes, relative to an idle path.

    ``load`` is the mean number of connections of other tenants on a host's link.
    """
    a, b = np.triu_indices(centre.hosts, 1)
    levels = _levels(centre)[a, b]
    random = np.random.default_rng([centre.seed, 3])
    most = np.zeros(len(a))
    for level in range(int(levels.max()) + 1):
        # Up and down: one link of this level at either end of the path.
        for _ in range(2):
            drawn = random.poisson(load * OVERSUBSCRIPTION**level, len(a))
            most = np.where(level <= levels, np.maximum(most, drawn), most)
    found = np.zeros((centre.hosts, centre.hosts))
    found[a, b] = found[b, a] = 1 + most
    return found


def embedded(distances: Floats, alpha: float, dimensions: int, *, heights: bool = False, seed: int = 0) -> Floats:
    """Matrix of the distances in an embedding of measured ones, by objective 4.1."""
    a, b = np.triu_indices(len(distances), 1)
    found: Embedding = embed(
        len(distances),
        (a, b),
        distances[a, b],
        dimensions=dimensions,
        alpha=alpha,
        with_heights=heights,
        seed=seed,
    )
    ends = np.indices(distances.shape).reshape(2, -1)
    return found.distances(ends[0], ends[1]).reshape(distances.shape)


def _levels(centre: DataCentre) -> npt.NDArray[np.int64]:
    """Matrix of the lowest levels that hosts share: 0 for the rack."""
    ends = np.indices((centre.hosts, centre.hosts)).reshape(2, -1)
    return centre.levels(ends[0], ends[1]).reshape(centre.hosts, centre.hosts)


def expected_of_round_trips(layout: Layout, noise: float) -> float:
    """Expected accuracy of round trips with log-normal noise, in closed form.

    The logarithms of two round trips differ by a normal variable with ``sqrt(2)`` times the noise.
    """
    times = layout.round_trips_s
    return _mean(
        layout,
        {
            (near, far): 0.5 * (1 + math.erf(math.log(times[far] / times[near]) / (2 * noise)))
            for near, far in layout.compared()
        },
    )


def expected_of_rates(layout: Layout, load: float) -> float:
    """Expected accuracy of rates, in closed form.

    It is the probability that the busiest link of the path to the nearer host has fewer connections.
    """
    limit = math.ceil(load * OVERSUBSCRIPTION ** len(layout.fan_out) * 2 + 60)

    def at_most(level: int) -> list[float]:
        """Probability that no link of the path has more than k connections, by k."""
        product = [1.0] * limit
        for each in range(level + 1):
            mean, term, total = load * OVERSUBSCRIPTION**each, math.exp(-load * OVERSUBSCRIPTION**each), 0.0
            for count in range(limit):
                total += term
                term *= mean / (count + 1)
                product[count] *= total**2
        return product

    chances = {level: at_most(level) for pair in layout.compared() for level in pair}
    return _mean(
        layout,
        {
            (near, far): sum(
                chances[near][count - 1] * (chances[far][count] - chances[far][count - 1]) for count in range(1, limit)
            )
            for near, far in layout.compared()
        },
    )


def _mean(layout: Layout, chances: dict[tuple[int, int], float]) -> float:
    """Mean over all triplets."""
    counts = Counter(layout.compared())
    return sum(counts[pair] * chance for pair, chance in chances.items()) / counts.total()


def noise_for(layout: Layout, accuracy: float) -> float:
    """The noise at which round trips have this expected accuracy."""
    return _bisected(lambda noise: expected_of_round_trips(layout, noise) > accuracy, 1e-3, 10.0)


def load_for(layout: Layout, accuracy: float) -> float:
    """The load at which rates have this expected accuracy."""
    return _bisected(lambda load: expected_of_rates(layout, load) < accuracy, 0.0, 10.0)


def _bisected(low_side: Callable[[float], bool], low: float, high: float) -> float:
    """The value up to which ``low_side`` is true."""
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if low_side(middle) else (low, middle)
    return (low + high) / 2

"""Round trips of data centres that do not exist, with known racks: for tests, and to try out how well racks are found.

A data centre is a tree: hosts in racks, racks in pods, pods in rows, and so on. The round trip of two hosts depends on
the lowest level that they share. Each probe adds noise of its own, and crossing an oversubscribed level adds queueing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from syncline.distances import Measured, Pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.grouping.arrays import Floats, Ints

ROUND_TRIPS_S = (10e-6, 20e-6, 35e-6, 60e-6, 100e-6)
"""Round trip of two hosts in one rack, pod, row, data centre and region, without noise."""
QUEUE_S = 1e-6
"""Mean queueing delay of an upper level that is oversubscribed 2:1."""
OUTLIERS = 0.02
"""Share of the probes that a long delay hits, if noise is heavy-tailed."""
TAIL = 1.5
"""Index of the Pareto distribution of these delays: their variance is infinite."""


@dataclass(frozen=True, kw_only=True)
class DataCentre:
    """A data centre with known racks. The same fields give the same network and the same noise."""

    hosts: int
    """Number of hosts."""
    rack: int = 16
    """Mean number of hosts in a rack."""
    fan_out: Sequence[int] = ()
    """Racks in a pod, pods in a row, and so on. Empty: two levels, in the rack and beyond it."""
    spread: float = 0.5
    """How unequal racks are: sizes are drawn evenly from ``rack * (1 - spread)`` to ``rack * (1 + spread)``."""
    round_trips_s: Sequence[float] = ROUND_TRIPS_S
    """Round trip in a rack, in a pod and so on, in seconds: two more than ``fan_out``, or more of them."""
    noise: float = 0.1
    """Standard deviation of the logarithm of a probe's noise: 0.1 is 10 %."""
    tail: Literal["log-normal", "heavy"] = "heavy"
    """``heavy`` adds rare long delays to log-normal noise."""
    oversubscription: float = 2.0
    """Of every level above racks: adds an exponential delay of mean ``QUEUE_S * (oversubscription - 1)`` for each."""
    missing: float = 0.1
    """Share of the pairs whose probes are never answered."""
    seed: int = 0
    """Seed of the sizes, the order of hosts, the missing pairs and the noise."""

    @cached_property
    def locations(self) -> Ints:
        """Position of each host: a row of numbers, from the highest level down to the rack."""
        random = np.random.default_rng([self.seed, 0])
        sizes: list[int] = []
        low, high = max(1, round(self.rack * (1 - self.spread))), max(1, round(self.rack * (1 + self.spread)))
        while (left := self.hosts - sum(sizes)) > 0:
            sizes.append(min(int(random.integers(low, high + 1)), left))
        # The last rack gets what is left. Too small to be called a rack, it joins the one before.
        if len(sizes) > 1 and sizes[-1] < low:
            sizes[-2:] = [sizes[-2] + sizes[-1]]
        rack = np.repeat(np.arange(len(sizes)), sizes)
        columns = [rack]
        for many in self.fan_out:
            columns.append(columns[-1] // many)
        return np.stack(columns[::-1], axis=1)[random.permutation(self.hosts)]

    @property
    def racks(self) -> Ints:
        """Rack of each host."""
        return self.locations[:, -1]

    @cached_property
    def _lost(self) -> frozenset[tuple[int, int]]:
        """Pairs whose probes are never answered."""
        if not self.missing:
            return frozenset()
        random = np.random.default_rng([self.seed, 1])
        a, b = np.triu_indices(self.hosts, 1)
        lost = random.random(len(a)) < self.missing
        return frozenset(zip(a[lost].tolist(), b[lost].tolist(), strict=True))

    @cached_property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 2])

    def levels(self, a: Ints, b: Ints) -> Ints:
        """The lowest level that hosts share: 0 for the rack, 1 for the pod, and so on."""
        same: Ints = self.locations[a] == self.locations[b]
        return np.asarray(len(self.fan_out) + 1 - same.sum(axis=1), dtype=np.int64)

    def probe(self, pairs: Iterable[tuple[int, int]]) -> list[float | None]:
        """Round trips of one probe of each pair, in seconds; None where no answer came. Each call has new noise."""
        chosen = list(pairs)
        if not chosen:
            return []
        ends = np.array(chosen)
        times = self.times(self.levels(ends[:, 0], ends[:, 1]))
        lost = self._lost
        return [
            None if (min(pair), max(pair)) in lost else float(time) for pair, time in zip(chosen, times, strict=True)
        ]

    def times(self, levels: Ints) -> Floats:
        """Round trips of pairs that share these levels, in seconds; each call has new noise."""
        random = self._random
        times = np.asarray(self.round_trips_s)[levels]
        if self.oversubscription > 1:
            mean = QUEUE_S * (self.oversubscription - 1) * levels
            times = times + mean * random.exponential(size=len(times))
        times = times * np.exp(self.noise * random.standard_normal(len(times)))
        if self.tail == "heavy" and self.noise:
            hit = random.random(len(times)) < OUTLIERS
            times = times * (1 + hit * 10 * self.noise * random.pareto(TAIL, len(times)))
        return times

    def measured(self, pairs: Iterable[tuple[int, int]] | None = None) -> Measured:
        """Measurements of ``pairs``, by default of all of them, one probe each. Without those that are missing."""
        if pairs is None:
            a, b = np.triu_indices(self.hosts, 1)
            pairs = zip(a.tolist(), b.tolist(), strict=True)
        chosen = list(pairs)
        digits = len(str(self.hosts - 1))
        names = tuple(f"host{number:0{digits}}" for number in range(self.hosts))
        found = {
            pair: Pair(rtt_s=time, samples=1)
            for pair, time in zip(chosen, self.probe(chosen), strict=True)
            if time is not None
        }
        return Measured(names, found)


def without_structure(hosts: int, *, noise: float, missing: float = 0.1, seed: int = 0) -> DataCentre:
    """Hosts that are all equally far from each other: nothing but noise."""
    return DataCentre(
        hosts=hosts, rack=1, spread=0.0, round_trips_s=(math.nan, 20e-6), noise=noise, missing=missing, seed=seed
    )

"""How well racks are found from few probes and from all pairs, beside what the same probes could tell at best.

Usage: grouping.py [--seeds FIRST:LAST] [HOSTS...]. Prints a row for each data centre of
:mod:`syncline.grouping.synthetic`: adjusted Rand indices, the mean and the least over seeds, and CPU seconds.

Columns:

- ``probes``: `syncline group` from the probes that the sampled schedule chose, ``2 N log2 N`` of them;
- ``same probes``: each host is placed by these probes with all other hosts' racks known, and the distribution of noise;
- ``best probes``: so is each host, but by its share of ``2 N log2 N`` probes, each of which goes to the rack that is
  expected to tell most about this host. Racks need not be found first, so no schedule can be expected to do better;
- ``all pairs`` and ``oracle``: `syncline group` from one probe of each pair, and as ``same probes`` from these.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time

import numpy as np
import numpy.typing as npt
from requirement import print_out
from sklearn.metrics import adjusted_rand_score

from syncline.distances import Measured, Pair
from syncline.grouping import DataCentre, find
from syncline.probing import Turns, sampled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LAYOUTS: tuple[tuple[int, int, tuple[int, ...]], ...] = tuple(
    (hosts, rack, fan_out)
    for hosts, racks in ((64, (8, 16)), (256, (16, 32)), (1024, (16, 32)))
    for rack in racks
    for fan_out in ((), (4,), (4, 4))
)
"""Hosts, mean size of a rack, and racks in a pod and pods in a row."""
NOISE = (0.1, 0.4)
BINS = 120
"""Bins of the distributions of noise."""
MOST_OF_ALL = 256
"""Most hosts of which all pairs are probed."""


@dataclasses.dataclass(frozen=True)
class Oracle:
    """What is known about a data centre apart from the rack of one host."""

    centre: DataCentre
    edges: Floats
    """Bounds of the bins of the logarithms of round trips."""
    logs: Floats
    """Logarithm of the probability of each bin (column), for each level (row)."""
    levels: Ints
    """Level of two racks."""

    @classmethod
    def of(cls, centre: DataCentre) -> Oracle:
        """Of a data centre; the distribution of its noise is that of 200,000 round trips of each level."""
        other = dataclasses.replace(centre, seed=centre.seed + 10_000)
        count = len(centre.fan_out) + 2
        drawn = [np.log(other.times(np.full(200_000, level))) for level in range(count)]
        low, high = (pick(np.quantile(each, q) for each in drawn) for pick, q in ((min, 1e-4), (max, 0.999)))
        edges = np.linspace(low, high, BINS + 1)
        shares = np.stack([np.bincount(_bins(edges, each), minlength=BINS) + 0.5 for each in drawn])
        first = np.unique(centre.racks, return_index=True)[1]
        a, b = np.indices((len(first), len(first)))
        levels = centre.levels(first[a.ravel()], first[b.ravel()]).reshape(a.shape)
        return cls(centre, edges, np.log(shares / shares.sum(axis=1, keepdims=True)), levels)

    def others(self) -> Ints:
        """How many other hosts are in each rack (column), for each host (row)."""
        racks = self.centre.racks
        return np.asarray(np.bincount(racks) - (racks[:, None] == np.arange(len(self.levels))), dtype=np.int64)

    def of_probes(self, measured: Measured) -> float:
        """Adjusted Rand index if each host is placed by what was measured, given the racks of all others."""
        racks = self.centre.racks
        likely = np.log(np.maximum(self.others(), 1e-9))
        for (a, b), pair in measured.pairs.items():
            by_level = self.logs[:, int(_bins(self.edges, np.array([math.log(pair.rtt_s or 1.0)]))[0])]
            likely[a] += by_level[self.levels[racks[b]]]
            likely[b] += by_level[self.levels[racks[a]]]
        return float(adjusted_rand_score(racks, likely.argmax(axis=1)))

    def of_best_probes(self) -> float:
        """The same for probes that are expected to tell most about each host; no pair is probed twice."""
        racks, random = self.centre.racks, np.random.default_rng(self.centre.seed)
        shares, left = np.exp(self.logs), self.others()
        entropy = -(shares * self.logs).sum(axis=1)
        likely = np.log(np.maximum(left, 1e-9))
        at_level = np.stack([self.levels == level for level in range(len(shares))]).astype(np.float64)
        budget = int(2 * self.centre.hosts * math.log2(self.centre.hosts))
        while budget > 0:
            chance = np.exp(likely - likely.max(axis=1, keepdims=True))
            chance /= chance.sum(axis=1, keepdims=True)
            hosts = np.flatnonzero(chance.max(axis=1) < 0.9995)
            hosts = hosts[np.argsort(chance[hosts].max(axis=1), kind="stable")][:budget]
            mixed = np.einsum("nk,lgk->ngl", chance[hosts], at_level)
            answers = mixed @ shares
            tells = -(answers * np.log(answers + 1e-300)).sum(axis=2) - mixed @ entropy
            tells = np.where(left[hosts] > 0, tells + 1e-9 * random.random(tells.shape), -1.0)
            probed = tells.argmax(axis=1)
            possible = tells.max(axis=1) > 0
            hosts, probed = hosts[possible], probed[possible]
            if not len(hosts):
                break
            left[hosts, probed] -= 1
            budget -= len(hosts)
            answered = random.random(len(hosts)) >= self.centre.missing
            hosts, probed = hosts[answered], probed[answered]
            sums = shares.cumsum(axis=1)[self.levels[racks[hosts], probed]]
            found = np.minimum((sums < random.random((len(hosts), 1))).sum(axis=1), BINS - 1)
            likely[hosts] += self.logs[self.levels[probed], found[:, None]]
        return float(adjusted_rand_score(racks, likely.argmax(axis=1)))


def _bins(edges: Floats, logs: Floats) -> Ints:
    return np.clip(np.searchsorted(edges, logs, side="right") - 1, 0, BINS - 1).astype(np.int64)


def measured_by_few(centre: DataCentre) -> Measured:
    """What the sampled schedule measures."""
    turns = Turns(sampled(centre.seed)(centre.hosts))
    found: dict[tuple[int, int], Pair] = {}
    results: dict[tuple[int, int], Pair] = {}
    while (pairs := turns.next(results)) is not None:
        times = zip(pairs, centre.probe(pairs), strict=True)
        results = {pair: Pair(rtt_s=seconds, samples=1) for pair, seconds in times if seconds is not None}
        found |= results
    return Measured(tuple(f"host{number}" for number in range(centre.hosts)), found)


def main(words: list[str]) -> None:
    """Prints the table."""
    seeds = range(1, 4)
    if words[:1] == ["--seeds"]:
        seeds, words = range(*map(int, words[1].split(":"))), words[2:]
    chosen = [int(word) for word in words]
    print_out(
        "hosts  rack  fan-out  noise      probes  same probes  best probes    all pairs       oracle  schedule, group"
    )
    for hosts, rack, fan_out in LAYOUTS:
        for noise in NOISE if not chosen or hosts in chosen else ():
            rows = []
            for seed in seeds:
                centre = DataCentre(hosts=hosts, rack=rack, fan_out=fan_out, noise=noise, seed=seed)
                oracle = Oracle.of(centre)
                begun = time.process_time()
                measured = measured_by_few(centre)
                probed = time.process_time()
                groups = np.array(find(measured).groups)
                grouped = time.process_time()
                row = [adjusted_rand_score(centre.racks, groups), oracle.of_probes(measured), oracle.of_best_probes()]
                row += [math.nan, math.nan]
                if hosts <= MOST_OF_ALL:
                    every = centre.measured()
                    row[3:] = [adjusted_rand_score(centre.racks, np.array(find(every).groups)), oracle.of_probes(every)]
                rows.append([*row, probed - begun, grouped - probed])
            table = np.array(rows)
            shown = [f"{mean:.2f} ({low:.2f})" for mean, low in zip(table.mean(0), table.min(0), strict=True)][:5]
            tiers = " x ".join(map(str, fan_out)) or "flat"
            cells = " ".join(f"{cell:>12}" for cell in shown)
            seconds = f"{table[:, 5].mean():.1f} s, {table[:, 6].mean():.1f} s"
            print_out(f"{hosts:5} {rack:5}  {tiers:>7}  {noise:5.0%} {cells}  {seconds:>15}")


if __name__ == "__main__":
    main(sys.argv[1:])

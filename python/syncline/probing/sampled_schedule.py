"""The sampled schedule: few pairs of hosts that suffice to find racks, unless there are too many racks or noise.

A round has pairs in which no host appears twice, so that probes do not disturb each other (luo2020 4.2.1 and 5.2.2).
The schedule finds racks with at most ``2 N log2 N`` probes: it asks for the results of each round, and chooses the next
pairs by them. Chance alone would not do: of 1,024 hosts in racks of 16, that many random pairs hold less than one rack
mate of each host.

It finds groups from the top down, before most hosts have any. In a *cell*, at first all hosts:

1. It probes all pairs of some hosts of the cell, the *core*, and divides the core into groups.
2. It adds some other hosts: a host probes members of groups that are likely its own, given what it has probed before
   (Thompson 1933: groups are drawn by their probability), until one is likely enough. A host that is in none begins a
   group of its own.
3. Each group becomes a cell, which may divide again. Its core is small: as large as needed to show groups that are
   there (:func:`_visible`).

Then it adds all other hosts to the finest groups in the same way, once it knows them: a probe of a known rack says
something about rack, pod and row, where one of a pod says nothing about racks. What is left of the probes goes to the
hosts whose groups are least certain. Groups stay open to change until the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from syncline.grouping import blocks, clusters
from syncline.grouping.embedding import embed
from syncline.grouping.search import DIMENSIONS
from syncline.probing.tournament import tournament

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from syncline.distances import Pair
    from syncline.grouping.arrays import Floats, Ints

    Round = list[tuple[int, int]]
    Rounds = Generator[Round, None, None]

CORE = 0.2
"""Share of all probes that the first core uses."""
LARGEST_CORE = 0.75
"""Share that it may use while it shows no groups."""
PARTS = 4
"""Groups into which a group is expected to divide, if it does."""
STEP = math.log(1.75)
"""Least logarithm of the ratio of round trips beyond and within such groups that is looked for."""
BELOW = 0.3
"""Share that the cores of one level below may use."""
ENOUGH = 24
"""Hosts in a group, on average, from which on the groups are divided in turn."""
RESERVE = 0.15
"""Share of all probes that is kept for uncertain hosts."""
SMALLEST = 6
"""Fewest hosts of a cell that is divided."""
SURE = 0.8
"""Probability of a group from which on a host is added to it."""
NEW = 0.95
"""Probability of a new group from which on a host begins one."""
SEEN = 3
"""Answered probes of a host up to which it comes before hosts that are less certain."""
CERTAIN = 0.999
"""Probability from which on a host is not probed any more while others are less certain."""
SWEEPS = 12
"""Sweeps of annealing of a core, of which all pairs are known."""


def probes(hosts: int) -> int:
    """Most probes of the sampled schedule: ``2 N log2 N``, but at most two for every pair."""
    return min(int(2 * hosts * math.log2(hosts)), hosts * (hosts - 1)) if hosts > 1 else 0


def sampled_schedule(hosts: int, seed: int) -> Generator[list[tuple[int, int]], Mapping[tuple[int, int], Pair], None]:
    """Yields rounds of pairs ``(from, to)``; needs to be sent the results of each round, by pair.

    Results may lack pairs: a probe that was not answered. At most :func:`probes` pairs are yielded. The same seed and
    results give the same rounds.

    :raises SynclineError: a package of the extra ``group`` is not installed.
    """
    state = _State(hosts, np.random.default_rng(seed), probes(hosts))
    for pairs in _search(state):
        state.add(pairs, (yield pairs))


@dataclass
class _State:
    """What has been probed, and the groups found so far."""

    hosts: int
    random: np.random.Generator
    left: int
    """Probes left."""
    a: list[int] = field(default_factory=list)
    b: list[int] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)
    asked: set[tuple[int, int]] = field(default_factory=set)
    """Pairs that were probed, answered or not, the smaller number first."""
    groups: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.groups = np.zeros(self.hosts, dtype=np.int64)

    def add(self, pairs: Round, results: Mapping[tuple[int, int], Pair] | None) -> None:
        """Takes the results of a round."""
        for pair in pairs:
            found = (results or {}).get(pair)
            if found is not None and found.rtt_s:
                self.a.append(pair[0])
                self.b.append(pair[1])
                self.logs.append(math.log(found.rtt_s))

    def take(self, pairs: Iterable[tuple[int, int]]) -> Round:
        """The pairs that have not been probed, as many as there are probes left; counts them as probed."""
        fresh = [pair for pair in pairs if _key(*pair) not in self.asked][: self.left]
        self.asked.update(_key(*pair) for pair in fresh)
        self.left -= len(fresh)
        return fresh

    def among(self, hosts: Ints) -> blocks.Values:
        """What was measured between some hosts, renumbered in their order."""
        ends = (np.array(self.a, dtype=np.int64), np.array(self.b, dtype=np.int64))
        return blocks.Values(self.hosts, *ends, np.array(self.logs)).among(hosts)


def _key(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _search(state: _State) -> Rounds:
    everyone = np.arange(state.hosts, dtype=np.int64)
    whole = state.left
    yield from _cell(state, everyone, CORE * whole, LARGEST_CORE * whole)
    if state.groups.max() > 0:
        yield from _add(state, everyone, state.groups, int(RESERVE * whole))
    yield from _doubt(state)
    # Without groups, or when all near pairs are known, every pair that is left is as good as any other.
    while state.left:
        before = state.left
        for pairs in tournament(state.random.permutation(everyone).tolist()):
            if fresh := state.take(pairs):
                yield fresh
            if not state.left:
                return
        if state.left == before:
            state.asked.clear()


def _doubt(state: _State) -> Rounds:
    """Spends what is left on the hosts whose groups are least certain, with all groups open to change."""
    everyone = np.arange(state.hosts, dtype=np.int64)
    again = state.left
    while state.left:
        if state.left <= again:
            # What has been probed may show groups by now that it did not show before.
            state.groups = _divide(state, everyone, state.groups)[0]
            again = state.left // 2
        values = state.among(everyone)
        groups = blocks.anneal(values, state.groups, state.random, sweeps=4)
        groups, count = blocks.numbered(blocks.merge(values, groups))
        state.groups = groups
        if count < 2:
            return
        model = blocks.fit(values, groups, count)
        chances = _chances(model, values, groups, new=False)
        most = chances.max(axis=1)
        seen = np.bincount(np.concatenate([values.a, values.b]), minlength=state.hosts)
        # Groups need some values of every host.
        order = np.lexsort([most, seen >= SEEN])[: max(int((most < CERTAIN).sum()), state.hosts // 8)]
        pairs = state.take(_partners(state, everyone, groups, order, chances))
        if not pairs:
            return
        yield pairs


def _cell(state: _State, hosts: Ints, first: float, most: float) -> Rounds:
    """Divides a cell into groups, and these in turn. Hosts that do not get a group have -1.

    A core that uses about ``first`` probes is enlarged while it shows no groups, and uses ``most`` at most.
    """
    used = 0
    size = _core_size(len(hosts), first)
    values = state.among(hosts)
    known = np.bincount(values.a, minlength=len(hosts)) + np.bincount(values.b, minlength=len(hosts))
    order = np.argsort(-(known + 0.5 * state.random.random(len(hosts))), kind="stable")
    while True:
        if size < SMALLEST:
            return
        core = order[:size]
        for pairs in tournament(hosts[state.random.permutation(core)].tolist()):
            if fresh := state.take(pairs):
                used += len(fresh)
                yield fresh
        of_core, count = _divide(state, hosts[core])
        larger = min(len(hosts), int(1.25 * size) + 1)
        if count > 1 or size == len(hosts) or used + _pairs(larger) - _pairs(size) > most:
            break
        size = larger
    if count < 2:
        return
    groups = np.full(len(hosts), -1, dtype=np.int64)
    groups[core] = of_core
    yield from _add(state, hosts, groups, int(RESERVE * probes(state.hosts)), enough=ENOUGH * count)
    placed = np.flatnonzero(groups >= 0)
    values = state.among(hosts[placed])
    found, count = blocks.numbered(blocks.merge(values, blocks.anneal(values, groups[placed], state.random)))
    if count < 2:
        return
    groups[placed] = found
    state.groups[hosts] = np.where(groups < 0, -1, int(state.groups.max()) + 1 + groups)
    cells = [hosts[groups == group] for group in range(count)]
    share = BELOW * probes(state.hosts) * len(hosts) / state.hosts / count
    size = _visible(blocks.fit(values, found, count).sigma)
    below = [_cell(state, cell, min(_pairs(size // 2), share), min(_pairs(size), share)) for cell in cells]
    yield from _together(below)


def _visible(sigma: float) -> int:
    """Hosts of a core in which :data:`PARTS` equal groups would show, at a step of :data:`STEP` and noise ``sigma``.

    Of ``n`` hosts, ``n (n / k - 1) / 2`` pairs are in one of ``k`` groups, each of which adds about
    ``(step / sigma)^2 / 2`` to the evidence. The choice of groups costs ``n log k``. Half as many hosts more leave room
    for groups of different sizes.
    """
    return math.ceil(1.5 * PARTS * (1 + 4 * math.log(PARTS) * (sigma / STEP) ** 2))


def _pairs(hosts: int) -> int:
    return hosts * (hosts - 1) // 2


def _core_size(hosts: int, budget: float) -> int:
    """The most hosts whose pairs the budget allows to probe."""
    return min(hosts, int((1 + math.sqrt(1 + 8 * budget)) / 2))


def _together(searches: list[Rounds]) -> Rounds:
    """Runs searches among different hosts at the same time: each round has the pairs of all of them."""
    while searches:
        pairs: Round = []
        running = []
        for search in searches:
            found = next(search, None)
            if found is not None:
                pairs += found
                running.append(search)
        searches = running
        if pairs:
            yield pairs


def _divide(state: _State, core: Ints, known: Ints | None = None) -> tuple[Ints, int]:
    """Groups of a core, and their number: those with the most evidence, if it is clearly more than that of ``known``.

    ``known`` are groups found before, by default one group.
    """
    values, hosts = state.among(core), len(core)
    best: Ints = np.zeros(hosts, dtype=np.int64) if known is None else known
    before = blocks.numbered(best)[1]
    limit = hosts // 2 if before == 1 else min(3 * before, hosts // 3)
    if len(values.logs) < 2 * hosts:
        return blocks.numbered(best)
    ends, dimensions = (values.a, values.b), min(DIMENSIONS, hosts - 1)
    place = embed(hosts, ends, values.beyond_the_nearest(), dimensions=dimensions, alpha=1.0, starts=1, steps=100)
    most = blocks.evidence(values, best) + blocks.CLEAR
    for start in clusters.ward(place.coordinates, clusters.counts(2, max(limit, 2))).values():
        groups = blocks.merge(values, blocks.anneal(values, start, state.random, sweeps=SWEEPS))
        found = blocks.evidence(values, groups)
        if found > most:
            best, most = groups, found
    return blocks.numbered(best)


def _add(state: _State, hosts: Ints, groups: Ints, reserve: int, *, enough: int | None = None) -> Rounds:
    """Finds the groups of hosts whose group is -1, and writes them into ``groups``.

    It ends when ``enough`` hosts have groups, and the others keep -1; or when no more than ``reserve`` probes are left,
    and the others get their likeliest groups.
    """
    while True:
        values = state.among(hosts)
        count = int(groups.max()) + 1
        model = blocks.fit(values, groups, count)
        chances = _chances(model, values, groups, new=True)
        own, fresh = chances[:, :count], chances[:, count:].sum(axis=1)
        best, most = own.argmax(axis=1), own.max(axis=1)
        placed = groups >= 0
        seen = np.bincount(values.a, placed[values.b], len(hosts)) + np.bincount(values.b, placed[values.a], len(hosts))
        # The only host of its group stays: without it, the group would be gone.
        only = placed & (np.bincount(groups[placed], minlength=count)[groups] == 1)
        groups[:] = np.where(only, groups, np.where((most > SURE) & (seen > 1), best, -1))
        alone = np.flatnonzero((groups < 0) & (fresh > NEW) & (seen > 2))
        if len(alone):
            # Some at a time: two of them may be of the same new group.
            chosen = alone[np.argsort(-fresh[alone], kind="stable")][: max(1, len(alone) // 4)]
            groups[chosen] = count + np.arange(len(chosen))
            continue
        unsure = np.flatnonzero(groups < 0)
        # Hosts that are nearly certain come first: once added, they can be probed by the others.
        nearly = unsure[np.argsort(-most[unsure], kind="stable")]
        if enough is not None and len(hosts) - len(unsure) >= enough:
            return
        pairs = state.take(_partners(state, hosts, groups, nearly, own))
        if not pairs or state.left <= reserve:
            if enough is None:
                groups[:] = np.where(groups < 0, best, groups)
            if pairs:
                yield pairs
            return
        yield pairs


def _chances(model: blocks.Blocks, values: blocks.Values, groups: Ints, *, new: bool) -> Floats:
    """Probability of each group (column) of each host (row); with ``new``, also of a new group beside each group."""
    count = len(model.levels)
    likely = model.placements(values, groups) + blocks.size_prior(groups, count)
    if new:
        # A new group is as far from each group as that from its nearest neighbour in the tree. How likely one is
        # follows from how many groups have been seen only once (Good 1953).
        apart = model.tree + np.diag(np.full(count, np.inf))
        beside = model.levels.copy()
        np.fill_diagonal(beside, apart.min(axis=1) if count > 1 else model.levels[0, 0] + 3 * model.sigma)
        once = int((np.bincount(groups[groups >= 0], minlength=count) == 1).sum())
        likely = np.hstack([likely, model.placements(values, groups, beside) + math.log((1 + once) / count)])
    found = np.exp(likely - likely.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True), dtype=np.float64)


def _partners(state: _State, hosts: Ints, groups: Ints, unsure: Ints, chances: Floats) -> Round:
    """Pairs of unsure hosts and members of groups that are drawn by their probability; no host twice."""
    count = chances.shape[1]
    members = [state.random.permutation(np.flatnonzero(groups == group)).tolist() for group in range(count)]
    sums = chances.cumsum(axis=1)
    busy: set[int] = set()
    pairs: Round = []
    for host in unsure.tolist():
        if host in busy:
            continue
        drawn = np.searchsorted(sums[host], state.random.random(4) * sums[host, -1])
        for group in dict.fromkeys(np.minimum(drawn, count - 1).tolist()):
            other = next(
                (
                    each
                    for each in members[group]
                    if each != host and each not in busy and _key(int(hosts[host]), int(hosts[each])) not in state.asked
                ),
                None,
            )
            if other is not None:
                busy.update((host, other))
                pairs.append((int(hosts[host]), int(hosts[other])))
                break
    return pairs

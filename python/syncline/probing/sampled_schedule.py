"""The sampled schedule: few pairs of hosts that suffice to find racks.

A round has pairs in which no host appears twice, so that probes do not disturb each other (luo2020 4.2.1 and 5.2.2).
The schedule finds racks with at most ``2 N log2 N`` probes: it asks for the results of each round, and chooses the next
pairs by them. Chance alone would not do: of 1,024 hosts in racks of 16, that many random pairs hold less than one rack
mate of each host.

It works from the top down. In a *cell*, at first all hosts:

1. It probes all pairs of some hosts of the cell, the *core*, and divides the core into groups.
2. It adds the other hosts: a host probes members of groups that are likely its own, given what it has probed before
   (Thompson 1933: groups are drawn by their probability), until one is likely enough. A host that is in none begins a
   group of its own.
3. Each group becomes a cell.

What is left of the probes goes to the hosts whose groups are least certain.
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

CORE = 0.25
"""Share of a cell's probes that its first core may use."""
LARGEST_CORE = 0.9
"""Share that the core may use while it shows no groups."""
ADDED = 0.85
"""Share of the rest that adding hosts may use; what is left goes to the cells below."""
RESERVE = 0.12
"""Share of all probes that is kept for uncertain hosts."""
SMALLEST = 6
"""Fewest hosts of a cell that is divided."""
SURE = 0.95
"""Probability of a group from which on a host is added to it."""
CERTAIN = 0.999
"""Probability from which on a host is not probed any more."""
NEW = 0.3
"""Weight of a new group, relative to an existing one."""
MIN_Z = 3.0
"""Standard errors by which groups must predict values of a core better than one group."""
COMPARED = 4
"""Rounds of probes between the hosts of two groups that are near each other, at a time."""
_FOLDS = 3


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
    yield from _cell(state, everyone, state.left * (1 - RESERVE))
    groups, count = blocks.numbered(state.groups)
    if count > 1:
        yield from _add(state, everyone, groups, state.left, settled=True)
    yield from _compare(state, groups)
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


def _compare(state: _State, groups: Ints) -> Rounds:
    """Probes pairs within groups and between groups that are near each other, to tell parts of racks from racks."""
    everyone = np.arange(state.hosts, dtype=np.int64)
    done: set[tuple[int, int]] = set()
    while state.left:
        groups, count = blocks.numbered(groups)
        near = blocks.fit(state.among(everyone), groups, count).tree + 0.05 * state.random.random((count, count))
        couples: list[tuple[int, int]] = []
        taken: set[int] = set()
        for at in np.argsort(near, axis=None).tolist():
            a, b = divmod(at, count)
            if a < b and not {a, b} & taken and (a, b) not in done:
                taken |= {a, b}
                couples.append((a, b))
        done.update(couples)
        before = state.left
        members = [np.flatnonzero((groups == a) | (groups == b)) for a, b in couples]
        yield from _together([_some(state, hosts, COMPARED) for hosts in members])
        if state.left == before:
            return


def _some(state: _State, hosts: Ints, rounds: int) -> Rounds:
    """A few rounds of pairs of some hosts."""
    for at, pairs in enumerate(tournament(state.random.permutation(hosts).tolist())):
        if at == rounds:
            return
        if fresh := state.take(pairs):
            yield fresh


def _cell(state: _State, hosts: Ints, budget: float) -> Rounds:
    """Divides a cell into groups, and these in turn. Uses about ``budget`` probes at most."""
    start = state.left
    size = _core_size(len(hosts), CORE * budget)
    values = state.among(hosts)
    known = np.bincount(values.a, minlength=len(hosts)) + np.bincount(values.b, minlength=len(hosts))
    order = np.argsort(-(known + 0.5 * state.random.random(len(hosts))), kind="stable")
    while True:
        if size < SMALLEST:
            return
        core = order[:size]
        for pairs in tournament(hosts[state.random.permutation(core)].tolist()):
            if fresh := state.take(pairs):
                yield fresh
        of_core, count = _divide(state, hosts[core])
        larger = min(len(hosts), int(1.25 * size) + 1)
        if (
            count > 1
            or size == len(hosts)
            or start - state.left + _pairs(larger) - _pairs(size) > LARGEST_CORE * budget
        ):
            break
        size = larger
    if count < 2:
        return
    groups = np.full(len(hosts), -1, dtype=np.int64)
    groups[core] = of_core
    yield from _add(state, hosts, groups, ADDED * (budget - (start - state.left)))
    groups, count = blocks.numbered(blocks.merge(state.among(hosts), groups))
    if count < 2:
        return
    first = int(state.groups.max()) + 1
    state.groups[hosts] = first + groups
    rest = max(budget - (start - state.left), 0.0)
    cells = [hosts[groups == group] for group in range(count)]
    yield from _together([_cell(state, cell, rest * len(cell) / len(hosts)) for cell in cells])


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


def _divide(state: _State, core: Ints) -> tuple[Ints, int]:
    """Groups of a core, and their number: those whose levels best predict values that were kept back."""
    values, hosts = state.among(core), len(core)
    one = np.zeros(hosts, dtype=np.int64)
    if len(values.logs) < 2 * hosts:
        return one, 1
    counts = clusters.counts(1, hosts // 3)
    fold = state.random.permutation(len(values.logs)) % _FOLDS
    scores: dict[int, list[Floats]] = {count: [] for count in counts}
    for turn in range(_FOLDS):
        train, test = values.only(np.flatnonzero(fold != turn)), values.only(np.flatnonzero(fold == turn))
        for count, groups in _partitions(train, counts).items():
            groups, own = blocks.numbered(groups)
            scores[count].append(blocks.fit(train, groups, own).scores(test, groups))
    whole = {count: np.concatenate(each) for count, each in scores.items()}
    best = max(counts, key=lambda count: float(whole[count].sum()))
    gain = whole[best] - whole[1]
    if best == 1 or gain.sum() < MIN_Z * gain.std() * math.sqrt(len(gain)):
        return one, 1
    return blocks.numbered(_partitions(values, [best])[best])


def _partitions(values: blocks.Values, counts: list[int]) -> dict[int, Ints]:
    """Partitions of a core by numbers of groups: Ward's method on an embedding, refined by the block model."""
    ends, dimensions = (values.a, values.b), min(DIMENSIONS, values.hosts - 1)
    place = embed(
        values.hosts, ends, values.beyond_the_nearest(), dimensions=dimensions, alpha=1.0, starts=1, steps=100
    )
    return {
        count: blocks.refine(values, groups, 6) for count, groups in clusters.ward(place.coordinates, counts).items()
    }


def _add(state: _State, hosts: Ints, groups: Ints, budget: float, *, settled: bool = False) -> Rounds:
    """Finds the groups of hosts whose group is -1, and writes them into ``groups``.

    ``settled`` says that there are no new groups, and that hosts which are uncertain are probed as well.
    """
    start = state.left
    while True:
        values = state.among(hosts)
        count = int(groups.max()) + 1
        model = blocks.fit(values, groups, count)
        chances = _chances(model, values, groups, new=not settled)
        own, fresh = chances[:, :count], chances[:, count:].sum(axis=1)
        best, most = own.argmax(axis=1), own.max(axis=1)
        placed = groups >= 0
        seen = np.bincount(values.a, placed[values.b], len(hosts)) + np.bincount(values.b, placed[values.a], len(hosts))
        groups[:] = np.where(placed | ((most > SURE) & (seen > 1)), best, -1)
        alone = np.flatnonzero((groups < 0) & (fresh > SURE) & (seen > 2))
        if len(alone):
            # Some at a time: two of them may be of the same new group.
            chosen = alone[np.argsort(-fresh[alone], kind="stable")][: max(1, len(alone) // 4)]
            groups[chosen] = count + np.arange(len(chosen))
            continue
        used = start - state.left
        unsure = np.flatnonzero((groups < 0) | (settled & (most < CERTAIN)))
        pairs = state.take(_partners(state, hosts, groups, unsure[np.argsort(most[unsure], kind="stable")], chances))
        if not pairs or used >= budget:
            groups[:] = np.where(groups < 0, best, groups)
            if pairs:
                yield pairs
            return
        yield pairs


def _chances(model: blocks.Blocks, values: blocks.Values, groups: Ints, *, new: bool) -> Floats:
    """Probability of each group (column) of each host (row); with ``new``, also of a new group beside each group."""
    count = len(model.levels)
    likely = model.placements(values, groups) + 0.5 * np.log1p(np.bincount(groups[groups >= 0], minlength=count))
    if new:
        # A new group is as far from each group as that from its nearest neighbour in the tree.
        apart = model.tree + np.diag(np.full(count, np.inf))
        beside = model.levels.copy()
        np.fill_diagonal(beside, apart.min(axis=1) if count > 1 else model.levels[0, 0] + 3 * model.sigma)
        likely = np.hstack([likely, model.placements(values, groups, beside) + math.log(NEW)])
    found = np.exp(likely - likely.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True), dtype=np.float64)


def _partners(state: _State, hosts: Ints, groups: Ints, unsure: Ints, chances: Floats) -> Round:
    """Pairs of unsure hosts and members of groups that are drawn by their probability; no host twice."""
    count = int(groups.max()) + 1
    width = chances.shape[1]
    # The columns of new groups follow: to find out about a new group beside a group, that group is probed.
    members = [state.random.permutation(np.flatnonzero(groups == group)).tolist() for group in range(count)]
    sums = chances.cumsum(axis=1)
    busy: set[int] = set()
    pairs: Round = []
    for host in unsure.tolist():
        if host in busy:
            continue
        drawn = np.searchsorted(sums[host], state.random.random(4) * sums[host, -1])
        for group in dict.fromkeys((np.minimum(drawn, width - 1) % min(width, count)).tolist()):
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

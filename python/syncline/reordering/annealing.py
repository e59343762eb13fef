"""Searches for the order of least cost where each cost takes a simulation: every order of few hosts, else annealing.

Chains of annealing (Kirkpatrick, Gelatt and Vecchi 1983) run in parallel and meet after each round, when the worse
half of them restarts at the best orders of the better half. Every chain draws from a generator of its own, so the
answer does not depend on the number of cores.
"""

from __future__ import annotations

import math
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import permutations
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING

from syncline.cores import usable_cores
from syncline.reordering.simulation import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    from syncline.reordering.simulation import Order

CHAINS, ROUNDS = 8, 5
HOT, COLD = 0.03, 0.0003
"""Temperatures of the first and the last proposal, as fractions of the cost."""
MOST_EXHAUSTIVE = 50_000
"""Most orders that are all tried."""
CANDIDATES = 4
"""Candidates for every second proposal: the one with the least traffic over long distances is proposed."""


@dataclass(frozen=True)
class Best:
    """The best order that a search found."""

    order: Order
    cost: float
    exhaustive: bool
    """Whether all orders were tried."""
    stopped: bool
    """Whether the time limit ended the search."""


class Costs:
    """The costs of orders, each computed once, until a time limit."""

    def __init__(self, cost: Callable[[Order, Callable[[], bool]], float], limit_s: float | None) -> None:
        """``cost`` gets an order, and a function that says whether to stop; then it raises :class:`Stopped`."""
        self._cost = cost
        self._ends = None if limit_s is None else monotonic() + limit_s
        self._ended = Event()
        self.known: dict[Order, float] = {}
        self.lacking = False
        """Whether a cost was asked for that is not known, because the search has been stopped."""

    @property
    def stopped(self) -> bool:
        """Whether no more costs are computed."""
        if self._ends is not None and monotonic() > self._ends:
            self._ended.set()
        return self._ended.is_set()

    def stop(self) -> None:
        """Stops those that are being computed."""
        self._ended.set()

    def of(self, order: Order) -> float | None:
        """The cost of an order; None if it is not known and the search has been stopped."""
        if (known := self.known.get(order)) is not None:
            return known
        if self.stopped:
            self.lacking = True
            return None
        try:
            found = self._cost(order, lambda: self.stopped)
        except Stopped:
            self.lacking = True
            return None
        self.known[order] = found
        return found

    def best(self) -> Order:
        """The order of least cost that is known; of several, the one that was given first."""
        return min(self.known, key=lambda order: (self.known[order], order))


def search(
    costs: Costs,
    starts: Sequence[Order],
    *,
    proposals: int,
    seed: int,
    bound: float,
    guide: Callable[[Order], float],
    progress: Callable[[float], object] | None = None,
    cores: int | None = None,
) -> Best:
    """Searches from ``starts``, whose costs are known and of which the first is the present order.

    Each chain tries ``proposals`` orders. If there are no more orders than proposals, all are tried. The search ends
    early at an order that costs ``bound``. ``guide`` estimates costs without a simulation.
    """
    hosts = len(starts[0])
    exhaustive = math.factorial(min(hosts, 20)) <= min(CHAINS * proposals, MOST_EXHAUSTIVE)
    with ThreadPoolExecutor(cores or usable_cores()) as pool:
        try:
            if exhaustive:
                _every(pool, costs, hosts, progress)
            else:
                _anneal(pool, costs, starts, proposals, seed, bound, guide, progress)
        except BaseException:
            costs.stop()
            raise
    order, least = costs.best(), costs.known[costs.best()]
    # Of equal orders the present one is the best: nothing has to move.
    if costs.known[starts[0]] <= least:
        order = starts[0]
    return Best(order, costs.known[order], exhaustive and not costs.lacking, costs.lacking)


def _every(pool: ThreadPoolExecutor, costs: Costs, hosts: int, progress: Callable[[float], object] | None) -> None:
    done = _Done(math.factorial(hosts), progress)

    def one(order: Order) -> None:
        costs.of(order)
        done.tell()

    _all(pool.submit(one, order) for order in permutations(range(hosts)))


def _anneal(
    pool: ThreadPoolExecutor,
    costs: Costs,
    starts: Sequence[Order],
    proposals: int,
    seed: int,
    bound: float,
    guide: Callable[[Order], float],
    progress: Callable[[float], object] | None,
) -> None:
    ranked = sorted(dict.fromkeys(starts), key=lambda order: (costs.known[order], order))
    done = _Done(CHAINS * proposals, progress)
    generators = [random.Random(f"{seed} {at}") for at in range(CHAINS)]  # noqa: S311 - no secrets
    chains = [_Chain(ranked[at % len(ranked)], rng, costs, guide, proposals, done) for at, rng in enumerate(generators)]
    for number in range(ROUNDS):
        until = proposals * (number + 1) // ROUNDS
        _all(pool.submit(chain.run, until) for chain in chains)
        chains.sort(key=lambda chain: (chain.least, chain.best))
        if costs.lacking or chains[0].least <= bound:
            return
        for better, worse in zip(chains, chains[CHAINS // 2 :], strict=False):
            worse.restart(better.best)


class _Done:
    """How much of a search is done."""

    def __init__(self, total: int, progress: Callable[[float], object] | None) -> None:
        self._total, self._count, self._progress, self._lock = total, 0, progress, Lock()

    def tell(self) -> None:
        """Counts one more step, and passes on the fraction that is done."""
        with self._lock:
            self._count += 1
            if self._progress is not None:
                self._progress(self._count / self._total)


class _Chain:
    """A chain of annealing."""

    def __init__(
        self,
        start: Order,
        rng: random.Random,
        costs: Costs,
        guide: Callable[[Order], float],
        proposals: int,
        done: _Done,
    ) -> None:
        self._rng, self._costs, self._guide, self._done = rng, costs, guide, done
        self._proposals, self._tried = proposals, 0
        self.restart(start)

    def restart(self, order: Order) -> None:
        """Goes on from an order whose cost is known."""
        self._order = self.best = order
        self._cost = self.least = self._costs.known[order]

    def run(self, until: int) -> None:
        """Tries proposals until their number reaches the given one."""
        while self._tried < until:
            temperature = HOT * (COLD / HOT) ** (self._tried / self._proposals)
            order = self._proposal()
            cost = self._costs.of(order)
            if cost is None:
                return
            self._tried += 1
            self._done.tell()
            worse = (cost - self._cost) / self._cost if self._cost > 0 else 0.0
            if worse <= 0 or self._rng.random() < math.exp(-worse / temperature):
                self._order, self._cost = order, cost
            if cost < self.least:
                self.best, self.least = order, cost

    def _proposal(self) -> Order:
        if self._rng.random() < 0.5:
            return moved(self._order, self._rng)
        return min((moved(self._order, self._rng) for _ in range(CANDIDATES)), key=self._guide)


def moved(order: Order, rng: random.Random) -> Order:
    """An order near another: two hosts swapped, a block of them moved elsewhere, or reversed."""
    hosts = list(order)
    kind = rng.random()
    low, high = sorted(rng.sample(range(len(hosts)), 2))
    if kind < 0.5:
        hosts[low], hosts[high] = hosts[high], hosts[low]
    elif kind < 0.75:
        hosts[low : high + 1] = hosts[low : high + 1][::-1]
    else:
        block, rest = hosts[low:high], hosts[:low] + hosts[high:]
        at = rng.randrange(len(rest) + 1)
        hosts = rest[:at] + block + rest[at:]
    return tuple(hosts)


def _all(futures: Iterable[Future[None]]) -> None:
    """Waits for all of them; raises the error of the first that failed."""
    for future in list(futures):
        future.result()

"""Orders of ranks: random ones, the cheapest and the dearest by the model of costs, and ones between them.

``benches/reorder.py`` uses them, too. :data:`PROGRAM` measures all-reduces in many orders.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.distances import Measured, Pair
from syncline.reordering import reorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.reordering import Reordered

PROGRAM = Path(__file__).parent / "in_orders.py"
"""Program of a rank, which times all-reduces in several orders of hosts."""
PLANS = {name: name for name in ("ring", "halving_doubling", "double_binary_tree")} | {"bcube": "bcube(base=4)"}
"""Algorithms with a model of costs (luo2020 5.2.1), and their names as plans."""
PROPOSALS = 20_000
"""Changes that a chain of the search tries, except for rings: enough for some dozen hosts."""
PERCENTILES = 10
"""Orders between the cheapest and the dearest one (luo2020 6.3.2)."""


def shuffled(hosts: int, count: int, seed: int) -> list[list[int]]:
    """Random orders."""
    rng = random.Random(seed)  # noqa: S311 - no secrets
    return [rng.sample(range(hosts), hosts) for _ in range(count)]


def written(order: Sequence[int]) -> str:
    """An order as text: ``3,1,2,0``."""
    return ",".join(map(str, order))


def parsed(order: str) -> list[int]:
    """An order from text."""
    return [int(host) for host in order.split(",")]


def swapped(order: Sequence[int], count: int, seed: int) -> list[list[int]]:
    """Orders that differ from one by 1, 2 and more random swaps."""
    rng = random.Random(seed)  # noqa: S311 - no secrets
    found = []
    for swaps in range(1, count + 1):
        changed = list(order)
        for _ in range(swaps):
            a, b = rng.sample(range(len(order)), 2)
            changed[a], changed[b] = changed[b], changed[a]
        found.append(changed)
    return found


@dataclass(frozen=True)
class Costs:
    """What orders cost by the model of an algorithm (luo2020 5.2.1), and the cheapest order that was found."""

    best: list[int]
    """The order that ``syncline reorder`` finds."""
    start: list[int]
    """The order in which its search begins."""
    found: Reordered

    def of(self, order: Sequence[int]) -> float:
        """The cost of an order, in seconds."""
        place = {host: at for at, host in enumerate(self.start)}
        return self.found.distances.cost([place[host] for host in order])

    def dear(self, *, steps: int = 2000, seed: int = 5) -> list[int]:
        """An order that costs much: the start after random swaps, each kept unless the cost falls."""
        rng = random.Random(seed)  # noqa: S311 - no secrets
        order = list(self.start)
        most = self.of(order)
        for _ in range(steps):
            a, b = rng.sample(range(len(order)), 2)
            order[a], order[b] = order[b], order[a]
            changed = self.of(order)
            if changed < most:
                order[a], order[b] = order[b], order[a]
            else:
                most = changed
        return order

    def spread(self, dear: Sequence[int], *, seed: int = 6) -> list[list[int]]:
        """Orders whose costs lie evenly between the cheapest and a dear one: order ``i`` is near the ``10 i``-th part.

        They are the nearest ones among orders some swaps away from either.
        """
        hosts = len(dear)
        pool = [list(dear)]
        for number in range(8):
            pool += swapped(self.best, hosts, seed + 2 * number) + swapped(dear, hosts, seed + 2 * number + 1)
        known = [self.of(each) for each in pool]
        low, high = self.of(self.best), known[0]
        wanted = [low + (high - low) * (number + 1) / PERCENTILES for number in range(PERCENTILES)]
        return [pool[min(range(len(pool)), key=lambda at: abs(known[at] - each))] for each in wanted]


def costs(measured: Measured, plan: str, start: Sequence[int]) -> Costs:
    """The costs of orders for a plan of :data:`PLANS`; the search for the cheapest begins at ``start``."""
    names = [measured.hosts[host] for host in start]
    found = reorder(measured, algorithm=plan, order=names, proposals=None if plan == "ring" else PROPOSALS)
    return Costs([measured.hosts.index(name) for name in found.hosts], list(start), found)


def modelled(hosts: int, racks: int, link_s: float) -> Measured:
    """Round trips in a network of racks: two links between hosts of a rack, four between racks, each way."""
    size = hosts // racks
    pairs = {
        (a, b): Pair(rtt_s=2 * link_s * (2 if a // size == b // size else 4))
        for a in range(hosts)
        for b in range(hosts)
        if a != b
    }
    return Measured(tuple(f"h{host}" for host in range(hosts)), pairs)


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's correlation: that of ranks, where equal values share their mean rank."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return 0.0
    return statistics.correlation(_ranks(a), _ranks(b))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]

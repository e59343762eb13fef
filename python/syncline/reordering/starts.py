"""Orders from which a search by simulations starts."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.distances.pairs import all_latencies_ps, all_rates_bits_per_s, latencies_ps
from syncline.errors import SynclineError
from syncline.reordering.reorder import reorder

if TYPE_CHECKING:
    from syncline.distances import Measured
    from syncline.reordering.simulation import Order, Traffic

CLOSED_FORMS = ("ring", "halving_doubling", "double_binary_tree")
"""All-reduces whose best orders by closed forms are starts, where they work with the number of hosts."""
PROPOSALS, RING_PROPOSALS = 5_000, 200
"""Proposals of each chain of their searches."""
SWAPS_PER_HOST, MOST_SWAPS = 500, 40_000
"""Swaps that the search for little traffic tries."""


@dataclass(frozen=True)
class Distances:
    """What a message takes between two hosts."""

    latencies_s: list[list[float]]
    seconds_per_byte: list[list[float]]
    """Zero if no rates were measured: all hosts are then equally fast."""

    @classmethod
    def of(cls, measured: Measured) -> Distances:
        """The distances between all hosts; those that were not measured are inferred."""
        latencies = [[each * 1e-12 for each in row] for row in all_latencies_ps(measured)]
        size = len(latencies)
        rates = all_rates_bits_per_s(measured) or [[0] * size for _ in range(size)]
        slow = [[8 / rate if rate > 0 and a != b else 0.0 for b, rate in enumerate(row)] for a, row in enumerate(rates)]
        return cls(latencies, slow)

    def one_way_s(self, a: int, b: int, nbytes: int) -> float:
        """The time of a message."""
        return self.latencies_s[a][b] + nbytes * self.seconds_per_byte[a][b]


class Guide:
    """Estimates what an order costs: the sum of the times of all messages between hosts, one after another.

    It leaves out what waits for what, so it only finds orders that are worth a simulation. As an assignment of places
    to hosts it is quadratic (Koopmans and Beckmann 1957).
    """

    def __init__(self, traffic: Traffic, distances: Distances) -> None:
        self._distances = distances
        self._near: dict[int, list[tuple[int, int, int]]] = {}
        self._pairs = [(a, b, traffic.messages[a, b], nbytes) for (a, b), nbytes in sorted(traffic.nbytes.items())]
        for a, b, messages, nbytes in self._pairs:
            self._near.setdefault(a, []).append((b, messages, nbytes))
            self._near.setdefault(b, []).append((a, messages, nbytes))

    def __call__(self, order: Order) -> float:
        """The estimate for an order."""
        near, slow = self._distances.latencies_s, self._distances.seconds_per_byte
        return sum(
            messages * near[order[a]][order[b]] + nbytes * slow[order[a]][order[b]]
            for a, b, messages, nbytes in self._pairs
        )

    def least(self, start: Order, rng: random.Random) -> Order:
        """An order with a low estimate, by annealing with swaps."""
        order = list(start)
        size = len(order)
        cost = least = self(start)
        best = start
        swaps = min(SWAPS_PER_HOST * size, MOST_SWAPS)
        # A swap changes the messages of two places, so this accepts most of them at first, and none at last.
        hot = 2 * cost / size
        for number in range(swaps):
            a, b = rng.sample(range(size), 2)
            change = self._change(order, a, b)
            temperature = hot * 1e-4 ** (number / swaps)
            if change <= 0 or (temperature > 0 and rng.random() < math.exp(-change / temperature)):
                order[a], order[b] = order[b], order[a]
                cost += change
                if cost < least * (1 - 1e-12):
                    best, least = tuple(order), cost
        return best

    def _change(self, order: list[int], a: int, b: int) -> float:
        """What the estimate gains if two places swap hosts."""
        near, slow = self._distances.latencies_s, self._distances.seconds_per_byte
        change = 0.0
        for here, there in ((a, b), (b, a)):
            old, new = order[here], order[there]
            for other, messages, nbytes in self._near.get(here, ()):
                # What two swapped places exchange stays between the same hosts.
                if other != there:
                    host = order[other]
                    change += messages * (near[new][host] - near[old][host])
                    change += nbytes * (slow[new][host] - slow[old][host])
        return change


def starts(measured: Measured, guide: Guide, nbytes: int, seed: int) -> dict[str, Order]:
    """Orders that may be good, by what they are; the first is the present one.

    ``nbytes`` is the size of an all-reduce for closed forms.
    """
    present = tuple(range(len(measured.hosts)))
    found = {"present order": present}
    for algorithm in CLOSED_FORMS:
        tries = RING_PROPOSALS if algorithm == "ring" else PROPOSALS
        try:
            ordered = reorder(measured, algorithm=algorithm, nbytes=nbytes, seed=seed, proposals=tries)
        except SynclineError:
            # It does not work with this number of hosts.
            continue
        number = {name: at for at, name in enumerate(measured.hosts)}
        found[f"closed form of {algorithm}"] = tuple(number[name] for name in ordered.hosts)
    found["near hosts together"] = clustered(measured)
    rng = random.Random(f"{seed} traffic")  # noqa: S311 - no secrets
    options = [guide.least(start, rng) for start in (present, found["near hosts together"])]
    found["least traffic"] = min(options, key=lambda order: (guide(order), order))
    return found


def clustered(measured: Measured) -> Order:
    """Hosts in the order of single-linkage clusters: the members of each cluster, at any distance, stay together."""
    members = {host: [host] for host in range(len(measured.hosts))}
    cluster = list(range(len(measured.hosts)))
    for _, a, b in sorted((latency, a, b) for a, b, latency in latencies_ps(measured)):
        one, other = sorted((cluster[a], cluster[b]))
        if one != other:
            for host in members[other]:
                cluster[host] = one
            members[one] += members.pop(other)
    return tuple(members[0])

"""Searches for the order of hosts in which an all-reduce costs least."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from syncline import _core
from syncline.distances.pairs import latencies_ps, rates_bits_per_s
from syncline.input.problem import bad_value, nearest, shown
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from syncline.distances import Measured

PROPOSALS, RING_PROPOSALS = 200_000, 2_000
"""Changes that each chain of a search tries by default. For rings, each is improved locally, and takes longer."""
CHAINS = 4


@dataclass(frozen=True)
class Reordered:
    """An order of hosts, and the one that it replaces."""

    hosts: tuple[str, ...]
    """The host of each rank, by name."""
    before: tuple[str, ...]
    """The host of each rank before."""
    algorithm: str
    bytes: int
    """Size of the all-reduce. It matters only where rates were measured."""
    cost_s: float
    """What the order costs by the algorithm's model (luo2020 5.2.1). Costs rank orders; they do not predict times."""
    cost_before_s: float
    bound_s: float
    """A lower bound on the cost of any order."""
    filled: int
    """Pairs of hosts that were not measured, and whose distances were inferred from others."""
    stopped: bool
    """Whether the time limit ended the search."""
    seed: int
    distances: _core.RankOrder = field(repr=False, compare=False)
    """Distances between hosts, numbered as in ``before``."""

    @property
    def gap(self) -> float:
        """By how much the order is above the bound at most, as a fraction; 0 if it is proven to be the best."""
        return self.cost_s / self.bound_s - 1 if self.bound_s > 0 else 0.0 if self.cost_s == 0 else float("inf")


def reorder(
    measured: Measured,
    *,
    algorithm: str = "ring",
    nbytes: int = 25_000_000,
    order: Sequence[str] | None = None,
    seed: int = 0,
    proposals: int | None = None,
    limit_s: float | None = None,
    progress: Callable[[float], object] | None = None,
) -> Reordered:
    """Searches for the order of hosts in which an all-reduce of ``nbytes`` costs least.

    ``order`` names the hosts in their present order, which may be some of those that were measured; by default it is
    that of the measurements. ``proposals`` is how much each of four chains tries. The same arguments give the same
    order, unless ``limit_s`` ends the search early.

    Distances are halves of round trips, plus the time of the bytes at the measured rates if any were measured. The new
    order never costs more than ``order``.

    :raises SynclineError: a host of ``order`` was not measured or is listed twice; the algorithm does not work with
        this number of hosts; too few pairs were measured to connect all hosts.
    """
    chosen = in_order(measured, order)
    names = chosen.hosts
    trips, rates = latencies_ps(chosen), rates_bits_per_s(chosen) or None
    if proposals is None:
        proposals = RING_PROPOSALS if algorithm == "ring" else PROPOSALS
    model = _core.RankOrder.of_pairs(len(names), trips, rates, algorithm, nbytes)
    start = list(range(len(names)))
    found, cost, before, bound, stopped = model.search(start, proposals, CHAINS, seed, limit_s, progress)
    return Reordered(
        tuple(names[host] for host in found),
        names,
        algorithm,
        nbytes,
        cost,
        before,
        bound,
        model.filled(),
        stopped,
        seed,
        model,
    )


def in_order(measured: Measured, order: Sequence[str] | None) -> Measured:
    """What was measured between the hosts of ``order``, numbered in it; all of them if it is None.

    :raises SynclineError: a host was not measured or is listed twice, or there are less than two.
    """
    names = measured.hosts if order is None else tuple(order)
    numbers = {name: number for number, name in enumerate(measured.hosts)}
    seen: set[str] = set()
    for name in names:
        if name not in numbers:
            raise bad_value(
                "the host was not measured",
                shown(name),
                nearest=nearest(name, measured.hosts),
                help=f"measure it, or leave it out; {measured.source or 'the measurements'}: {len(numbers)} hosts",
            )
        if name in seen:
            raise bad_value("the host is listed twice", shown(name), help="list each host once")
        seen.add(name)
    if len(seen) < 2:
        raise bad_value("an order needs two hosts or more", counted(len(seen), "host"))
    return measured.among(numbers[name] for name in names)

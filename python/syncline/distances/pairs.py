"""Measured pairs in the units of the core, and matrices in which missing pairs are inferred from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, exception

if TYPE_CHECKING:
    from syncline.distances.measured import Measured
    from syncline.errors import SynclineError

Pairs = list[tuple[int, int, int]]
"""Hosts ``a < b``, and a value."""
_MOST = (1 << 63) - 1


def latencies_ps(measured: Measured) -> Pairs:
    """Halves of the round trips in picoseconds.

    :raises SynclineError: none were measured, or they do not connect all hosts.
    """
    pairs = [(a, b, round(0.5e12 * rtt)) for (a, b), rtt in measured.round_trips.items()]
    if not pairs:
        raise _lacks(measured, "no round trips were measured", "measure them with `syncline probe`")
    return _connecting(measured, pairs, "round trips")


def rates_bits_per_s(measured: Measured) -> Pairs:
    """Rates in bits per second; empty if none were measured.

    :raises SynclineError: some were measured, but they do not connect all hosts.
    """
    pairs = [(a, b, max(round(8 * rate), 1)) for (a, b), rate in measured.rates.items()]
    return _connecting(measured, pairs, "rates") if pairs else []


def all_latencies_ps(measured: Measured) -> list[list[int]]:
    """Halves of the round trips between any two hosts, in picoseconds.

    Of a pair that was not measured, it is the least that some chain of measured pairs has as its longest hop. In a
    network of racks, pods and so on, that is never too short, and right once a chain stays within the smallest part
    that holds both hosts.

    :raises SynclineError: as :func:`latencies_ps`.
    """
    return _square(measured, latencies_ps(measured))


def all_rates_bits_per_s(measured: Measured) -> list[list[int]]:
    """Rates between any two hosts in bits per second, inferred likewise; empty if none were measured.

    :raises SynclineError: as :func:`rates_bits_per_s`.
    """
    if not (pairs := rates_bits_per_s(measured)):
        return []
    # The chain whose lowest rate is highest.
    lacking = _square(measured, [(a, b, _MOST - rate) for a, b, rate in pairs])
    return [[_MOST - each for each in row] for row in lacking]


def _square(measured: Measured, pairs: Pairs) -> list[list[int]]:
    size = len(measured.hosts)
    flat = _core.complete_pairs(size, pairs)
    return [flat[row : row + size] for row in range(0, size * size, size)]


def _connecting(measured: Measured, pairs: Pairs, what: str) -> Pairs:
    """Refuses pairs that leave some hosts unconnected to the first one."""
    near: list[list[int]] = [[] for _ in measured.hosts]
    for a, b, _ in pairs:
        near[a].append(b)
        near[b].append(a)
    reached, waiting = {0}, [0]
    while waiting:
        for other in near[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    if len(reached) < len(near):
        alone = [name for number, name in enumerate(measured.hosts) if number not in reached]
        more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
        message = f"measured {what} do not connect {alone[0]}{more} to {measured.hosts[0]}"
        raise _lacks(measured, message, "measure more pairs, or leave these hosts out")
    return pairs


def _lacks(measured: Measured, message: str, help: str) -> SynclineError:
    mark = Mark(Text(measured.source, ()), 0, 0, 0) if measured.source else None
    return exception(error(Code.BAD_DISTANCES, message, mark=mark, help=help))

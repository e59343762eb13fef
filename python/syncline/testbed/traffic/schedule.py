"""Draws the schedule of a tenant: which flow runs when, from which host to which. It follows from the seed alone.

The process that sends the traffic imports this module, so it needs only the standard library.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOREVER = math.inf


@dataclass(frozen=True)
class Tenant:
    """A tenant's traffic in plain numbers.

    It has on-off sources, which send for a while and pause for a while. If ``interarrival_s`` is set, flows of a random
    size arrive as a Poisson process instead.
    """

    name: str
    senders: tuple[int, ...]
    """Numbers of the hosts and machines that send."""
    receivers: tuple[int, ...]
    """Numbers of the hosts and machines that receive. No host is the only receiver of itself."""
    protocol: str
    """``tcp`` or ``udp``."""
    rate_bits: int
    """Payload of a flow in bits per second; 0 if it is greedy, and sends as much as congestion control allows."""
    flows: int
    """The number of on-off sources; or the maximum number of arrived flows that are open at the same time."""
    on_s: float
    """Mean duration of bursts in seconds; 0 if sources are always on."""
    off_s: float
    """Mean duration of pauses in seconds; 0 if sources are always on."""
    interarrival_s: float
    """Mean time between arrivals in seconds; 0 for on-off sources."""
    size_bytes: int
    """Mean size of an arrived flow in bytes; 0 for on-off sources."""
    distribution: str
    """Distribution of bursts and pauses, or of sizes: ``fixed``, ``exponential`` or ``pareto``."""
    shape: float
    """The shape of the Pareto distribution, at least 1.1: with less, draws could overflow."""
    start_s: float
    """When the tenant's traffic begins, in seconds after traffic is switched on."""
    until_s: float
    """When bursts end and no more flows arrive, in seconds; 0 for never."""
    seed: int

    @property
    def end_s(self) -> float:
        """When bursts end and no more flows arrive; infinite for never."""
        return self.until_s or FOREVER


def tenant_from_dict(plain: dict[str, Any]) -> Tenant:
    """Restores a tenant from the data of ``dataclasses.asdict``, which may have been JSON."""
    return Tenant(**{**plain, "senders": tuple(plain["senders"]), "receivers": tuple(plain["receivers"])})


@dataclass(frozen=True)
class Burst:
    """One flow of a schedule. Times are in seconds after traffic is switched on."""

    source: int
    """The number of the on-off source, or of the arrival."""
    begin_s: float
    end_s: float
    """When the flow stops, whatever it has sent."""
    sender: int
    receiver: int
    size_bytes: int = 0
    """When this much is sent, the flow is complete; 0 if only :attr:`end_s` ends it."""


def bursts(tenant: Tenant) -> Iterator[Burst]:
    """Yields the flows of a tenant in the order in which they begin; endlessly, unless the tenant's traffic ends."""
    if tenant.interarrival_s:
        return _arrivals(tenant)
    sources = (_on_off(tenant, source) for source in range(tenant.flows))
    return heapq.merge(*sources, key=lambda burst: burst.begin_s)


def _on_off(tenant: Tenant, source: int) -> Iterator[Burst]:
    """Yields the bursts of an on-off source: an alternating renewal process.

    With fixed durations, it begins with a burst. Otherwise it begins in equilibrium, as if it had run for long: it is
    on with probability on / (on + off), and its first duration has the distribution of a residual life (Cox, "Renewal
    Theory", 1962, chapters 5 and 7).
    """
    pair = _pairs(tenant, source)
    if not tenant.on_s:
        yield Burst(source, tenant.start_s, tenant.end_s, *pair())
        return
    draw = _generator(tenant, source, "durations")
    on, now = True, tenant.start_s
    if tenant.distribution == "fixed":
        left = tenant.on_s
    else:
        on = draw.random() < tenant.on_s / (tenant.on_s + tenant.off_s)
        left = _residual(tenant, tenant.on_s if on else tenant.off_s, draw)
    while now < tenant.end_s:
        if on:
            yield Burst(source, now, min(now + left, tenant.end_s), *pair())
        now, on = now + left, not on
        left = _value(tenant, tenant.on_s if on else tenant.off_s, draw)


def _arrivals(tenant: Tenant) -> Iterator[Burst]:
    """Yields flows that arrive as a Poisson process."""
    gaps, sizes = (_generator(tenant, 0, what) for what in ("arrivals", "sizes"))
    pair = _pairs(tenant, 0)
    now = tenant.start_s
    for number in itertools.count():
        now += _exponential(tenant.interarrival_s, gaps)
        if now >= tenant.end_s:
            return
        size = max(1, round(_value(tenant, tenant.size_bytes, sizes)))
        yield Burst(number, now, FOREVER, *pair(), size)


def _generator(tenant: Tenant, source: int, what: str) -> random.Random:
    """Returns the random numbers for one purpose, so that a change of one property leaves all others as they are.

    Only :meth:`random.Random.random` is called on it: Python guarantees the same sequence in every version.
    """
    return random.Random(f"{tenant.seed}/{tenant.name}/{source}/{what}")  # noqa: S311 - nothing secret


def _pairs(tenant: Tenant, source: int) -> Callable[[], tuple[int, int]]:
    """Returns a function that draws a sender, and a receiver other than the sender."""
    draw = _generator(tenant, source, "pairs")

    def pair() -> tuple[int, int]:
        sender = tenant.senders[int(draw.random() * len(tenant.senders))]
        others = [each for each in tenant.receivers if each != sender]
        return sender, others[int(draw.random() * len(others))]

    return pair


def _value(tenant: Tenant, mean: float, draw: random.Random) -> float:
    """Draws a duration or size with this mean."""
    match tenant.distribution:
        case "fixed":
            return mean
        case "pareto":
            return _least(tenant, mean) * float((1 - draw.random()) ** (-1 / tenant.shape))
        case _:
            return _exponential(mean, draw)


def _residual(tenant: Tenant, mean: float, draw: random.Random) -> float:
    """Draws what is left of a duration with this mean at a random time: its density is P(duration > x) / mean."""
    if tenant.distribution != "pareto":
        # An exponential duration has no memory.
        return _exponential(mean, draw)
    least, shape = _least(tenant, mean), tenant.shape
    if draw.random() < least / mean:
        return least * draw.random()
    return least * float((1 - draw.random()) ** (-1 / (shape - 1)))


def _least(tenant: Tenant, mean: float) -> float:
    """The least value of a Pareto distribution with this mean."""
    return mean * (tenant.shape - 1) / tenant.shape


def _exponential(mean: float, draw: random.Random) -> float:
    return -mean * math.log(1 - draw.random())

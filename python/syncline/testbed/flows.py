"""Flows between interfaces of hosts: which ones are measured, the links that they pass, and their fair shares."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.testbed.layout import PAYLOAD
from syncline.testbed.links import end, link_rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.testbed.layout import Host, Layout, Nic
    from syncline.testbed.links import Link

OWN_QUEUE = 2 * 65_536
"""Maximum bytes of one connection that wait in a host: TCP allows two segments of the largest size."""
_FULL = 1e-9
"""A link with at most this part of its rate left counts as full, because divided rates are rounded."""


@dataclass(frozen=True)
class Port:
    """An interface of a host."""

    host: Host
    at: int
    """The number of the interface on its host."""

    @property
    def nic(self) -> Nic:
        """The interface in the layout."""
        return self.host.nics[self.at]

    @property
    def name(self) -> str:
        """The name of the host; with the name of the interface if the host has several."""
        own = f" {self.nic.interface}" if len(self.host.nics) > 1 else ""
        return f"host {self.host.number}{own}"


@dataclass(frozen=True)
class Flow:
    """A flow of data from one interface to another."""

    sender: Port
    receiver: Port


@dataclass(frozen=True)
class Share:
    """The fair share of a flow."""

    bits: float
    """Payload, in bits per second."""
    contended: bool
    """Whether the flow passes a full link on which flows can take rate from each other. TCP approaches fair shares on
    such a link, but does not keep to them within seconds."""


def patterns(layout: Layout) -> Iterator[tuple[str, list[Flow]]]:
    """Yields the flows to measure: one flow and flows from all hosts, on each interface, and on all at once.

    If acknowledgements would wait behind the data of other flows, a pattern is split into parts in which they do not:
    congestion control would mistake that wait for a slow link.
    """
    most = max(len(host.nics) for host in layout.hosts)
    wholes: list[tuple[str, list[Flow]]] = []
    every: list[Flow] = []
    for at in range(most):
        suffix = f", eth{at}" if most > 1 else ""
        wholes += [(f"one flow {what}{suffix}", [flow]) for what, flow in pairs(layout, at)]
        groups = _groups(layout, at)
        near = [flow for group in groups for rack in group for flow in _ring(rack)]
        far = [flow for group in groups if len(group) > 1 for flow in _across(group)]
        wholes += [(f"all hosts, in a rack{suffix}", near)] if len(near) > 1 else []
        wholes += [(f"all hosts, across racks{suffix}", far)] if len(far) > 1 else []
        every += near or far
    if most > 1:
        wholes.append(("all hosts, all interfaces", every))
    for what, flows in wholes:
        found = list(parts(layout, flows))
        for number, part in enumerate(found, start=1):
            yield what + (f" ({number} of {len(found)})" if len(found) > 1 else ""), part


def alone(layout: Layout) -> list[Port]:
    """Returns the interfaces that reach no other host, so that no flow passes them."""
    every = [Port(host, at) for host in layout.hosts for at in range(len(host.nics))]
    return [port for port in every if next(_others(layout, layout.segments[port.nic.bridge], port.host), None) is None]


def parts(layout: Layout, flows: list[Flow]) -> Iterator[list[Flow]]:
    """Splits flows into few parts, such that acknowledgements do not wait behind data in any part."""
    late = set(_hindered(layout, flows))
    if not late:
        yield flows
    elif len(late) < len(flows):
        yield from parts(layout, [flow for at, flow in enumerate(flows) if at not in late])
        yield from parts(layout, [flows[at] for at in sorted(late)])
    else:
        # The acknowledgements of all flows wait. Split so that each part uses every cable in one direction only.
        one_way: list[tuple[set[Link], list[Flow]]] = []
        for flow in flows:
            links = way(layout, flow)
            back = {(b, a) for a, b in links}
            taken, part = next((each for each in one_way if not each[0] & back), (set(), []))
            if not part:
                one_way.append((taken, part))
            taken.update(links)
            part.append(flow)
        yield from (part for _, part in one_way)


def pairs(layout: Layout, at: int = 0) -> Iterator[tuple[str, Flow]]:
    """Yields a flow between interfaces ``at`` of two hosts on one switch, and one between hosts on two switches."""
    near = far = None
    for group in _groups(layout, at):
        near = near or next((Flow(rack[0], rack[1]) for rack in group if len(rack) > 1), None)
        far = far or (Flow(group[0][0], group[1][0]) if len(group) > 1 else None)
    if near is not None:
        yield "in a rack", near
    if far is not None:
        yield "across racks", far


def _groups(layout: Layout, at: int) -> list[list[list[Port]]]:
    """Groups the interfaces ``at`` of all hosts by segment, and within a segment by bridge.

    If a segment has only one of them, the first interfaces of other hosts in the segment are added.
    """
    segments: dict[str, list[Port]] = {}
    for host in layout.hosts:
        if at < len(host.nics):
            segments.setdefault(layout.segments[host.nics[at].bridge], []).append(Port(host, at))
    found = []
    for segment, ports in segments.items():
        if len(ports) == 1:
            others = list(_others(layout, segment, ports[0].host))
            ports += [port for port in others if port.nic.bridge == ports[0].nic.bridge] or others[:1]
        racks: dict[str, list[Port]] = {}
        for port in ports:
            racks.setdefault(port.nic.bridge, []).append(port)
        found.append(list(racks.values()))
    return found


def _others(layout: Layout, segment: str, but: Host) -> Iterator[Port]:
    """Yields the first interface of each host in a segment, except host ``but``."""
    for host in layout.hosts:
        there = (at for at, nic in enumerate(host.nics) if layout.segments[nic.bridge] == segment)
        if host is not but and (at := next(there, None)) is not None:
            yield Port(host, at)


def _ring(ports: list[Port]) -> Iterator[Flow]:
    """Yields a flow from each interface to the next one."""
    if len(ports) > 1:
        yield from (Flow(port, ports[(at + 1) % len(ports)]) for at, port in enumerate(ports))


def _across(racks: list[list[Port]]) -> Iterator[Flow]:
    """Yields a flow from each interface to one in the next rack."""
    for rack, ports in enumerate(racks):
        beyond = racks[(rack + 1) % len(racks)]
        yield from (Flow(port, beyond[at % len(beyond)]) for at, port in enumerate(ports))


@dataclass(frozen=True)
class _Filled:
    """Max-min fair rates of flows."""

    ways: list[list[Link]]
    """The links that each flow passes."""
    bits: list[float]
    """The rate of each flow, in bits per second, including headers."""
    users: dict[Link, set[int]]
    """The flows that pass each link."""
    full: set[Link]
    """Links that have no rate left."""


def shares(layout: Layout, flows: Sequence[Flow]) -> list[Share]:
    """Returns the share of each flow if rates are max-min fair."""
    found = _fill(layout, flows)
    # A flow that fills a link which no other flow passes cannot take rate from others.
    bound = {
        at
        for at, links in enumerate(found.ways)
        if any(link in found.full and len(found.users[link]) == 1 for link in links)
    }
    contended = {link for link in found.full if not found.users[link] <= bound}
    return [
        Share(bits * PAYLOAD, any(link in contended for link in links))
        for bits, links in zip(found.bits, found.ways, strict=True)
    ]


def queueing_s(layout: Layout, flows: Sequence[Flow]) -> float:
    """Returns the longest time that a packet waits in a queue that these flows fill, in seconds."""
    rates, found = link_rates(layout), _fill(layout, flows)
    queues = dict.fromkeys(_queues(layout, found), layout.queue_bytes)
    queues |= {link: OWN_QUEUE for link in found.full if link[0] not in layout.segments}
    return max((size * 8 / rates[link] for link, size in queues.items()), default=0.0)


def _hindered(layout: Layout, flows: Sequence[Flow]) -> Iterator[int]:
    """Yields the flows whose acknowledgements pass a queue that is filled with data."""
    queues = _queues(layout, _fill(layout, flows))
    for at, flow in enumerate(flows):
        if not queues.isdisjoint(way(layout, Flow(flow.receiver, flow.sender))):
            yield at


def _queues(layout: Layout, found: _Filled) -> set[Link]:
    """Returns the links of switches whose queues fill. TCP keeps the queues of hosts short."""
    queues = set()
    for links in found.ways:
        for link in (each for each in links if each in found.full):
            if link[0] in layout.segments:
                queues.add(link)
            if len(found.users[link]) == 1:
                # This link limits the flow, so queues behind it do not fill. On a link with several flows, one flow
                # may pass more than its share, and fill a queue further on.
                break
    return queues


def _fill(layout: Layout, flows: Sequence[Flow]) -> _Filled:
    """Computes max-min fair rates by progressive filling (Bertsekas and Gallager, "Data Networks", 6.5.2)."""
    ways = [way(layout, flow) for flow in flows]
    rates = link_rates(layout)
    users: dict[Link, set[int]] = {}
    for at, links in enumerate(ways):
        for link in links:
            users.setdefault(link, set()).add(at)
    left = {link: float(rates[link]) for link in users}
    waiting = {link: set(those) for link, those in users.items()}
    bits = [0.0] * len(flows)
    while waiting:
        tightest = min(waiting, key=lambda link: left[link] / len(waiting[link]))
        share = left[tightest] / len(waiting[tightest])
        for at in sorted(waiting[tightest]):
            bits[at] = share
            for link in ways[at]:
                left[link] -= share
                waiting[link].discard(at)
        waiting = {link: those for link, those in waiting.items() if those}
    return _Filled(ways, bits, users, {link for link in users if left[link] <= _FULL * rates[link]})


def latency_s(layout: Layout, flow: Flow) -> float:
    """Returns the latency of a packet's path by the file: the sum of the latencies of its links, in seconds."""
    found: dict[Link, float] = {}
    for trunk in layout.trunks:
        found[trunk.a, trunk.b], found[trunk.b, trunk.a] = trunk.ab_latency_s, trunk.ba_latency_s
    between = sum(found[link] for link in way(layout, flow)[1:-1])
    return flow.sender.nic.up_latency_s + between + flow.receiver.nic.down_latency_s


def way(layout: Layout, flow: Flow) -> list[Link]:
    """Returns the links that a flow passes. There is only one path."""
    above: dict[str, str] = {}
    start, goal = flow.sender.nic.bridge, flow.receiver.nic.bridge
    todo = [start]
    while todo and goal not in above and goal != start:
        bridge = todo.pop()
        for trunk in layout.trunks:
            for a, b in ((trunk.a, trunk.b), (trunk.b, trunk.a)):
                if a == bridge and b != start and b not in above:
                    above[b] = a
                    todo.append(b)
    bridges = [goal]
    while bridges[0] != start:
        bridges.insert(0, above[bridges[0]])
    ends = [end(flow.sender.host, flow.sender.nic), *bridges, end(flow.receiver.host, flow.receiver.nic)]
    return list(itertools.pairwise(ends))

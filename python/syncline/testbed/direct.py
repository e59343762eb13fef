"""Hosts that are joined directly, without switches, and forward packets for each other.

The hosts of each link are on a small network of their own, whose bridge has no other member. A host is known by the
address of its first interface. Packets from one host to another follow the route of the fabric's file, or else one with
the fewest links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from syncline.testbed.layout import Host, Layout

BACK_BITS = 1_000_000
"""Rate of the way back of a link in one direction. Only the resolution of addresses uses it."""
FIRST_TABLE = 1000
"""Number of the routing table, and of the rule, for packets of host 0 that another host forwards."""


class Pair(NamedTuple):
    """Two hosts that are joined."""

    a: int
    b: int
    bridge: str


def pairs(links: Mapping[tuple[int, int], int]) -> list[Pair]:
    """The pairs of hosts between which there are links, in order. ``links`` has the rate of each direction."""
    joined = sorted({(min(ends), max(ends)) for ends in links})
    return [Pair(a, b, f"pair{at}") for at, (a, b) in enumerate(joined)]


def paths(
    hosts: int, links: Mapping[tuple[int, int], int], given: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    """The hosts on the way from each host to each other one. A fabric has a path between any two."""
    routes = {(path[0], path[-1]): tuple(path) for path in given}
    neighbours: dict[int, list[int]] = {}
    for a, b in sorted(links):
        neighbours.setdefault(a, []).append(b)
    found = []
    for a in range(hosts):
        before = {a: a}
        queue = [a]
        for at in queue:
            for then in neighbours.get(at, ()):
                if then not in before:
                    before[then] = at
                    queue.append(then)
        for b in range(hosts):
            if a == b:
                continue
            path = [b]
            while path[0] != a:
                path.insert(0, before[path[0]])
            found.append(routes.get((a, b), tuple(path)))
    return tuple(found)


def routes(layout: Layout, host: Host) -> Iterator[str]:
    """Yields the lines for ``ip`` that set the routes of a host: its own, and those along which it forwards."""
    own = host.nics[0].address
    at_bridge = {nic.bridge: nic for nic in host.nics}
    for nic in host.nics:
        yield f"route add {nic.subnet} dev {nic.interface} src {nic.address}"
    forwards: set[int] = set()
    for path in layout.paths:
        if host.number not in path[:-1]:
            continue
        source, target = path[0], layout.hosts[path[-1]]
        then = layout.hosts[path[path.index(host.number) + 1]]
        via = next(nic for nic in then.nics if nic.bridge in at_bridge)
        goal, way = target.nics[0].address, f"dev {at_bridge[via.bridge].interface}"
        if via.address != goal:
            way = f"via {via.address} {way}"
        if source == host.number:
            yield f"route add {goal}/32 {way} src {own} congctl {layout.congestion_control}"
            continue
        if source not in forwards:
            forwards.add(source)
            number = FIRST_TABLE + source
            yield f"rule add pref {number} from {layout.hosts[source].nics[0].address} lookup {number}"
        yield f"route add {goal}/32 {way} table {FIRST_TABLE + source}"

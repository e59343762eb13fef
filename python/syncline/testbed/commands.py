"""Generates the commands that create a layout, and those that change the rates of its links.

They are lines of batch files for ``ip``, ``bridge`` and ``tc``, by network namespace.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from syncline.testbed import direct
from syncline.testbed.links import end
from syncline.testbed.spec import MTU

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from syncline.testbed.layout import Host, Layout, Nic
    from syncline.testbed.links import Link

Batch = tuple[str, str, list[str]]
"""A program, the namespace in which it runs, and its lines."""

MIN_BURST = 65_536
"""Bytes of the largest segment that TCP passes to an interface."""
BURST_S = 0.001
"""A link may send as much at once as its rate allows in this time."""
HOST_QUEUE = 64 << 20
"""Length of a host's queue in bytes: a thousand segments, as in Linux. TCP keeps it short; only switch ports drop."""

FIRST_TABLE = 1000
"""Number of the routing table, and of the rule, for packets from the address of a host's first interface."""


def batches(layout: Layout) -> Iterator[Batch]:
    """Yields all batches in order. The namespaces must exist."""
    fabric = layout.fabric_namespace
    lines = ["link set lo up"]
    for bridge in layout.bridges:
        lines += [f"link add name {bridge} type bridge stp_state 0 mcast_snooping 0", f"link set {bridge} mtu {MTU} up"]
    for at, trunk in enumerate(layout.trunks):
        a, b = trunk_ports(at)
        lines.append(f"link add name {a} type veth peer name {b}")
        lines += [f"link set {a} master {trunk.a} up", f"link set {b} master {trunk.b} up"]
    for host in layout.everything:
        for nic, port in zip(host.nics, host_ports(host), strict=True):
            inside = layout.namespace(host.number)
            lines.append(f"link add name {port} type veth peer name {nic.interface} netns {inside}")
            lines.append(f"link set {port} master {nic.bridge} up")
    yield "ip", fabric, lines
    yield "bridge", fabric, [*ways(layout)]
    yield "tc", fabric, [line for each in _fabric_ports(layout) for line in _shaping(layout, each)]
    for host in layout.everything:
        inside = layout.namespace(host.number)
        lines = ["link set lo up"]
        for nic in host.nics:
            lines += [
                f"address add {nic.address}/24 dev {nic.interface} noprefixroute",
                f"link set {nic.interface} address {nic.hardware_address} mtu {MTU} up",
            ]
        yield "ip", inside, [*lines, *neighbours(layout, host), *routes(layout, host)]
        yield "tc", inside, [line for each in _host_ports(layout, host) for line in _shaping(layout, each)]


def changes(layout: Layout, links: Container[Link]) -> Iterator[Batch]:
    """Yields the batches that give these links of a testbed that is up the rates in ``layout``. Queued packets stay."""
    ports = [*_fabric_ports(layout), *(port for host in layout.everything for port in _host_ports(layout, host))]
    for inside, there in itertools.groupby(ports, key=lambda port: port.namespace):
        lines = [_change(layout, port) for port in there if port.link in links]
        if lines:
            yield "tc", inside, lines


def ways(layout: Layout) -> Iterator[str]:
    """Yields the port of each bridge that leads to each interface.

    Otherwise a bridge sends packets to all ports until it has learned. The bridges of a segment form a tree.
    """
    beyond: dict[str, list[tuple[str, str]]] = {bridge: [] for bridge in layout.bridges}
    for at, trunk in enumerate(layout.trunks):
        a, b = trunk_ports(at)
        beyond[trunk.a].append((trunk.b, b))
        beyond[trunk.b].append((trunk.a, a))
    for host in layout.everything:
        for nic, port in zip(host.nics, host_ports(host), strict=True):
            reached, open_ = {nic.bridge}, [(nic.bridge, port)]
            while open_:
                bridge, towards = open_.pop()
                yield f"fdb add {nic.hardware_address} dev {towards} master static"
                new = [each for each in beyond[bridge] if each[0] not in reached]
                reached.update(there for there, _ in new)
                open_ += new


def neighbours(layout: Layout, host: Host) -> Iterator[str]:
    """Yields the hardware addresses of all interfaces that a host reaches without a router.

    Without them, hosts would ask for each other's, and the kernel keeps only about a thousand answers for all hosts of
    the machine together: too few if each of 33 hosts sends to all others.
    """
    for nic in host.nics:
        segment = layout.segments[nic.bridge]
        for other in layout.everything:
            for there in other.nics:
                if other.number != host.number and layout.segments[there.bridge] == segment:
                    known = f"{there.address} lladdr {there.hardware_address}"
                    yield f"neigh add {known} dev {nic.interface} nud permanent"


def routes(layout: Layout, host: Host) -> Iterator[str]:
    """Yields the routes of a host. Packets from the address of an interface leave through that interface.

    Packets without a source address leave through the host's own interface in the destination's subnet, or else through
    the first interface that reaches it.
    """
    if layout.paths:
        yield from direct.routes(layout, host)
        return
    main: dict[str, Nic] = {nic.subnet: nic for nic in host.nics}
    for at, nic in enumerate(host.nics):
        for subnet in layout.subnets[layout.segments[nic.bridge]]:
            main.setdefault(subnet, nic)
            if len(host.nics) > 1:
                yield f"{_route(layout, subnet, nic)} table {FIRST_TABLE + at}"
        if len(host.nics) > 1:
            yield f"rule add pref {FIRST_TABLE + at} from {nic.address} lookup {FIRST_TABLE + at}"
    for subnet, nic in main.items():
        yield _route(layout, subnet, nic)


def _route(layout: Layout, subnet: str, nic: Nic) -> str:
    return f"route add {subnet} dev {nic.interface} src {nic.address} congctl {layout.congestion_control}"


class _Port(NamedTuple):
    """The end of a cable at which a link begins, and where it is shaped."""

    namespace: str
    device: str
    link: Link
    bits: int
    """The rate at which it sends."""
    queue: int
    """Maximum bytes in its queue."""


def _fabric_ports(layout: Layout) -> Iterator[_Port]:
    """Yields the ports of bridges."""
    inside, queue = layout.fabric_namespace, layout.queue_bytes
    for at, trunk in enumerate(layout.trunks):
        a, b = trunk_ports(at)
        # A packet that leaves through one bridge's port arrives at the other bridge.
        yield _Port(inside, a, (trunk.a, trunk.b), trunk.ab_bits, queue)
        yield _Port(inside, b, (trunk.b, trunk.a), trunk.ba_bits, queue)
    for host in layout.everything:
        for nic, port in zip(host.nics, host_ports(host), strict=True):
            yield _Port(inside, port, (nic.bridge, end(host, nic)), nic.down_bits, queue)


def _host_ports(layout: Layout, host: Host) -> Iterator[_Port]:
    """Yields the interfaces of a host."""
    inside, queue = layout.namespace(host.number), max(layout.queue_bytes, HOST_QUEUE)
    for nic in host.nics:
        yield _Port(inside, nic.interface, (end(host, nic), nic.bridge), nic.up_bits, queue)


def trunk_ports(at: int) -> tuple[str, str]:
    """Returns the names of the two ends of a cable between bridges."""
    return f"t{at}a", f"t{at}b"


def host_ports(host: Host) -> list[str]:
    """Returns the names of the bridges' ends of a host's cables."""
    return [f"{host.part}n{at}" for at in range(len(host.nics))]


def _shaping(layout: Layout, port: _Port) -> list[str]:
    """Returns the lines that limit the rate and the queue of a port."""
    if layout.shaper == "tbf":
        return [f"qdisc add {_limits(layout, port)}"]
    return [
        f"qdisc add dev {port.device} root handle 1: htb default 1",
        f"class add {_limits(layout, port)}",
        f"qdisc add dev {port.device} parent 1:1 bfifo limit {port.queue}",
    ]


def _change(layout: Layout, port: _Port) -> str:
    """Returns the line that changes the rate of a port under way. The queue is as long at any rate."""
    return f"{'qdisc' if layout.shaper == 'tbf' else 'class'} change {_limits(layout, port)}"


def _limits(layout: Layout, port: _Port) -> str:
    """Returns the arguments that limit the rate: those of the queueing discipline tbf, or of the class of htb."""
    burst = max(MIN_BURST, round(port.bits / 8 * BURST_S))
    rate = f"rate {port.bits}bit burst {burst}"
    if layout.shaper == "tbf":
        return f"dev {port.device} root tbf {rate} limit {port.queue}"
    return f"dev {port.device} parent 1: classid 1:1 htb {rate} cburst {burst} quantum {MTU}"

"""What to tell ``ip`` and ``tc`` so that a layout comes to be: lines of their batch files, by network namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.testbed.spec import MTU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.testbed.layout import Host, Layout, Nic

Batch = tuple[str, str, list[str]]
"""A program, the namespace that it works in, and its lines."""

LEAST_BURST = 65_536
"""Bytes of the largest segment that TCP hands down."""
BURST_S = 0.001
"""What a link may be ahead of its rate."""
HOST_QUEUE = 64 << 20
"""Bytes that wait in a host at most: a thousand segments, as Linux has it. TCP keeps that queue short; ports drop."""

FIRST_TABLE = 1000
"""Number of the routing table for what has the address of a host's first interface, and of the rule that says so."""


def batches(layout: Layout) -> Iterator[Batch]:
    """All batches, in order; namespaces are there already."""
    fabric = layout.fabric_namespace
    lines = ["link set lo up"]
    for bridge in layout.bridges:
        lines += [f"link add name {bridge} type bridge stp_state 0 mcast_snooping 0", f"link set {bridge} mtu {MTU} up"]
    for at, trunk in enumerate(layout.trunks):
        a, b = trunk_ports(at)
        lines.append(f"link add name {a} type veth peer name {b}")
        lines += [f"link set {a} master {trunk.a} up", f"link set {b} master {trunk.b} up"]
    for host in layout.hosts:
        for nic, port in zip(host.nics, host_ports(host), strict=True):
            inside = layout.namespace(host.number)
            lines.append(f"link add name {port} type veth peer name {nic.interface} netns {inside}")
            lines.append(f"link set {port} master {nic.bridge} up")
    yield "ip", fabric, lines
    ports = _fabric_ports(layout)
    yield "tc", fabric, [line for port, rate in ports for line in shaping(layout, port, rate, layout.queue_bytes)]
    for host in layout.hosts:
        inside = layout.namespace(host.number)
        lines = ["link set lo up"]
        for nic in host.nics:
            lines += [
                f"link set {nic.interface} mtu {MTU} up",
                f"address add {nic.address}/24 dev {nic.interface} noprefixroute",
            ]
        yield "ip", inside, [*lines, *routes(layout, host)]
        own = max(layout.queue_bytes, HOST_QUEUE)
        yield "tc", inside, [line for nic in host.nics for line in shaping(layout, nic.interface, nic.up_bits, own)]


def routes(layout: Layout, host: Host) -> Iterator[str]:
    """By which interface a host sends: what is from the address of one leaves by that one, to all that it reaches.

    What has no address yet goes to a subnet by the host's own interface there, or by the first one that reaches it.
    """
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


def _fabric_ports(layout: Layout) -> Iterator[tuple[str, int]]:
    """Ports of bridges, and the rate at which each sends."""
    for at, trunk in enumerate(layout.trunks):
        a, b = trunk_ports(at)
        # What leaves by the port of one bridge arrives at the other.
        yield a, trunk.ab_bits
        yield b, trunk.ba_bits
    for host in layout.hosts:
        for nic, port in zip(host.nics, host_ports(host), strict=True):
            yield port, nic.down_bits


def trunk_ports(at: int) -> tuple[str, str]:
    """The two ends of a cable between bridges."""
    return f"t{at}a", f"t{at}b"


def host_ports(host: Host) -> list[str]:
    """The bridges' ends of a host's cables."""
    return [f"h{host.number}n{at}" for at in range(len(host.nics))]


def shaping(layout: Layout, device: str, bits: int, queue: int) -> list[str]:
    """Keeps what ``device`` sends to a rate, with a queue of so many bytes that drops what is too much."""
    burst = max(LEAST_BURST, round(bits / 8 * BURST_S))
    if layout.shaper == "tbf":
        return [f"qdisc add dev {device} root tbf rate {bits}bit burst {burst} limit {queue}"]
    return [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate {bits}bit burst {burst} cburst {burst} quantum {MTU}",
        f"qdisc add dev {device} parent 1:1 bfifo limit {queue}",
    ]

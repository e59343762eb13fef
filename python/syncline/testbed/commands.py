"""Generates the commands that create a layout: lines of batch files for ``ip`` and ``tc``, by network namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.testbed import direct
from syncline.testbed.spec import MTU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.testbed.layout import Host, Layout, Nic

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
    ports = _fabric_ports(layout)
    yield "tc", fabric, [line for port, rate in ports for line in shaping(layout, port, rate, layout.queue_bytes)]
    for host in layout.everything:
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


def _fabric_ports(layout: Layout) -> Iterator[tuple[str, int]]:
    """Yields the ports of bridges, and the rate at which each port sends."""
    for at, trunk in enumerate(layout.trunks):
        a, b = trunk_ports(at)
        # A packet that leaves through one bridge's port arrives at the other bridge.
        yield a, trunk.ab_bits
        yield b, trunk.ba_bits
    for host in layout.everything:
        for nic, port in zip(host.nics, host_ports(host), strict=True):
            yield port, nic.down_bits


def trunk_ports(at: int) -> tuple[str, str]:
    """Returns the names of the two ends of a cable between bridges."""
    return f"t{at}a", f"t{at}b"


def host_ports(host: Host) -> list[str]:
    """Returns the names of the bridges' ends of a host's cables."""
    return [f"{host.part}n{at}" for at in range(len(host.nics))]


def shaping(layout: Layout, device: str, bits: int, queue: int) -> list[str]:
    """Returns the lines that limit the rate at which ``device`` sends, with a queue of at most ``queue`` bytes."""
    burst = max(MIN_BURST, round(bits / 8 * BURST_S))
    if layout.shaper == "tbf":
        return [f"qdisc add dev {device} root tbf rate {bits}bit burst {burst} limit {queue}"]
    return [
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate {bits}bit burst {burst} cburst {burst} quantum {MTU}",
        f"qdisc add dev {device} parent 1:1 bfifo limit {queue}",
    ]

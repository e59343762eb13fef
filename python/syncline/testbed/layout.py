"""Maps a fabric to the hosts, bridges and cables of a testbed."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from syncline import _core
from syncline.testbed import direct
from syncline.testbed.spec import FRAME, MAX_HOSTS, MTU
from syncline.testbed.traffic.attach import attach, first_of
from syncline.testbed.traffic.schedule import Tenant, tenant_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.testbed.spec import TestbedRequest

MIN_BITS = 8
"""Minimum rate of a link, in bits per second: ``tc`` counts whole bytes."""
MAX_BITS = 34 * 10**12
"""Maximum rate: ``tc`` stores the burst, which is what a link sends in a millisecond, as 32 bits of bytes."""
RATES = f"{MIN_BITS}b/s to {MAX_BITS / 1e12:g}Tb/s"
"""The rates that a link can have, in words."""
PAYLOAD = (MTU - 52) / FRAME
"""Part of a link's rate that TCP with timestamps can use for payload."""


@dataclass(frozen=True)
class Nic:
    """An interface of a host."""

    interface: str
    """Its name on the host, such as ``eth0``."""
    address: str
    """IPv4 address; the subnet has 256 addresses."""
    bridge: str
    """The bridge that it is connected to."""
    up_bits: int
    """Rate from the host, in bits per second."""
    down_bits: int
    """Rate to the host."""
    up_latency_s: float
    """Latency in the file of the link from the host, in seconds. A testbed does not emulate it."""
    down_latency_s: float
    """Latency in the file of the link to the host."""

    @property
    def hardware_address(self) -> str:
        """Its Ethernet address, which nobody else has: made from its IP address."""
        return ":".join(f"{octet:02x}" for octet in (2, 0, *ipaddress.IPv4Address(self.address).packed))

    @property
    def subnet(self) -> str:
        """The subnet of its address."""
        return f"{self.address.rsplit('.', 1)[0]}.0/24"


@dataclass(frozen=True)
class Host:
    """A host: a network namespace."""

    number: int
    rack: int
    """Hosts whose first interfaces are on the same bridge are in the same rack."""
    nics: tuple[Nic, ...]
    tenant: str | None = None
    """The tenant whose own machine it is. A testbed runs no commands on such a machine."""

    @property
    def part(self) -> str:
        """The part of the testbed that it is, in the names of namespaces and interfaces."""
        return f"h{self.number}" if self.tenant is None else f"m{self.number}"


@dataclass(frozen=True)
class Trunk:
    """A cable between two bridges."""

    a: str
    b: str
    ab_bits: int
    """Rate from `a` to `b`, in bits per second."""
    ba_bits: int
    ab_latency_s: float
    """Latency in the file from `a` to `b`, in seconds. A testbed does not emulate it."""
    ba_latency_s: float


@dataclass(frozen=True)
class Layout:
    """All parts of a testbed."""

    name: str
    hosts: tuple[Host, ...]
    bridges: tuple[str, ...]
    trunks: tuple[Trunk, ...]
    shaper: str
    queue_bytes: int
    congestion_control: str
    paths: tuple[tuple[int, ...], ...] = ()
    """If hosts are joined directly: the hosts on the way from each host to each other one, including both."""
    machines: tuple[Host, ...] = ()
    """Machines of emulated tenants. Their numbers follow those of hosts."""
    traffic: tuple[Tenant, ...] = ()
    """The traffic of emulated tenants."""

    @property
    def everything(self) -> tuple[Host, ...]:
        """Hosts and the machines of tenants, in the order of their numbers."""
        return self.hosts + self.machines

    @property
    def racks(self) -> int:
        """The number of racks."""
        return 1 + max(host.rack for host in self.hosts)

    @cached_property
    def segments(self) -> dict[str, str]:
        """For each bridge: a bridge that identifies its segment, which is everything that a broadcast reaches."""
        return _joined(self.bridges, self.trunks)[0]

    @cached_property
    def subnets(self) -> dict[str, list[str]]:
        """The subnets of each segment, in the order of their addresses."""
        found: dict[str, set[str]] = {}
        for host in self.hosts:
            for nic in host.nics:
                found.setdefault(self.segments[nic.bridge], set()).add(nic.subnet)
        return {segment: sorted(there, key=ipaddress.IPv4Network) for segment, there in found.items()}

    @property
    def fabric_namespace(self) -> str:
        """The network namespace of all bridges."""
        return namespace(self.name, "fabric")

    def namespace(self, host: int) -> str:
        """Returns the network namespace of a host, or of a tenant's machine."""
        return namespace(self.name, self.everything[host].part)

    def namespaces(self) -> list[str]:
        """Returns all network namespaces, those of hosts first."""
        return [*(self.namespace(host.number) for host in self.everything), self.fabric_namespace]

    def as_dict(self) -> dict[str, Any]:
        """Returns the layout as data for JSON."""
        return asdict(self)


def from_dict(plain: dict[str, Any]) -> Layout:
    """Restores a layout from the data of :meth:`Layout.as_dict`."""

    def hosts(kept: list[dict[str, Any]]) -> tuple[Host, ...]:
        return tuple(Host(**{**host, "nics": tuple(Nic(**nic) for nic in host["nics"])}) for host in kept)

    parts = {
        "hosts": hosts(plain["hosts"]),
        "bridges": tuple(plain["bridges"]),
        "trunks": tuple(Trunk(**trunk) for trunk in plain["trunks"]),
        "paths": tuple(map(tuple, plain["paths"])),
        "machines": hosts(plain["machines"]),
        "traffic": tuple(map(tenant_from_dict, plain["traffic"])),
    }
    return Layout(**{**plain, **parts})


def namespace(name: str, part: str) -> str:
    """Returns the name of the network namespace for a part of a testbed."""
    return f"syncline.{name}.{part}"


def layout(request: TestbedRequest) -> Layout:
    """Maps a fabric and its tenants to a layout.

    Raises :class:`SynclineError` if namespaces and bridges cannot emulate the fabric, or a tenant does not fit into it.
    """
    made = _layout(request)
    machines, tenants = attach(request.spec.traffic, request.source, made, MAX_HOSTS)
    owners = {number: tenant.name for tenant in tenants for number in (*tenant.senders, *tenant.receivers)}
    hosts = []
    for number, machine in enumerate(machines, start=len(made.hosts)):
        like = first_of(made, machine.rack).nics[0]
        address = str(ipaddress.IPv4Network(like.subnet)[number + 1])
        nic = Nic("eth0", address, like.bridge, machine.up_bits, machine.down_bits, 0.0, 0.0)
        hosts.append(Host(number, machine.rack, (nic,), owners[number]))
    return replace(made, machines=tuple(hosts), traffic=tuple(tenants))


def _layout(request: TestbedRequest) -> Layout:
    """Maps a fabric to a layout without tenants."""
    fabric = request.fabric
    if fabric["npus"] > MAX_HOSTS:
        request.raise_error("too many hosts for one machine", found=str(fabric["npus"]), allowed=f"at most {MAX_HOSTS}")
    links: dict[tuple[str, str], list[_Link]] = {}
    vertices = _vertices(fabric)
    for link in fabric["listed"]:
        found = _Link(round(link["rate_bytes_per_s"] * 8), link["latency_s"])
        if not MIN_BITS <= found.bits <= MAX_BITS:
            request.raise_error(
                f"`tc` cannot shape the link from {link['from']} to {link['to']} to its rate",
                found=f"{found.bits:g}b/s",
                allowed=RATES,
                help="give the links of a testbed rates that this machine's cores can carry, such as 1Gb/s",
            )
        links.setdefault((link["from"], link["to"]), []).append(found)
    neighbours: dict[str, list[str]] = {}
    for (a, b), several in links.items():
        neighbours.setdefault(a, []).extend([b] * len(several))
    if neighbours and all(vertices[name].kind == "npu" for name in neighbours):
        return _direct(request, links, [name for name, vertex in vertices.items() if vertex.kind == "npu"])
    bridges = {name: vertices[name].bridge for name in neighbours if vertices[name].kind not in ("npu", "nic")}
    trunks = _trunks(request, links, bridges)
    segments, loop = _joined(bridges.values(), trunks)
    if loop is not None:
        _one_way(request, loop.a, loop.b)
    npus = [name for name, vertex in vertices.items() if vertex.kind == "npu"]
    cables_of = [_cables(request, npu, vertices, neighbours, links, bridges) for npu in npus]
    _reachable(request, cables_of, segments)
    addresses = _addresses(request, cables_of, segments)
    made: list[Host] = []
    racks: dict[str, int] = {}
    for number, (cables, own) in enumerate(zip(cables_of, addresses, strict=True)):
        nics = tuple(_nic(at, cable, address) for at, (cable, address) in enumerate(zip(cables, own, strict=True)))
        made.append(Host(number, racks.setdefault(nics[0].bridge, len(racks)), nics))
    spec = request.spec
    return Layout(
        request.name,
        tuple(made),
        tuple(bridges.values()),
        tuple(trunks),
        spec.shaper,
        _core.parse_quantity("bytes", spec.queue),
        spec.congestion_control,
    )


def _direct(request: TestbedRequest, links: dict[tuple[str, str], list[_Link]], names: list[str]) -> Layout:
    """The layout of hosts that are joined directly. Parallel links are one with their combined rate."""
    number = {name: at for at, name in enumerate(names)}
    joined = {(number[a], number[b]): several for (a, b), several in links.items()}
    rates = {ends: sum(link.bits for link in several) for ends, several in joined.items()}
    cables_of: list[list[_Cable]] = [[] for _ in names]
    pairs = direct.pairs(rates)
    for a, b, bridge in pairs:
        for own, other in ((a, b), (b, a)):
            there, back = (_both(joined.get(ends, [])) for ends in ((own, other), (other, own)))
            cables_of[own].append(_Cable(bridge, there, back))
    paths = direct.paths(len(names), rates, request.fabric["paths"])
    addresses = _addresses(request, cables_of, {pair.bridge: pair.bridge for pair in pairs})
    hosts = []
    for at, (cables, known) in enumerate(zip(cables_of, addresses, strict=True)):
        nics = tuple(_nic(nic, *each) for nic, each in enumerate(zip(cables, known, strict=True)))
        hosts.append(Host(at, 0, nics))
    spec = request.spec
    return Layout(
        request.name,
        tuple(hosts),
        tuple(pair.bridge for pair in pairs),
        (),
        spec.shaper,
        _core.parse_quantity("bytes", spec.queue),
        spec.congestion_control,
        paths,
    )


def _both(links: list[_Link]) -> _Link:
    """Parallel links as one; without any, the way back of a link in one direction."""
    latency_s = max((link.latency_s for link in links), default=0.0)
    return _Link(sum(link.bits for link in links) or direct.BACK_BITS, latency_s)


def _nic(at: int, cable: _Cable, address: str) -> Nic:
    bridge, up, down = cable
    return Nic(f"eth{at}", address, bridge, up.bits, down.bits, up.latency_s, down.latency_s)


class _Vertex(NamedTuple):
    """A vertex of the fabric."""

    kind: str
    """``npu``, ``nic``, or a kind of switch."""
    bridge: str
    """The name of its bridge, if it is a switch. It is not the vertex's name, which the kernel may not accept."""


def _vertices(fabric: dict[str, Any]) -> dict[str, _Vertex]:
    """Returns all vertices by name; NPUs come first, in the order of their numbers."""
    found: dict[str, _Vertex] = {}
    names = iter(fabric.get("names", ()))
    for level in sorted(fabric["levels"], key=lambda level: int(level["first"])):
        for number in range(level["count"]):
            usual = f"{level['name']} {number}"
            found[next(names, usual)] = _Vertex(level["kind"], usual.replace(" ", ""))
    return found


class _Link(NamedTuple):
    """One direction of a cable."""

    bits: int
    latency_s: float


class _Cable(NamedTuple):
    """A cable from a host to a bridge."""

    bridge: str
    up: _Link
    down: _Link


def _one_way(request: TestbedRequest, a: str, b: str) -> NoReturn:
    request.raise_error(
        "bridges support one path; this fabric has several",
        found=f"two paths from {a} to {b}",
        help="connect switches by one cable with the sum of the rates: one spine, cables: 1",
    )


def _trunks(request: TestbedRequest, links: dict[tuple[str, str], list[_Link]], bridges: dict[str, str]) -> list[Trunk]:
    """Returns the cables between switches."""
    trunks = []
    for (a, b), (there, *more) in links.items():
        if a not in bridges or b not in bridges:
            continue
        if (b, a) not in links:
            request.raise_error("a link between switches has no link back", found=f"{a} to {b}")
        back = links[b, a][0]
        if more:
            _one_way(request, a, b)
        if list(bridges).index(a) < list(bridges).index(b):
            trunks.append(Trunk(bridges[a], bridges[b], there.bits, back.bits, there.latency_s, back.latency_s))
    return trunks


def _joined(bridges: Iterable[str], trunks: Iterable[Trunk]) -> tuple[dict[str, str], Trunk | None]:
    """Returns for each bridge one that identifies its segment; and a trunk that closes a loop, if there is one."""
    above = {bridge: bridge for bridge in bridges}

    def top(bridge: str) -> str:
        while above[bridge] != bridge:
            bridge = above[bridge]
        return bridge

    for trunk in trunks:
        a, b = top(trunk.a), top(trunk.b)
        if a == b:
            return {}, trunk
        above[a] = b
    return {bridge: top(bridge) for bridge in above}, None


def _cables(
    request: TestbedRequest,
    host: str,
    vertices: dict[str, _Vertex],
    neighbours: dict[str, list[str]],
    links: dict[tuple[str, str], list[_Link]],
    bridges: dict[str, str],
) -> list[_Cable]:
    """Returns the cables of a host: its own links to switches, or those of its network cards."""
    ends: list[tuple[str, str]] = []
    for other in neighbours.get(host, ()):
        if vertices[other].kind == "npu":
            request.raise_error(
                "some hosts are joined directly, and others by switches",
                found=f"{host} to {other}",
                allowed="switches between all hosts, or between none",
                help="join these hosts by a switch, or leave out all switches",
            )
        if vertices[other].kind == "nic":
            cards = [switch for switch in neighbours[other] if vertices[switch].kind != "npu"]
            if len(neighbours[other]) - len(cards) > 1:
                request.raise_error(
                    "hosts share a network card", found=other, help="one NPU per node: nodes: {npus: 1, ..}"
                )
            ends += [(other, switch) for switch in cards]
        else:
            ends.append((host, other))
    if not ends:
        request.raise_error("a host has no links", found=host)
    cables = []
    for at, (own, switch) in enumerate(ends):
        # Each of several links to one switch becomes an interface.
        number = ends[:at].count((own, switch))
        back = links.get((switch, own), [])
        if len(back) != len(links[own, switch]):
            request.raise_error("a link between a host and a switch has no link back", found=f"{own} to {switch}")
        cables.append(_Cable(bridges[switch], links[own, switch][number], back[number]))
    return cables


def _reachable(request: TestbedRequest, cables_of: list[list[_Cable]], segments: dict[str, str]) -> None:
    """Refuses the fabric if a host has no interface in the segment of another host's first interface.

    It could not reach that host, because hosts do not forward packets.
    """
    reach = [{segments[cable.bridge] for cable in cables} for cables in cables_of]
    for b, (first, *_) in enumerate(cables_of):
        for a, there in enumerate(reach):
            if segments[first.bridge] not in there:
                own = ", ".join(dict.fromkeys(cable.bridge for cable in cables_of[a]))
                request.raise_error(
                    f"host {a} cannot reach the first interface of host {b}, and hosts do not forward packets",
                    found=f"host {a} on {own}, host {b} on {first.bridge}, which are not connected",
                    help=f"connect these switches, or give host {a} a link to the switch of host {b}",
                )


def _addresses(request: TestbedRequest, cables_of: list[list[_Cable]], segments: dict[str, str]) -> list[list[str]]:
    """Returns the address of each interface of each host.

    A subnet belongs to one segment, and has at most one interface of each host.
    """
    subnets = list(ipaddress.IPv4Network(request.spec.network).subnets(new_prefix=24))
    taken: dict[tuple[str, int], int] = {}
    found: list[list[str]] = [[] for _ in cables_of]
    for at in range(max(map(len, cables_of))):
        for number, cables in enumerate(cables_of):
            if at >= len(cables):
                continue
            segment = segments[cables[at].bridge]
            which = sum(segments[cable.bridge] == segment for cable in cables[:at])
            subnet = taken.setdefault((segment, which), len(taken))
            if subnet >= len(subnets):
                request.raise_error(
                    "more interfaces than the network has subnets",
                    found=f"host {number} with {len(cables)} interfaces in {request.spec.network}",
                    help="give the testbed a larger `network`, such as 10.0.0.0/8",
                )
            found[number].append(str(subnets[subnet][number + 1]))
    return found

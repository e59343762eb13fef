"""From a fabric to hosts, bridges and cables: what a testbed consists of."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from syncline import _core
from syncline.testbed.spec import FRAME, MOST_HOSTS, MTU

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.testbed.spec import Request

LEAST_BITS = 8
"""Lowest rate of a link, in bits per second: ``tc`` counts whole bytes."""
MOST_BITS = 34 * 10**12
"""Highest rate: ``tc`` holds the burst, which is what a link sends in a millisecond, in 32 bits of bytes."""
PAYLOAD = (MTU - 52) / FRAME
"""Part of a link's rate that TCP with time stamps has for payload."""


@dataclass(frozen=True)
class Nic:
    """An interface of a host."""

    interface: str
    """Its name there, such as ``eth0``."""
    address: str
    """IPv4 address; the subnet has 256 addresses."""
    bridge: str
    """What it is joined to."""
    up_bits: int
    """Rate from the host, in bits per second."""
    down_bits: int
    """Rate to the host."""
    up_latency_s: float
    """Latency of the link from the host by the file, in seconds. Nothing emulates it."""
    down_latency_s: float
    """Latency of the link to the host by the file."""

    @property
    def subnet(self) -> str:
        """What its address belongs to."""
        return f"{self.address.rsplit('.', 1)[0]}.0/24"


@dataclass(frozen=True)
class Host:
    """A host: a network namespace."""

    number: int
    rack: int
    """Hosts whose first interface is on the same bridge have the same rack."""
    nics: tuple[Nic, ...]


@dataclass(frozen=True)
class Trunk:
    """A cable between two bridges."""

    a: str
    b: str
    ab_bits: int
    """Rate from `a` to `b`, in bits per second."""
    ba_bits: int
    ab_latency_s: float
    """Latency from `a` to `b` by the file, in seconds. Nothing emulates it."""
    ba_latency_s: float


@dataclass(frozen=True)
class Layout:
    """All of a testbed."""

    name: str
    hosts: tuple[Host, ...]
    bridges: tuple[str, ...]
    trunks: tuple[Trunk, ...]
    shaper: str
    queue_bytes: int
    congestion_control: str

    @property
    def racks(self) -> int:
        """Number of racks."""
        return 1 + max(host.rack for host in self.hosts)

    @cached_property
    def segments(self) -> dict[str, str]:
        """Of each bridge, one that stands for all that it is joined to: what a broadcast reaches."""
        return _joined(self.bridges, self.trunks)[0]

    @cached_property
    def subnets(self) -> dict[str, list[str]]:
        """The subnets of each segment, as its addresses come."""
        found: dict[str, set[str]] = {}
        for host in self.hosts:
            for nic in host.nics:
                found.setdefault(self.segments[nic.bridge], set()).add(nic.subnet)
        return {segment: sorted(there, key=ipaddress.IPv4Network) for segment, there in found.items()}

    @property
    def fabric_namespace(self) -> str:
        """Where all bridges are."""
        return namespace(self.name, "fabric")

    def namespace(self, host: int) -> str:
        """Where a host is."""
        return namespace(self.name, f"h{host}")

    def namespaces(self) -> list[str]:
        """All of them, hosts first."""
        return [*(self.namespace(host.number) for host in self.hosts), self.fabric_namespace]

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def from_plain(plain: dict[str, Any]) -> Layout:
    """What :meth:`Layout.plain` gave."""
    hosts = tuple(Host(**{**host, "nics": tuple(Nic(**nic) for nic in host["nics"])}) for host in plain["hosts"])
    trunks = tuple(Trunk(**trunk) for trunk in plain["trunks"])
    return Layout(**{**plain, "hosts": hosts, "bridges": tuple(plain["bridges"]), "trunks": trunks})


def namespace(name: str, part: str) -> str:
    """The network namespace of a part of a testbed."""
    return f"syncline.{name}.{part}"


def layout(request: Request) -> Layout:
    """Finds hosts, bridges and cables. Raises :class:`SynclineError` where namespaces cannot be such a fabric."""
    fabric = request.fabric
    if fabric["npus"] > MOST_HOSTS:
        request.refuse("too many hosts for one machine", found=str(fabric["npus"]), allowed=f"at most {MOST_HOSTS}")
    links: dict[tuple[str, str], list[_Link]] = {}
    vertices = _vertices(fabric)
    for link in fabric["listed"]:
        found = _Link(round(link["rate_bytes_per_s"] * 8), link["latency_s"])
        if not LEAST_BITS <= found.bits <= MOST_BITS:
            request.refuse(
                f"`tc` cannot shape the link from {link['from']} to {link['to']} to its rate",
                found=f"{found.bits:g}b/s",
                allowed=f"{LEAST_BITS}b/s to {MOST_BITS / 1e12:g}Tb/s",
                help="give the links of a testbed rates that this machine's cores can carry, such as 1Gb/s",
            )
        links.setdefault((link["from"], link["to"]), []).append(found)
    neighbours: dict[str, list[str]] = {}
    for (a, b), several in links.items():
        neighbours.setdefault(a, []).extend([b] * len(several))
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
        nics = tuple(
            Nic(f"eth{at}", address, bridge, up.bits, down.bits, up.latency_s, down.latency_s)
            for at, ((bridge, up, down), address) in enumerate(zip(cables, own, strict=True))
        )
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


class _Vertex(NamedTuple):
    """What a vertex of the fabric is."""

    kind: str
    """``npu``, ``nic``, or a kind of switch."""
    bridge: str
    """What the bridge is called, if it becomes one. The kernel does not take every name, so own names are not used."""


def _vertices(fabric: dict[str, Any]) -> dict[str, _Vertex]:
    """Every vertex by its name, NPUs first in the order of their numbers."""
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
    """From a host to a bridge."""

    bridge: str
    up: _Link
    down: _Link


def _one_way(request: Request, a: str, b: str) -> NoReturn:
    request.refuse(
        "bridges send everything one way, and here are several",
        found=f"two ways from {a} to {b}",
        help="join switches by one cable with the sum of the rates: one spine, cables: 1",
    )


def _trunks(request: Request, links: dict[tuple[str, str], list[_Link]], bridges: dict[str, str]) -> list[Trunk]:
    """Cables between switches."""
    trunks = []
    for (a, b), (there, *more) in links.items():
        if a not in bridges or b not in bridges:
            continue
        if (b, a) not in links:
            request.refuse("a link between switches has no way back", found=f"{a} to {b}")
        back = links[b, a][0]
        if more:
            _one_way(request, a, b)
        if list(bridges).index(a) < list(bridges).index(b):
            trunks.append(Trunk(bridges[a], bridges[b], there.bits, back.bits, there.latency_s, back.latency_s))
    return trunks


def _joined(bridges: Iterable[str], trunks: Iterable[Trunk]) -> tuple[dict[str, str], Trunk | None]:
    """Of each bridge, one that stands for all that it is joined to; and a trunk that closes a loop."""
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
    request: Request,
    host: str,
    vertices: dict[str, _Vertex],
    neighbours: dict[str, list[str]],
    links: dict[tuple[str, str], list[_Link]],
    bridges: dict[str, str],
) -> list[_Cable]:
    """The cables of a host: its own links to switches, or those of its network cards."""
    ends: list[tuple[str, str]] = []
    for other in neighbours.get(host, ()):
        if vertices[other].kind == "npu":
            request.refuse(
                "hosts are joined to each other",
                found=f"{host} to {other}",
                allowed="hosts joined by switches",
                help="write `switch: {hosts: ..}` or `leaf_spine: {..}`",
            )
        if vertices[other].kind == "nic":
            cards = [switch for switch in neighbours[other] if vertices[switch].kind != "npu"]
            if len(neighbours[other]) - len(cards) > 1:
                request.refuse("hosts share a network card", found=other, help="one NPU a node: nodes: {npus: 1, ..}")
            ends += [(other, switch) for switch in cards]
        else:
            ends.append((host, other))
    if not ends:
        request.refuse("a host is joined to nothing", found=host)
    cables = []
    for at, (own, switch) in enumerate(ends):
        # Of several links to one switch each is an interface.
        number = ends[:at].count((own, switch))
        back = links.get((switch, own), [])
        if len(back) != len(links[own, switch]):
            request.refuse("a link between a host and a switch has no way back", found=f"{own} to {switch}")
        cables.append(_Cable(bridges[switch], links[own, switch][number], back[number]))
    return cables


def _reachable(request: Request, cables_of: list[list[_Cable]], segments: dict[str, str]) -> None:
    """Refuses hosts of which one has no interface where another has its first one: nobody passes anything on."""
    reach = [{segments[cable.bridge] for cable in cables} for cables in cables_of]
    for b, (first, *_) in enumerate(cables_of):
        for a, there in enumerate(reach):
            if segments[first.bridge] not in there:
                own = ", ".join(dict.fromkeys(cable.bridge for cable in cables_of[a]))
                request.refuse(
                    f"host {a} cannot reach the first interface of host {b}, and hosts pass nothing on",
                    found=f"host {a} on {own}, host {b} on {first.bridge}, which nothing joins",
                    help="join these switches, or give the host a link to the other one",
                )


def _addresses(request: Request, cables_of: list[list[_Cable]], segments: dict[str, str]) -> list[list[str]]:
    """Of each interface of each host. Its subnet has no other interface of that host, and no other segment."""
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
                request.refuse(
                    "more interfaces than the network has subnets",
                    found=f"host {number} with {len(cables)} interfaces in {request.spec.network}",
                    help="give the testbed a larger `network`, such as 10.77.0.0/16",
                )
            found[number].append(str(subnets[subnet][number + 1]))
    return found

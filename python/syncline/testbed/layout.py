"""From a fabric to hosts, bridges and cables: what a testbed consists of."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from syncline import _core
from syncline.testbed.spec import MOST_HOSTS

if TYPE_CHECKING:
    from syncline.testbed.spec import Request

HEADERS = 14
"""Bytes of an Ethernet header, which queueing disciplines count, too."""
MTU = 1500
PAYLOAD = (MTU - 52) / (MTU + HEADERS)
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
    rates: dict[tuple[str, str], int] = {}
    for link in fabric["listed"]:
        ends = (link["from"], link["to"])
        if ends in rates:
            _one_way(request, *ends)
        rates[ends] = round(link["rate_bytes_per_s"] * 8)
    neighbours: dict[str, list[str]] = {}
    for a, b in rates:
        neighbours.setdefault(a, []).append(b)
    hosts = [f"NPU {number}" for number in range(fabric["npus"])]
    switches = [name for name in neighbours if not name.startswith(("NPU ", "NIC "))]
    bridges = {name: name.replace(" ", "") for name in switches}
    trunks = _trunks(request, rates, bridges)
    component = _components(request, bridges.values(), trunks)
    made: list[Host] = []
    first: dict[str, int] = {}
    for number, host in enumerate(hosts):
        nics = _nics(request, host, neighbours, rates, bridges, number)
        rack = first.setdefault(nics[0].bridge, len(first))
        made.append(Host(number, rack, nics))
    for at in range(max(len(host.nics) for host in made)):
        joined = {component[host.nics[at].bridge] if at < len(host.nics) else None for host in made}
        if len(joined) > 1:
            request.refuse(
                f"interfaces number {at + 1} of the hosts are not joined by switches, and hosts pass nothing on",
                help="join the switches of all racks, and give every host as many interfaces",
            )
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


def _one_way(request: Request, a: str, b: str) -> NoReturn:
    request.refuse(
        "bridges send everything one way, and here are several",
        found=f"two ways from {a} to {b}",
        help="join switches by one cable with the sum of the rates: one spine, cables: 1",
    )


def _trunks(request: Request, rates: dict[tuple[str, str], int], bridges: dict[str, str]) -> list[Trunk]:
    """Cables between switches."""
    trunks = []
    for (a, b), rate in rates.items():
        if a in bridges and b in bridges and (b, a) not in rates:
            request.refuse("a link between switches has no way back", found=f"{a} to {b}")
        if a in bridges and b in bridges and list(bridges).index(a) < list(bridges).index(b):
            trunks.append(Trunk(bridges[a], bridges[b], rate, rates[b, a]))
    return trunks


def _components(request: Request, bridges: Any, trunks: list[Trunk]) -> dict[str, str]:
    """Of each bridge, one that stands for all that it is joined to."""
    above = {bridge: bridge for bridge in bridges}

    def top(bridge: str) -> str:
        while above[bridge] != bridge:
            bridge = above[bridge]
        return bridge

    for trunk in trunks:
        a, b = top(trunk.a), top(trunk.b)
        if a == b:
            _one_way(request, trunk.a, trunk.b)
        above[a] = b
    return {bridge: top(bridge) for bridge in bridges}


def _nics(
    request: Request,
    host: str,
    neighbours: dict[str, list[str]],
    rates: dict[tuple[str, str], int],
    bridges: dict[str, str],
    number: int,
) -> tuple[Nic, ...]:
    """The interfaces of a host: its own links to switches, or those of its network cards."""
    ends: list[tuple[str, str]] = []
    for other in neighbours.get(host, ()):
        if other.startswith("NPU "):
            request.refuse(
                "hosts are joined to each other",
                found=f"{host} to {other}",
                allowed="hosts joined by switches",
                help="write `switch: {hosts: ..}` or `leaf_spine: {..}`",
            )
        if other.startswith("NIC "):
            cards = [switch for switch in neighbours[other] if not switch.startswith("NPU ")]
            if len(neighbours[other]) - len(cards) > 1:
                request.refuse("hosts share a network card", found=other, help="one NPU a node: nodes: {npus: 1, ..}")
            ends += [(other, switch) for switch in cards]
        else:
            ends.append((host, other))
    if not ends:
        request.refuse("a host is joined to nothing", found=host)
    subnets = ipaddress.IPv4Network(request.spec.network).subnets(new_prefix=24)
    nics = []
    for at, ((own, switch), subnet) in enumerate(zip(ends, subnets, strict=False)):
        if (switch, own) not in rates:
            request.refuse("a link to a switch has no way back", found=f"{own} to {switch}")
        address = str(subnet[number + 1])
        nics.append(Nic(f"eth{at}", address, bridges[switch], rates[own, switch], rates[switch, own]))
    if len(nics) < len(ends):
        request.refuse(
            "more interfaces than the network has subnets", found=f"{len(ends)} interfaces in {request.spec.network}"
        )
    return tuple(nics)

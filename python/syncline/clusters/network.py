"""A network of hosts and switches, what is to be said about it, and its fabric."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from syncline.clusters.nodes import Made, text
from syncline.clusters.regular import family
from syncline.codes import Code
from syncline.input import limits
from syncline.input.problem import error, raise_errors
from syncline.quantity import counted, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.clusters.given import Given


@dataclass(slots=True)
class Host:
    """A host, and the switches that its ports lead to."""

    name: str
    ports: list[tuple[int, int]] = field(default_factory=list)
    """Number of the switch and rate in bits per second of each port, in the order of the host's interfaces."""


@dataclass
class Network:
    """Hosts and switches."""

    hosts: list[Host]
    switches: list[str]
    """Names of the switches."""
    cables: dict[tuple[int, int], Counter[int]]
    """Cables between two switches, the lower number first: how many have each rate in bits per second."""
    whole: Network | None = None
    """The network that this is a part of, by which switches have their levels."""
    blocks: Mapping[str, str] = field(default_factory=dict)
    """The block of each host that shares a scale-up network with others."""
    pcie: int | None = None
    """Rate of the link between a GPU and its interface in bits per second, if the text says it."""

    @cached_property
    def levels(self) -> list[int]:
        """Level of each switch: 1 if hosts are on it, else one above the lowest that it is joined to.

        A switch from which nothing leads to a host has level 0.
        """
        if self.whole is not None:
            kept = {end for pair in self.cables for end in pair} | {at for host in self.hosts for at, _ in host.ports}
            return [level if at in kept else 0 for at, level in enumerate(self.whole.levels)]
        found = [0] * len(self.switches)
        ahead = deque(dict.fromkeys(switch for host in self.hosts for switch, _ in host.ports))
        for switch in ahead:
            found[switch] = 1
        beside = self._beside
        while ahead:
            at = ahead.popleft()
            for other in beside[at]:
                if not found[other]:
                    found[other] = found[at] + 1
                    ahead.append(other)
        return found

    def of(self, hosts: list[Host]) -> Network:
        """The part of it that joins some of its hosts: the switches above them."""
        kept = {at for host in hosts for at, _ in host.ports}
        for level in range(1, max(self.levels, default=0)):
            kept |= {
                above
                for at in list(kept)
                if self.levels[at] == level
                for above in self._beside[at]
                if self.levels[above] > level
            }
        cables = {pair: cables for pair, cables in self.cables.items() if kept.issuperset(pair)}
        return Network(hosts, self.switches, cables, self, self.blocks, self.pcie)

    @cached_property
    def _beside(self) -> list[list[int]]:
        beside: list[list[int]] = [[] for _ in self.switches]
        for a, b in self.cables:
            beside[a].append(b)
            beside[b].append(a)
        return beside

    def oversubscription(self, level: int) -> tuple[float, float] | None:
        """The least and the greatest oversubscription of the switches of a level; None if no switch is above them.

        It is what a switch can receive from below over what it can send up.
        """
        down: Counter[int] = Counter()
        up: Counter[int] = Counter()
        for host in self.hosts:
            for switch, rate in host.ports:
                down[switch] += rate
        for (a, b), cables in self.cables.items():
            rate = sum(each * count for each, count in cables.items())
            low, high = (a, b) if self.levels[a] < self.levels[b] else (b, a)
            if self.levels[low] != self.levels[high]:
                up[low] += rate
                down[high] += rate
        found = [down[at] / up[at] for at, each in enumerate(self.levels) if each == level and up[at]]
        return (min(found), max(found)) if found else None

    def rails(self) -> int:
        """How many rails there are; 0 if there are none.

        On rails, ports of the same number of all hosts are on switches that have no others.
        """
        ports = {len(host.ports) for host in self.hosts}
        if len(ports) != 1 or (count := ports.pop()) < 2:
            return 0
        rails = [{host.ports[at][0] for host in self.hosts} for at in range(count)]
        return count if len(set().union(*rails)) == sum(map(len, rails)) else 0

    def connected(self) -> tuple[Network, list[str]]:
        """The largest part whose hosts reach each other, and the names of hosts that are not in it.

        A host that has several ports joins the switches that these lead to.
        """
        group = list(range(len(self.switches)))

        def first(at: int) -> int:
            while group[at] != at:
                group[at] = group[group[at]]
                at = group[at]
            return at

        pairs = [*self.cables, *((host.ports[0][0], port) for host in self.hosts for port, _ in host.ports[1:])]
        for a, b in pairs:
            low, high = sorted((first(a), first(b)))
            group[high] = low
        sizes = Counter(first(host.ports[0][0]) for host in self.hosts if host.ports)
        if not sizes:
            return self, []
        largest = min(sizes, key=lambda at: (-sizes[at], at))
        inside = [host for host in self.hosts if host.ports and first(host.ports[0][0]) == largest]
        outside = [host.name for host in self.hosts if not host.ports or first(host.ports[0][0]) != largest]
        return Network(inside, self.switches, self.cables, self.whole, self.blocks, self.pcie), outside


_MANY = 256
"""Most NPUs that a simulation follows one by one within seconds."""


def fabric(network: Network, given: Given) -> Made:
    """The fabric of a network, whose hosts have as many GPUs as ``--gpus`` says.

    :raises SynclineError: the network has no hosts, or a rate is missing.
    """
    network, outside = network.connected()
    if not network.hosts:
        raise_errors(error(Code.BAD_FABRIC, "the text has no hosts that switches join"))
    notes = [*_sentences(network)]
    gpus = given.count("--gpus", 1)
    by_link = given.given("--by-link")
    found = None if by_link else family(network, gpus, given, forward=_apart(network, gpus))
    if found is not None:
        regular, hosts = found
        notes.append(
            f"A family of fabrics; hosts are numbered by their leaves, from {hosts[0].name} to {hosts[-1].name}."
        )
        if len(hosts) * gpus > _MANY and not given.latency():
            notes.append("Without --latency, links have none, and simulations follow every NPU by itself.")
        if outside:
            notes.append(f"Left out: {_some(outside)}, which no switch joins with the others.")
        return Made(regular, notes)
    made = _links(network, given)
    if levels := _logical(network, len(made["npus"])):
        notes.append(f"For collectives by levels: `collectives: {{ logical: {levels} }}`.")
    if outside:
        notes.append(f"Left out: {_some(outside)}, which no switch joins with the others.")
    return Made(made, notes)


def _logical(network: Network, npus: int) -> list[int] | None:
    """Sizes of the grid of NPUs that scale-up networks join; None if they are not of one size, or join nothing."""
    groups: dict[str, int] = {}
    before = None
    for host in network.hosts:
        group = network.blocks.get(host.name, host.name)
        if group in groups and group != before:
            return None  # its hosts do not follow each other
        groups[group] = groups.get(group, 0) + 1
        before = group
    inside = npus // len(groups)
    return [inside, len(groups)] if len(set(groups.values())) == 1 and inside > 1 and len(groups) > 1 else None


def _sentences(network: Network) -> list[str]:
    """What was found."""
    ports = Counter(len(host.ports) for host in network.hosts)
    each = f" with {listed([str(count) for count in sorted(ports)])} ports" if set(ports) != {1} else ""
    used = [level for level in network.levels if level]
    top = max(used)
    levels = listed([str(used.count(level)) for level in range(1, top + 1)])
    inside = f"{counted(len(used), 'switch')} in {counted(top, 'level')}: {levels}"
    found = [f"{counted(len(network.hosts), 'host')}{each}, {inside}."]
    for level in range(1, top):
        if (ratio := (network.whole or network).oversubscription(level)) is not None:
            least, most = (f"{each:.3g}:1" for each in ratio)
            found.append(f"Oversubscription above level {level}: {least if least == most else f'{least} to {most}'}.")
    if rails := network.rails():
        found.append(f"{rails} rails: ports of the same number are on switches of their own.")
    return found


def _links(network: Network, given: Given) -> dict[str, Any]:
    """The fabric link by link. A host without ``--gpus`` is one NPU with all its ports."""
    gpus = given.count("--gpus", 1)
    timed = given.latency()
    npus: list[str] = []
    switches: list[str] = []
    links: list[dict[str, Any]] = []
    used = [at for at, level in enumerate(network.levels) if level]
    scale_up = gpus > 1 or bool(network.blocks)
    members = "the hosts of a block" if network.blocks else "the GPUs of a host"
    inside = given.rate("--scale-up", f"the text does not say how {members} are joined") if scale_up else 0
    domains: set[str] = set()

    def join(start: str, end: str, rate: int, count: int = 1, latency: dict[str, str] = timed) -> None:
        made = {"from": start, "to": end, "rate": text(rate), **latency}
        links.append(made if count == 1 else {**made, "count": count})

    for host in network.hosts:
        names = [host.name] if gpus == 1 else [f"{host.name}.GPU{at}" for at in range(gpus)]
        npus += names
        if scale_up:
            joining = f"{network.blocks.get(host.name, host.name)}.scale-up"
            if joining not in domains:
                domains.add(joining)
                switches.append(joining)
            for name in names:
                join(name, joining, inside, latency=given.latency("--scale-up-latency"))
        count = len(host.ports)
        # If two ports lead to one switch, a path over it would be as short as one inside the host.
        apart = not scale_up or (len({switch for switch, _ in host.ports}) == count and not network.blocks)
        if count % gpus == 0 and apart:
            # Each GPU has ports of its own.
            ends = Counter((at * gpus // count, port) for at, port in enumerate(host.ports))
            for (gpu, (switch, rate)), many in ends.items():
                join(names[gpu], network.switches[switch], rate, many)
        elif gpus % count == 0 or count % gpus == 0:
            pcie = given.rate("--pcie", "GPUs reach interfaces over PCIe", network.pcie)
            for at, (switch, rate) in enumerate(host.ports):
                switches.append(f"{host.name}.NIC{at}")
                for name in names[at * gpus // count : max(at * gpus // count + 1, (at + 1) * gpus // count)]:
                    join(name, switches[-1], pcie, latency=given.latency("--pcie-latency"))
                join(switches[-1], network.switches[switch], rate)
        else:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    f"the {count} ports of {host.name} cannot be shared evenly",
                    key="--gpus",
                    found=str(gpus),
                    allowed=f"a divisor or a multiple of {count}",
                    help="choose interfaces with --nics, or hosts with --hosts",
                )
            )
    switches += [network.switches[at] for at in used]
    for (a, b), cables in network.cables.items():
        if network.levels[a] and network.levels[b]:
            for rate, many in cables.items():
                join(network.switches[a], network.switches[b], rate, many)
    twice = next((name for name, count in Counter([*npus, *switches]).items() if count > 1), None)
    if twice is not None:
        raise_errors(error(Code.BAD_FABRIC, "two hosts or switches have the same name", found=twice))
    if sum(link.get("count", 1) for link in links) > limits.MAX_EDGES:
        raise_errors(
            error(Code.BAD_FABRIC, "a fabric has too many links", allowed=f"at most {limits.MAX_EDGES} cables")
        )
    return {"npus": npus, "switches": switches, "links": links, "routing": "ecmp", "forward": _apart(network, gpus)}


def _apart(network: Network, gpus: int) -> bool:
    """Whether GPUs must forward messages for others: rails that no switch joins."""
    if gpus == 1:
        return False
    alone = Network([Host(host.name, host.ports[:1]) for host in network.hosts], network.switches, network.cables)
    reached = {at for at, level in enumerate(alone.levels) if level}
    return any(switch not in reached for host in network.hosts for switch, _ in host.ports)


def _some(names: list[str]) -> str:
    return listed(names) if len(names) <= 8 else f"{names[0]}, {names[1]} and {len(names) - 2} more"

"""Attaches tenants to a layout: finds the ends of their flows, and the racks of their own machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from syncline import _core
from syncline.codes import Code
from syncline.input.node import Path, dotted
from syncline.input.problem import error, raise_errors
from syncline.testbed.traffic.schedule import Tenant
from syncline.testbed.traffic.spec import (
    MAX_BEGINS_PER_S,
    MAX_FLOWS,
    SHAPE,
    OnOffTenant,
    PoissonTenant,
    TenantHosts,
    TenantRacks,
    ps,
)

if TYPE_CHECKING:
    from syncline.input.source import Source
    from syncline.testbed.layout import Host, Layout
    from syncline.testbed.traffic.spec import Ends, TrafficTenant


class Machine(NamedTuple):
    """A tenant's own machine, attached to the switch of a rack."""

    rack: int
    up_bits: int
    """Rate of its link to the switch, in bits per second."""
    down_bits: int


def attach(
    tenants: list[TrafficTenant], source: Source, made: Layout, max_hosts: int
) -> tuple[list[Machine], list[Tenant]]:
    """Returns the machines of all tenants, and the traffic of each tenant.

    A machine's number follows those of the hosts of ``made``, in the order of the list. Raises :class:`SynclineError`
    if a tenant names a host or rack that does not exist, or if a flow would end where it begins.
    """
    machines: list[Machine] = []
    found: list[Tenant] = []
    begins_per_s = 0.0
    for at, each in enumerate(tenants):
        tenant = _Attached(source, made, ("traffic", at), each)
        if tenant.name in (other.name for other in found):
            tenant.refuse(("name",), "two tenants have the same name", found=tenant.name, help="give one another name")
        # The same machines send and receive.
        racks = {rack: len(made.hosts) + len(machines) + number * each.machines for number, rack in tenant.racks()}
        for rack in racks:
            machines += [tenant.machine(rack)] * each.machines
        found.append(tenant.resolved(racks))
        tenant.require_room(len(made.hosts) + len(machines), max_hosts, sum(other.flows for other in found))
        begins_per_s += _begins_per_s(found[-1])
        if begins_per_s > MAX_BEGINS_PER_S:
            tenant.refuse(
                (),
                "too many flows begin each second",
                found=f"{begins_per_s:.0f} on average, with this tenant",
                allowed=f"at most {MAX_BEGINS_PER_S}, of all tenants together",
                help="give tenants longer bursts, or fewer and larger flows",
            )
    return machines, found


class _Attached:
    """A tenant of the file, with its place in the file."""

    def __init__(self, source: Source, made: Layout, path: Path, tenant: OnOffTenant | PoissonTenant) -> None:
        self._source, self._made, self._path, self._tenant = source, made, path, tenant
        self.name = tenant.name or f"tenant{path[-1]}"

    def refuse(self, key: Path, message: str, **context: Any) -> NoReturn:
        """Raises an error about a key of the tenant, or about the whole tenant."""
        path = (*self._path, *key)
        mark = self._source.mark(path) or self._source.mark(self._path)
        raise_errors(error(Code.BAD_VALUE, message, mark=mark, key=dotted(path), **context))

    def racks(self) -> list[tuple[int, int]]:
        """Returns the racks that have machines of the tenant, numbered from 0."""
        named = {rack for end in self._ends() for rack in self._racks(*end)}
        return list(enumerate(sorted(named)))

    def machine(self, rack: int) -> Machine:
        """Returns a machine for a rack."""
        if self._tenant.machine_rate is not None:
            bits = _core.parse_quantity("rate", self._tenant.machine_rate)
            return Machine(rack, bits, bits)
        bridge = rack_bridge(self._made, rack)
        nics = [nic for host in self._made.hosts for nic in host.nics if nic.bridge == bridge]
        return Machine(rack, max(nic.up_bits for nic in nics), max(nic.down_bits for nic in nics))

    def resolved(self, racks: dict[int, int]) -> Tenant:
        """Returns the tenant in plain numbers. ``racks`` has the number of its first machine in each rack."""
        tenant = self._tenant
        senders, receivers = (self._numbers(key, end, racks) for key, end in self._ends())
        for key, those, others in (("from", senders, receivers), ("to", receivers, senders)):
            for number in those:
                if others == [number]:
                    self._to_itself(key, number)
        self._require_path(senders, receivers, racks)
        durations = (tenant.on, tenant.off) if isinstance(tenant, OnOffTenant) else (None, None)
        arrivals = (tenant.interarrival, tenant.size) if isinstance(tenant, PoissonTenant) else (None, None)
        return Tenant(
            name=self.name,
            senders=tuple(senders),
            receivers=tuple(receivers),
            protocol=tenant.protocol,
            rate_bits=0 if tenant.rate == "greedy" else _core.parse_quantity("rate", tenant.rate),
            flows=tenant.flows,
            on_s=_seconds(durations[0]),
            off_s=_seconds(durations[1]),
            interarrival_s=_seconds(arrivals[0]),
            size_bytes=0 if arrivals[1] is None else _core.parse_quantity("bytes", arrivals[1]),
            distribution=tenant.distribution,
            shape=tenant.shape or SHAPE,
            start_s=_seconds(tenant.start),
            until_s=_seconds(tenant.until),
            seed=tenant.seed,
        )

    def require_room(self, hosts: int, max_hosts: int, flows: int) -> None:
        """Refuses the tenant if it needs more hosts or flows than there may be."""
        if hosts > max_hosts:
            key = ("machines",) if self._tenant.machines > 1 else ()
            self.refuse(
                key,
                "too many hosts for one machine, with those of tenants",
                found=str(hosts),
                allowed=f"at most {max_hosts}",
                help="give tenants fewer `machines`, or the fabric fewer hosts",
            )
        if flows > MAX_FLOWS:
            self.refuse(
                ("flows",),
                "too many flows at the same time",
                found=f"{flows}, with this tenant",
                allowed=f"at most {MAX_FLOWS}, of all tenants together",
                help="give tenants fewer flows with higher rates",
            )

    def _ends(self) -> tuple[tuple[str, Ends], tuple[str, Ends]]:
        return ("from", self._tenant.from_), ("to", self._tenant.to)

    def _racks(self, key: str, end: Ends) -> list[int]:
        """Returns the racks of one end of flows; none if it is hosts."""
        made = self._made
        if isinstance(end, TenantHosts):
            return []
        if made.paths:
            self.refuse(
                (key,),
                "the fabric has no racks: its hosts are joined directly",
                help="name hosts, such as {host: 0}; or join the hosts by switches",
            )
        if not isinstance(end, TenantRacks):
            return list(range(made.racks))
        return self._known((key, "rack"), end.rack, made.racks, "rack")

    def _numbers(self, key: str, end: Ends, racks: dict[int, int]) -> list[int]:
        """Returns the hosts and machines of one end of flows."""
        if isinstance(end, TenantHosts):
            return self._known((key, "host"), end.host, len(self._made.hosts), "host")
        count = self._tenant.machines
        return [racks[rack] + number for rack in self._racks(key, end) for number in range(count)]

    def _known(self, key: Path, given: int | list[int], count: int, word: str) -> list[int]:
        """Returns the given hosts or racks without repeats; refuses those that do not exist."""
        for at, number in enumerate(given if isinstance(given, list) else [given]):
            if number >= count:
                self.refuse(
                    (*key, at) if isinstance(given, list) else key,
                    f"there is no such {word}",
                    found=str(number),
                    allowed=f"0 to {count - 1}" if count > 1 else "0",
                )
        return list(dict.fromkeys(given if isinstance(given, list) else [given]))

    def _to_itself(self, key: str, number: int) -> NoReturn:
        hosts = len(self._made.hosts)
        what = f"host {number}" if number < hosts else "the tenant's only machine"
        only = "has no receiver but" if key == "from" else "has no sender but"
        more = "give the tenant several `machines`, or name another rack" if number >= hosts else "name another host"
        self.refuse((key,), f"{what} {only} itself", help=more)

    def _require_path(self, senders: list[int], receivers: list[int], racks: dict[int, int]) -> None:
        """Refuses the tenant if switches do not connect a sender with a receiver."""
        made = self._made
        if made.paths:
            return

        def segments(number: int) -> list[str]:
            if number < len(made.hosts):
                return [made.segments[nic.bridge] for nic in made.hosts[number].nics]
            rack = next(rack for rack, first in racks.items() if first <= number < first + self._tenant.machines)
            return [made.segments[rack_bridge(made, rack)]]

        for sender in senders:
            there = segments(sender)
            if any(segments(receiver)[0] not in there for receiver in receivers):
                self.refuse(
                    ("to",),
                    "switches do not connect all senders with the first interfaces of all receivers",
                    help="name racks or hosts that switches connect",
                )


def rack_bridge(made: Layout, rack: int) -> str:
    """Returns the switch of a rack."""
    return first_of(made, rack).nics[0].bridge


def first_of(made: Layout, rack: int) -> Host:
    """Returns the first host of a rack."""
    return next(host for host in made.hosts if host.rack == rack)


def _begins_per_s(tenant: Tenant) -> float:
    """Returns the mean number of flows of a tenant that begin each second."""
    if tenant.interarrival_s:
        return 1 / tenant.interarrival_s
    return tenant.flows / (tenant.on_s + tenant.off_s) if tenant.on_s else 0.0


def _seconds(time: str | None) -> float:
    return 0.0 if time is None else ps(time) / 1e12

"""The fabric of one machine, or of several equal ones that a network joins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline.clusters.machine import Kind, Machine
from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.input.units import decimal
from syncline.quantity import counted, listed

if TYPE_CHECKING:
    from syncline.clusters.given import Given

NETWORKS = ("switch", "rails")
"""Networks between machines: one switch that joins all NICs, or a switch for the NICs of each number."""


@dataclass
class Made:
    """A fabric, and what is to be said about it."""

    fabric: dict[str, Any]
    """The keys of ``fabric`` in a scenario."""
    notes: list[str] = field(default_factory=list)
    """Sentences: what was read, and what was left out."""


def fabric(machine: Machine, given: Given) -> Made:
    """The fabric of as many machines as ``--nodes`` says.

    :raises SynclineError: a rate is missing.
    """
    count = given.count("--nodes", 1)
    if _switched(machine) is not None:
        domain = given.count("--domain", 1)
        if count % domain:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "machines do not fill whole NVLink domains",
                    key="--domain",
                    found=f"{count} machines, {domain} in each domain",
                    allowed="a divisor of the number of machines",
                    nearest=str(max(each for each in range(1, min(domain, count) + 1) if count % each == 0)),
                )
            )
        domains = count // domain
    else:
        domain, domains = 1, count
    made = _several(machine, domains, domain, given) if domains > 1 else _one(machine, domain, given)
    made.notes.insert(0, _summary(machine))
    return made


def _summary(machine: Machine) -> str:
    nvlinks = "no NVLinks"
    if machine.switched:
        ports = sorted(set(machine.switched.values()))
        nvlinks = f"{listed([str(each) for each in ports])} NVLinks from each to NVSwitches"
    elif machine.direct:
        nvlinks = f"{sum(machine.direct.values())} NVLinks between them"
    gpus, nics = len(machine.gpus), len(machine.nics)
    return f"A machine of {counted(gpus, 'GPU')}, with {nvlinks}, and {counted(nics, 'NIC') if nics else 'no NICs'}."


def text(bits_per_s: int) -> str:
    """A rate as scenarios have it, exactly: in bytes if these are whole."""
    return decimal(bits_per_s, "b/s") if bits_per_s % 8 else decimal(bits_per_s // 8, "B/s")


def _nvlink(machine: Machine, given: Given) -> int:
    return given.rate("--nvlink", "the text has the number of NVLinks, but not their rate", machine.nvlink_rate)


def _nic(machine: Machine, nic: int, given: Given) -> int:
    printed = (machine.nic_rates or {}).get(nic)
    return given.rate("--nic", f"the text does not have the rate of {machine.parts[nic].name}", printed)


def _pcie(printed: int | None, given: Given) -> int:
    return given.rate("--pcie", "paths lead over PCIe, and the text does not have its rate", printed)


def _cpu(given: Given) -> int:
    return given.rate("--cpu", "paths lead between processors, and the text does not have the rate of that link")


def _switched(machine: Machine) -> int | None:
    """How many NVLinks join each GPU with NVSwitches; None if that is not the same for all of them."""
    ports = set(machine.switched.values())
    return ports.pop() if len(machine.switched) == len(machine.gpus) and len(ports) == 1 else None


def _one(machine: Machine, domain: int, given: Given) -> Made:
    """The fabric of one machine alone, or of the ``domain`` machines that NVSwitches join."""
    size = len(machine.gpus)
    if size < 2:
        raise_errors(
            error(
                Code.BAD_FABRIC,
                "a machine with one GPU has nothing to join",
                found=f"{size} GPUs",
                help="give the number of machines with --nodes N",
            )
        )
    if (ports := _switched(machine)) is not None:
        rate = text(ports * _nvlink(machine, given))
        return Made({"switch": {"hosts": size * domain, "rate": rate, **given.latency("--scale-up-latency")}})
    links = set(machine.direct.values())
    if len(machine.direct) == size * (size - 1) // 2 and len(links) == 1:
        rate = text(links.pop() * _nvlink(machine, given))
        dim = {
            "name": "nvlink",
            "shape": "fully_connected",
            "size": size,
            "rate": rate,
            **given.latency("--scale-up-latency"),
        }
        return Made({"dims": [dim]})
    return Made(_graph(machine.without_nics(), 1, given))


def _several(machine: Machine, count: int, domain: int, given: Given) -> Made:
    """The fabric of several NVLink domains of ``domain`` machines each."""
    if not machine.nics:
        raise_errors(
            error(
                Code.BAD_FABRIC,
                "the text names no NICs, so nothing can join several machines",
                help="leave out --nodes, or describe the network with `nodes` and a family of fabrics",
            )
        )
    network = given.word("--network", NETWORKS)
    names = [machine.parts[nic].name for nic in machine.nics]
    if chosen := given.names("--nics", names):
        machine = machine.with_nics(chosen)
    used = sorted({nic for gpu in machine.gpus for nic in machine.nearest_nics(gpu)})
    names = [machine.parts[nic].name for nic in machine.nics if nic not in used]
    notes = (
        [f"Left out: {listed(names)}; no GPU has {'one of them' if len(names) > 1 else 'it'} nearest."] if names else []
    )
    rates = {_nic(machine, nic, given) for nic in used}
    if _regular(machine) and len(rates) == 1:
        return Made(_family(machine, count, domain, given, network, text(rates.pop()), len(used)), notes)
    if domain > 1:
        raise_errors(
            error(
                Code.BAD_FABRIC,
                "NVLink domains of several machines need NICs that the GPUs of each share evenly",
                key="--domain",
                found=f"{len(machine.gpus)} GPUs, {', '.join(machine.parts[nic].name for nic in used)}",
                help="choose NICs that GPUs share evenly with --nics",
            )
        )
    return Made(_graph(machine, count, given, network), notes)


def _regular(machine: Machine) -> bool:
    """Whether machines are of the kind that families have.

    That is: an NVSwitch joins all GPUs equally, and GPUs share NICs evenly, in the order of their numbers.
    """
    size = len(machine.gpus)
    if size > 1 and _switched(machine) is None:
        return False
    order: list[int] = []
    groups: list[tuple[list[int], list[int]]] = []
    for gpu in machine.gpus:
        nics = machine.nearest_nics(gpu)
        if groups and groups[-1][1] == nics:
            groups[-1][0].append(gpu)
        elif set(nics) & set(order):
            return False
        else:
            groups.append(([gpu], nics))
            order += nics
    if len({(len(gpus), len(nics)) for gpus, nics in groups}) > 1:
        return False
    return size % len(order) == 0 or len(order) % size == 0


def _family(
    machine: Machine, count: int, domain: int, given: Given, network: str, rate: str, nics: int
) -> dict[str, Any]:
    """The fabric of equal NVLink domains."""
    size, nics, latency = len(machine.gpus) * domain, nics * domain, given.latency()
    if network == "switch":
        outer: dict[str, Any] = {"switch": {"hosts": count * nics, "rate": rate, **latency}}
    else:
        sizes = {"leaves": nics, "hosts_per_leaf": count, "spines": 0}
        outer = {"leaf_spine": {**sizes, "rate": rate, **latency}}
    inside = text(next(iter(machine.switched.values())) * _nvlink(machine, given)) if size > 1 else rate
    nodes: dict[str, Any] = {"npus": size, "rate": inside, **given.latency("--scale-up-latency"), "nics": nics}
    printed = [part.rate for part in machine.parts if part.kind in (Kind.GPU, Kind.NIC) and part.rate is not None]
    if nics < size or printed or given.given("--pcie"):
        nodes["pcie_rate"] = text(_pcie(min(printed, default=None), given))
        if pcie := given.latency("--pcie-latency"):
            nodes["pcie_latency"] = pcie["latency"]
    if network == "rails":
        nodes |= {"rails": True, "forward": True}
    return {**outer, "nodes": nodes}


def _graph(machine: Machine, count: int, given: Given, network: str | None = None) -> dict[str, Any]:
    """The fabric link by link. GPUs forward nothing."""
    if network is not None and _leads_outside(machine):
        machine = machine.flattened()
    latency = given.latency()
    nvswitch = bool(machine.switched)
    vertices = {kind: [at for at, part in enumerate(machine.parts) if part.kind == kind] for kind in Kind}
    lone = count == 1
    npus: list[str] = []
    switches: list[str] = []
    links: list[dict[str, Any]] = []

    def join(start: str, end: str, rate: int) -> None:
        links.append({"from": start, "to": end, "rate": text(rate), **latency})

    pcie = _uses_pcie(machine, several=network is not None)
    between = _uses_cpus(machine, network)
    for node in range(count):
        prefix = "" if lone else f"node{node}."
        name = [f"{prefix}{part.name}" for part in machine.parts]
        npus += [name[at] for at in vertices[Kind.GPU]]
        for (a, b), many in machine.direct.items():
            join(name[a], name[b], many * _nvlink(machine, given))
        if nvswitch:
            switches.append(f"{prefix}NVSwitch")
            for at, many in machine.switched.items():
                join(name[at], switches[-1], many * _nvlink(machine, given))
        if not pcie:
            continue
        for kind in (Kind.SWITCH, Kind.CPU, Kind.NIC):
            switches += [name[at] for at in vertices[kind]]
        for at, part in enumerate(machine.parts):
            if part.parent is None:
                continue
            start = name[at]
            if nvswitch and part.kind == Kind.GPU:
                # So that a path over PCIe is longer than one over NVSwitches.
                start = f"{name[at]}.pcie"
                switches.append(start)
                join(name[at], start, _pcie(part.rate, given))
            join(start, name[part.parent], _pcie(part.rate, given))
        cpus = vertices[Kind.CPU] if between else []
        for at, a in enumerate(cpus):
            for b in (b for b in cpus[at + 1 :] if machine.parts[b].host == machine.parts[a].host):
                join(name[a], name[b], _cpu(given))
        for at, nic in enumerate(vertices[Kind.NIC]):
            join(name[nic], "network" if network == "switch" else f"rail{at}", _nic(machine, nic, given))
    if network is not None:
        switches += ["network"] if network == "switch" else [f"rail{at}" for at in range(len(vertices[Kind.NIC]))]
    made: dict[str, Any] = {"npus": npus, "switches": switches, "links": links, "forward": False}
    return {**made, "routing": "ecmp"} if network is not None else made


def _uses_pcie(machine: Machine, *, several: bool) -> bool:
    """Whether any path leads over PCIe."""
    return several or any(pair not in machine.joined for pair in machine.pairs())


def _uses_cpus(machine: Machine, network: str | None) -> bool:
    """Whether any path leads between processors. On rails, messages for GPUs of another processor do."""

    def apart(a: int, b: int) -> bool:
        return machine.above(a)[-1] != machine.above(b)[-1]

    inside = any(apart(*pair) for pair in machine.pairs() if pair not in machine.joined)
    outside = network is not None and any(apart(gpu, machine.nearest_nics(gpu)[0]) for gpu in machine.gpus)
    return inside or outside or (network == "rails" and len(machine.cpus) > 1)


def _leads_outside(machine: Machine) -> bool:
    """Whether a path over NICs and the network has no more links than the PCIe path between two GPUs of a machine."""

    def out(gpu: int) -> int:
        return min(len(machine.path(gpu, nic)) for nic in machine.nics)

    return any(len(machine.path(a, b)) > out(a) + out(b) for a, b in machine.pairs() if (a, b) not in machine.joined)

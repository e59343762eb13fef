"""Reads topologies of SimAI, as its ``gen_Topo_Template.py`` writes them for ns-3.

The first line has the number of vertices, GPUs of a server, NVSwitches, other switches, links, and the type of the
GPUs. The second one has the numbers of the switches, NVSwitches first; GPUs have the numbers from 0 on. Each further
line is a link in both directions: ``0 32 2880Gbps 0.000025ms 0``, its ends, rate, latency and error rate.
(aliyun/SimAI, ``astra-sim-alibabacloud/inputs/topo``.)
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from syncline import _core
from syncline.clusters import network
from syncline.clusters.given import Given
from syncline.clusters.network import Host, Network
from syncline.clusters.nodes import Made, text
from syncline.clusters.printed import TextReader
from syncline.codes import Code
from syncline.input.problem import raise_errors
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.clusters.printed import Printed

_TAKEN = ("--by-link", "--latency", "--scale-up-latency", "--pcie-latency")
"""Options that change what the text says."""
_HEADER = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+([A-Za-z]\w*)\s*$")
_RATE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)bps")
_TIME = re.compile(r"(\d+(?:\.\d+)?(?:[eE]-?\d+)?)(ns|us|ms|s)")
_PREFIX = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_PS = {"ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_MAX_VERTICES = 4_000_000


@dataclass(frozen=True, slots=True)
class _Link:
    """A link: its ends, the lower number first; bits per second; picoseconds; its line."""

    start: int
    end: int
    rate: int
    latency: int
    line: int


@dataclass(frozen=True)
class _Topology:
    """What a text says."""

    gpus: int
    """How many GPUs there are, numbered from 0."""
    gpus_per_server: int
    nvswitches: int
    """How many NVSwitches there are, numbered after the GPUs."""
    vertices: int
    links: list[_Link]
    lossy: int
    """How many links have an error rate above zero."""


def begins(lines: Iterable[str]) -> bool:
    """Whether a text is of this kind."""
    first, second, *_ = [*(line for line, _ in zip(lines, range(2), strict=False)), "", ""]
    return _HEADER.match(first) is not None and re.match(r"\s*\d+(\s+\d+)*\s*$", second) is not None


def fabric(printed: Printed, given: Given) -> Made:
    """The fabric of a topology, whose NPUs are its GPUs in their order.

    :raises SynclineError: a line is malformed, or servers are not equal; errors name line and column.
    """
    topology = _Reader(printed).read()
    inside, outside = _by_part(topology)
    size = topology.gpus_per_server if inside else 1
    servers = topology.gpus // size
    scale_up = _scale_up(printed, topology, inside) if inside else 0
    options = {"--gpus": str(size)}
    if inside:
        options["--scale-up"] = text(scale_up)
        options["--scale-up-latency"] = _time(_one_latency(printed, inside, "--scale-up-latency", given))
    if outside:
        options["--latency"] = _time(_one_latency(printed, outside, "--latency", given))
    options |= {flag: value for flag, value in given.options.items() if flag in _TAKEN}
    own = Given(options)
    if outside:
        # Interfaces are no vertices of the text: where the fabric needs them, they take no time.
        own.options.setdefault("--pcie-latency", "0s")
        made = network.fabric(_network(topology, outside, size), own)
    else:
        made = _one_server(printed, topology, own)
    given.used |= own.used & set(_TAKEN)
    made.notes.insert(0, _sentence(topology, servers, size))
    if topology.lossy:
        made.notes.append(f"Left out: the error rates of {counted(topology.lossy, 'link')}; links here lose nothing.")
    return made


def _sentence(topology: _Topology, servers: int, size: int) -> str:
    joined = f" of {size} GPUs" if size > 1 else " of one GPU"
    return f"A topology of SimAI: {counted(servers, 'server')}{joined}."


def _one_server(printed: Printed, topology: _Topology, own: Given) -> Made:
    """The fabric of a server without a network."""
    if topology.gpus != topology.gpus_per_server:
        raise_errors(printed.wrong("no link joins the servers", (1, 1, 1), code=Code.BAD_FABRIC))
    rate, near = own.options["--scale-up"], own.latency("--scale-up-latency")
    return Made({"switch": {"hosts": topology.gpus, "rate": rate, **near}})


def _by_part(topology: _Topology) -> tuple[list[_Link], list[_Link]]:
    """Links to NVSwitches, and all others."""
    first = topology.gpus
    inside = [link for link in topology.links if first <= link.end < first + topology.nvswitches]
    known = {id(link) for link in inside}
    return inside, [link for link in topology.links if id(link) not in known]


def _one_latency(printed: Printed, links: list[_Link], flag: str, given: Given) -> int:
    """The latency that all links of a part have; any, if an option replaces it."""
    usual = Counter(link.latency for link in links).most_common(1)[0][0]
    first = next(link for link in links if link.latency == usual)
    other = next((link for link in links if link.latency != usual), None)
    if other is not None and flag not in given.options:
        raise_errors(
            printed.wrong(
                "links of one part of the network have different latencies",
                (other.line, 1, 1),
                code=Code.BAD_FABRIC,
                found=_time(other.latency),
                allowed=f"{_time(first.latency)}, as line {first.line} has",
                help=f"give one latency for all of them with {flag} T",
            )
        )
    return usual


def _scale_up(printed: Printed, topology: _Topology, inside: list[_Link]) -> int:
    """The rate of a GPU's links to the NVSwitches of its server, in bits per second."""
    size, first = topology.gpus_per_server, topology.gpus
    rates: Counter[int] = Counter()
    servers: dict[int, int] = {}
    for link in inside:
        server = link.start // size
        if link.start >= first or servers.setdefault(link.end, server) != server:
            raise_errors(
                printed.wrong(
                    "an NVSwitch joins GPUs of one server",
                    (link.line, 1, 1),
                    code=Code.BAD_FABRIC,
                    found=f"{link.start} and {link.end}",
                    allowed=f"a GPU of server {servers.get(link.end, 0)}: {size} GPUs follow each other in a server",
                )
            )
        rates[link.start] += link.rate
    least, most = min(rates.values()), max(rates.values())
    if len(rates) != topology.gpus or least != most:
        lone = next((gpu for gpu in range(topology.gpus) if rates[gpu] != most), 0)
        raise_errors(
            printed.wrong(
                f"GPU {lone} has not the NVLinks that others have",
                (1, 1, 1),
                code=Code.BAD_FABRIC,
                found=text(rates[lone]) if rates[lone] else "none",
                allowed=f"{text(most)} in all, as GPU {rates.most_common(1)[0][0]} has",
            )
        )
    return most


def _network(topology: _Topology, outside: list[_Link], size: int) -> Network:
    """The network of the servers; its switches have their numbers in the text as names."""
    first = topology.gpus + topology.nvswitches
    ports: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    cables: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for link in outside:
        if link.start < topology.gpus:
            ports[link.start].append((link.end - first, link.rate))
        else:
            cables[link.start - first, link.end - first][link.rate] += 1
    hosts = [
        Host(
            f"server{server}" if size > 1 else f"GPU{server}",
            [port for gpu in range(server * size, (server + 1) * size) for port in ports[gpu]],
        )
        for server in range(topology.gpus // size)
    ]
    fastest = max(link.rate for link in outside)
    return Network(hosts, [f"switch{at}" for at in range(first, topology.vertices)], dict(cables), pcie=fastest)


def _time(picoseconds: int) -> str:
    """A time as scenarios have it, exactly."""
    unit = next((each for each in reversed(_PS) if picoseconds >= _PS[each]), "ns")
    return f"{(Decimal(picoseconds) / _PS[unit]).normalize():f}{unit}"


class _Reader(TextReader):
    """Reads lines, and checks what they say together."""

    def read(self) -> _Topology:
        """The whole text."""
        lines = self.printed.lines
        header = _HEADER.match(lines[0]) if lines else None
        if header is None:
            self.stop("the first line is not that of a topology", 1, allowed=_FIRST)
        vertices, size, nvswitches, switches, count = (int(each[:12]) for each in header.groups()[:5])
        gpus = vertices - nvswitches - switches
        if gpus < 1 or vertices > _MAX_VERTICES:
            self.stop(
                "the numbers of vertices and switches do not fit",
                1,
                found=f"{vertices} vertices, {nvswitches + switches} switches",
                allowed=f"more vertices than switches, and at most {_MAX_VERTICES}",
            )
        if size < 1 or gpus % size:
            self.stop(
                "GPUs do not fill whole servers",
                1,
                found=f"{gpus} GPUs, {size} in each server",
                allowed="a multiple of the GPUs of a server",
            )
        named = lines[1].split() if len(lines) > 1 else []
        if named != [str(at) for at in range(gpus, vertices)]:
            self.stop(
                "the second line does not number the switches",
                2,
                found=counted(len(named), "number"),
                allowed=f"the numbers from {gpus} to {vertices - 1}: GPUs have those before",
            )
        links, lossy = self.links(lines, vertices, gpus)
        self.raise_problems()
        if not links:
            self.stop("the text has no links", 1)
        if len(links) != count:
            self.stop("the text has not as many links as its first line says", 1, str(len(links)), str(count))
        return _Topology(gpus, size, nvswitches, vertices, links, lossy)

    def links(self, lines: list[str], vertices: int, gpus: int) -> tuple[list[_Link], int]:
        """The links, and how many of them have an error rate above zero."""
        links: list[_Link] = []
        lossy = 0
        for number, line in enumerate(lines[2:], 3):
            fields = line.split()
            if not fields:
                continue
            if self.full:
                break
            if len(fields) != 5:
                self.wrong_part("a link has five fields", number, line, line.strip(), _LINK)
                continue
            ends = [int(each) if each.isascii() and each.isdigit() and len(each) < 10 else -1 for each in fields[:2]]
            bad = next((at for at, end in enumerate(ends) if not 0 <= end < vertices), None)
            rate, latency = _rate(fields[2]), _latency(fields[3])
            error = _error_rate(fields[4])
            if bad is not None:
                self.wrong_part("no such vertex", number, line, fields[bad], f"0 to {vertices - 1}")
            elif max(ends) < gpus or ends[0] == ends[1]:
                self.wrong_part("a link joins a GPU and a switch, or two switches", number, line, line.strip(), _LINK)
            elif rate is None:
                self.wrong_part("not a rate", number, line, fields[2], "a rate above zero, such as 400Gbps")
            elif latency is None:
                self.wrong_part("not a latency", number, line, fields[3], "a time, such as 0.0005ms")
            elif error is None:
                self.wrong_part("not an error rate", number, line, fields[4], "a number from 0 to 1")
            else:
                lossy += error > 0
                links.append(_Link(min(ends), max(ends), rate, latency, number))
        return links, lossy

    def wrong_part(self, message: str, number: int, line: str, part: str, allowed: str) -> None:
        """Collects an error about a part of a line."""
        self.wrong(message, (number, line.index(part) + 1), part, allowed=allowed)


_FIRST = "vertices, GPUs of a server, NVSwitches, other switches, links, type of the GPUs: 41 8 1 9 80 H100"
_LINK = "two numbers, rate, latency and error rate: 0 32 2880Gbps 0.000025ms 0"


def _rate(text: str) -> int | None:
    """Bits per second."""
    found = _RATE.fullmatch(text)
    if found is None:
        return None
    bits = Decimal(found[1]) * _PREFIX[found[2]]
    return int(bits) if bits == int(bits) and 0 < bits < 2**63 else None


def _latency(text: str) -> int | None:
    """Picoseconds."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        ps = Decimal(found[1]) * _PS[found[2]]
        return _core.parse_quantity("time", _time(round(ps)))
    except (ValueError, ArithmeticError):
        return None


def _error_rate(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 <= found <= 1 else None

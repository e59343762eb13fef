"""Reads what ``ibnetdiscover`` prints: the switches and interfaces of an InfiniBand network, port by port.

Each device begins with a line ``Switch 41 "S-..."`` or ``Ca 1 "H-..."``, whose comment describes it, and has a line for
each port that is in use: ``[1]  "S-..."[3]  # "leaf1" lid 3 4xHDR``. A link has a line at either end. If one of them is
missing, because only a part was saved, the other is enough.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from syncline.clusters.hostlists import HostListError, expand
from syncline.clusters.network import Host, Network
from syncline.codes import Code
from syncline.input.problem import error, nearest, raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.clusters.given import Given
    from syncline.clusters.printed import Printed

LANE_BITS_PER_S = {
    "SDR": 2_000_000_000,
    "DDR": 4_000_000_000,
    "QDR": 8_000_000_000,
    "FDR10": 10_000_000_000,
    "FDR": 13_636_363_636,
    "EDR": 25_000_000_000,
    "HDR": 50_000_000_000,
    "NDR": 100_000_000_000,
    "XDR": 200_000_000_000,
}
"""Rate of one lane in one direction, without its code, which is 8b/10b up to QDR and 64b/66b for FDR (InfiniBand
Architecture Specification); faster ones are sold by their rate without code."""
_DEVICE = re.compile(r'(Switch|Ca|Rt)\s+(\d+)\s+"([SHR]-[0-9a-fA-F]+)"(?:\s*#\s*"([^"]*)")?')
_END = r'"([SHR]-[0-9a-fA-F]+)"\[(\d+)\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?'
_PORT = re.compile(r"\[(\d+)\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s*" + _END + r"(?:\s*#\s*(.*))?")
_OTHER = re.compile(
    r"\s*$|#|(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid|nodeguid|portguid)=|Chassis|ibwarn|ibnetdiscover|src/"
)
_SPEED = re.compile(r"(\d+)x([A-Za-z]+\d*)\s*$")
_QUOTED = re.compile(r'"([^"]*)"')
_INTERFACE = re.compile(r"(\S+)\s+((?:HCA-|mlx|ib|hfi|qib|bnxt|irdma|cxi)\S*)$")
_SWITCH = re.compile(r"(?:MF0;)?([^:;]+)(?::[^/]*)?(/.*)?$")
_AGGREGATION = "Aggregation Node"
"""What switches that sum data (SHARP) call the device in them that does so."""
WIDTHS = (1, 2, 4, 8, 12)


@dataclass(slots=True)
class _Device:
    """A switch or an interface."""

    kind: str
    description: str
    line: int
    """Line of its block; 0 if only others name it."""


@dataclass(frozen=True, slots=True)
class _Link:
    """A link, as one of its lines has it."""

    rate: int | None
    line: int


_End = tuple[str, int]


def begins(lines: Iterable[str]) -> bool:
    """Whether a text is of this kind."""
    return any(_DEVICE.match(line) for line in lines)


def read(printed: Printed, given: Given) -> Network:
    """The network that a text describes: only the interfaces that ``--nics`` names, and the hosts of ``--hosts``.

    :raises SynclineError: a line is malformed, or two lines contradict each other; errors name line and column.
    """
    devices, links = _Reader(printed).read()
    return _network(devices, links, printed, given)


class _Reader:
    """Reads devices and links, line by line."""

    def __init__(self, printed: Printed) -> None:
        self.printed = printed
        self.devices: dict[str, _Device] = {}
        self.links: dict[tuple[_End, _End], _Link] = {}
        self.ends: dict[_End, tuple[_End, int]] = {}
        """The other end of each end, and the line that says so."""

    def read(self) -> tuple[dict[str, _Device], dict[tuple[_End, _End], _Link]]:
        """Devices by their GUIDs, and links by their ends."""
        own: str | None = None
        lines = self.printed.lines
        for number, line in enumerate(lines, 1):
            if port := _PORT.match(line):
                if own is None:
                    self.refuse("a port before the first device", number, line)
                self.port(own, port, number, line)
            elif device := _DEVICE.match(line):
                own = self.device(device, number, line)
            elif not _OTHER.match(line) and number < len(lines):
                self.refuse(
                    "neither a device nor a port",
                    number,
                    line,
                    allowed='Switch, Ca or Rt with ports and GUID, or [1] "S-0123456789abcdef"[2] # "name" lid 3 4xHDR',
                )
        return self.devices, self.links

    def device(self, found: re.Match[str], number: int, line: str) -> str:
        """Notes the device that a block describes, and returns its GUID."""
        kind, guid = found[1], found[3].lower()
        known = self.devices.get(guid)
        if known is not None and known.line:
            self.refuse(f"a second block of {found[3]}", number, line, notes=[f"the first is in line {known.line}"])
        self.devices[guid] = _Device(kind, found[4] or (known.description if known else ""), number)
        return guid

    def port(self, own: str, found: re.Match[str], number: int, line: str) -> None:
        """Notes a link of a device, which its other end may have told before."""
        rest = found[4] or ""
        here, there = (own, int(found[1])), (found[2].lower(), int(found[3]))
        for end, other in ((here, there), (there, here)):
            before = self.ends.setdefault(end, (other, number))
            if before[0] != other:
                where = "" if end == here else f" of {self.name(end[0])}"
                self.refuse(
                    f"port {end[1]}{where} is joined to two ports",
                    number,
                    line,
                    notes=[f"line {before[1]} joins it to port {before[0][1]} of {self.name(before[0][0])}"],
                )
        if there[0] not in self.devices:
            kind = {"s": "Switch", "h": "Ca", "r": "Rt"}[there[0][0]]
            quoted = _QUOTED.search(rest)
            self.devices[there[0]] = _Device(kind, quoted[1] if quoted else "", 0)
        rate = self.rate(rest, number, line)
        ends = (min(here, there), max(here, there))
        known = self.links.get(ends)
        if known is None or (known.rate is None and rate is not None):
            self.links[ends] = _Link(rate, number)
        elif rate is not None and rate != known.rate:
            self.refuse(
                "the two ends of a link have different rates",
                number,
                line,
                notes=[f"the other is in line {known.line}"],
            )

    def rate(self, rest: str, number: int, line: str) -> int | None:
        """The rate at the end of a port's line; None if there is none."""
        found = _SPEED.search(rest)
        if found is None:
            return None
        lanes, speed = int(found[1]), found[2].upper()
        if speed not in LANE_BITS_PER_S or lanes not in WIDTHS:
            near = None if speed in LANE_BITS_PER_S else nearest(speed, LANE_BITS_PER_S)
            allowed = f"{', '.join(f'{width}x' for width in WIDTHS)} and {', '.join(LANE_BITS_PER_S)}"
            column = line.rindex(found[0]) + 1
            raise_errors(
                self.printed.wrong(
                    "an unknown width or speed of a link",
                    (number, column, len(found[0].rstrip())),
                    found=found[0].strip(),
                    allowed=allowed,
                    nearest=near and f"{lanes}x{near}",
                )
            )
        return lanes * LANE_BITS_PER_S[speed]

    def name(self, guid: str) -> str:
        """A device for people."""
        return self.devices[guid].description or guid if guid in self.devices else guid

    def refuse(
        self, message: str, number: int, line: str, *, allowed: str | None = None, notes: Iterable[str] = ()
    ) -> NoReturn:
        """Raises an error about a line."""
        column = len(line) - len(line.lstrip()) + 1
        raise_errors(
            self.printed.wrong(message, (number, column, 0), found=shown(line.strip()), allowed=allowed, notes=notes)
        )


def _network(
    devices: dict[str, _Device], links: dict[tuple[_End, _End], _Link], printed: Printed, given: Given
) -> Network:
    switches = {guid: at for at, guid in enumerate(each for each in devices if devices[each].kind == "Switch")}
    names = _switch_names([devices[guid].description for guid in switches], list(switches))
    ports: dict[str, list[tuple[str, int, tuple[int, int]]]] = {}
    """Ports of each host: name of the interface, number of the port, and where it leads to: switch and rate."""
    cables: dict[tuple[int, int], Counter[int]] = {}
    interfaces = {guid: _interface(device.description, guid) for guid, device in devices.items() if device.kind == "Ca"}
    for (a, b), link in links.items():
        ends = [end[0] for end in (a, b)]
        if all(end in switches for end in ends):
            low, high = sorted(switches[end] for end in ends)
            if low != high:
                cables.setdefault((low, high), Counter())[_rate(link, printed, given)] += 1
            continue
        for end, other, number in ((ends[0], ends[1], a[1]), (ends[1], ends[0], b[1])):
            own = interfaces.get(end)
            if own is None or other not in switches or _AGGREGATION in devices[end].description:
                continue
            host, nic = own
            port = (switches[other], _rate(link, printed, given))
            ports.setdefault(host, []).append((nic, number, port))
    for found in ports.values():
        found.sort(key=lambda each: (_natural(each[0]), each[1]))
    order = sorted(ports, key=_natural)
    whole = Network([Host(name, [port for *_, port in ports[name]]) for name in order], names, cables)
    nics = given.names("--nics", sorted({nic for found in ports.values() for nic, *_ in found}, key=_natural))
    some = _hosts(given, ports)
    if nics is None and some is None:
        return whole
    hosts = [
        Host(name, [port for nic, _, port in ports[name] if nics is None or nic in nics])
        for name in order
        if some is None or name in some
    ]
    return whole.of([host for host in hosts if host.ports])


def _rate(link: _Link, printed: Printed, given: Given) -> int:
    if link.rate is not None:
        return link.rate
    return given.rate("--nic", f"line {link.line} of {printed.file} has no width and speed")


def _hosts(given: Given, known: Iterable[str]) -> set[str] | None:
    """The hosts that ``--hosts`` names; None without it."""
    given.used.add("--hosts")
    text = given.options.get("--hosts")
    if text is None:
        return None
    try:
        found = expand(text)
    except HostListError as problem:
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"not a list of hosts: {problem}",
                key="--hosts",
                found=shown(text),
                help="write it like node[001-064],gpu7",
            )
        )
    names = set(known)
    missing = [name for name in found if name not in names]
    if missing:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "--hosts names what the text does not have",
                key="--hosts",
                found=missing[0],
                nearest=nearest(missing[0], sorted(names)),
                notes=[f"and {len(missing) - 1} more"] if len(missing) > 1 else [],
            )
        )
    return set(found)


def _interface(description: str, guid: str) -> tuple[str, str]:
    """Host and name of an interface, such as ``node001 mlx5_0``; a host of its own if it does not name one."""
    found = _INTERFACE.match(description.strip().strip("'"))
    return (found[1], found[2]) if found else (guid, "HCA-1")


def _switch_names(descriptions: list[str], guids: list[str]) -> list[str]:
    """Names of switches: from descriptions such as ``MF0;leaf1:MQM8700/U1``, or GUIDs where these are the same."""
    short = []
    for description, guid in zip(descriptions, guids, strict=True):
        found = _SWITCH.match(description.strip().strip("'"))
        single = found is not None and (found[2] is None or found[2] == "/U1")
        short.append((found[1] if single else f"{found[1]}{found[2]}") if found else guid)
    count = Counter(short)
    return [name if count[name] == 1 else guid for name, guid in zip(short, guids, strict=True)]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts numbers in names by their values."""
    return tuple((int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name))

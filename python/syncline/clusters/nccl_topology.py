"""Reads the topology that NCCL writes to the file that ``NCCL_TOPO_DUMP_FILE`` names.

It is an XML tree of processors, PCI devices, GPUs and network interfaces. An element ``nvlink`` leads to another GPU
or, with the PCI class of a bridge, to an NVSwitch. Rates of PCIe follow from ``link_speed`` and ``link_width``, those
of interfaces from ``speed`` in Mb/s, those of NVLinks from the generation of the GPU, its ``sm``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn
from xml.parsers import expat

from syncline.clusters.machine import Kind, Machine, Part
from syncline.codes import Code
from syncline.input.problem import raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.clusters.printed import Printed

MAX_ELEMENTS = 100_000
"""Most elements."""
MAX_DEPTH = 64
"""Deepest nesting."""
NVLINK_BYTES_PER_S = {60: 20e9, 70: 25e9, 80: 25e9, 90: 25e9, 100: 50e9, 103: 50e9}
"""Rate of an NVLink in one direction, by a GPU's compute capability: data sheets of P100 to B300."""
_GPU_CLASSES = ("0x0302", "0x0300")
"""How PCI classes of GPUs begin: 3D controllers and VGA controllers."""
_SPEED = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]+)?)\s*GT/s")
_BEGINS = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<system[\s>]", re.S)


@dataclass
class _Element:
    """An element, and where its tag is."""

    name: str
    attributes: dict[str, str]
    line: int
    column: int
    children: list[_Element] = field(default_factory=list)

    def all(self, name: str) -> Iterator[_Element]:
        """All elements of a name in it, in their order."""
        for child in self.children:
            if child.name == name:
                yield child
            yield from child.all(name)


def begins(content: str) -> bool:
    """Whether a text is such a tree."""
    return _BEGINS.match(content[:10_000]) is not None


def read(printed: Printed) -> Machine:
    """The machine that a text describes.

    :raises SynclineError: the tree is malformed, or an element lacks what it needs; errors name line and column.
    """
    return _Reader(printed).machine(_parsed(printed))


def _parsed(printed: Printed) -> _Element:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    open_: list[_Element] = []
    root: list[_Element] = []
    count = 0

    def refuse(message: str, help: str | None = None) -> NoReturn:
        at = (parser.CurrentLineNumber, parser.CurrentColumnNumber + 1, 0)
        raise_errors(printed.wrong(message, at, help=help))

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MAX_ELEMENTS or len(open_) >= MAX_DEPTH:
            refuse(f"more than {MAX_ELEMENTS} elements, or nested deeper than {MAX_DEPTH}")
        made = _Element(name, attributes, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
        (open_[-1].children if open_ else root).append(made)
        open_.append(made)

    def end(_: str) -> None:
        open_.pop()

    def doctype(*_: object) -> None:
        refuse("a document type is not allowed", "remove the line with DOCTYPE")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(printed.content, True)  # noqa: FBT003 - the name of the parameter differs by version
    except expat.ExpatError as problem:
        reason = expat.ErrorString(problem.code)
        raise_errors(
            printed.wrong(
                f"not well-formed XML: {reason}",
                (problem.lineno, problem.offset + 1, 0),
                help="dump it again: NCCL_TOPO_DUMP_FILE=topo.xml",
            )
        )
    return root[0]


class _Reader:
    """Turns elements into the parts of a machine."""

    def __init__(self, printed: Printed) -> None:
        self.printed = printed
        self.gpus: list[tuple[int, int, _Element, str, Part]] = []
        """Host, device, element, PCI address and part of each GPU."""
        self.nics: list[tuple[_Element, Part]] = []
        self.others: list[Part] = []
        """Switches and processors. Until all are known, parents are their numbers here."""
        self.hosts: list[str] = []

    def machine(self, root: _Element) -> Machine:
        """The machine."""
        cpus = [each for each in root.children if each.name == "cpu"]
        if not cpus:
            self.refuse("no element `cpu` in `system`", root)
        for cpu in cpus:
            host = cpu.attributes.get("host_hash", "")
            if host not in self.hosts:
                self.hosts.append(host)
            number = sum(part.kind == Kind.CPU for part in self.others)
            self.others.append(Part(f"cpu{number}", Kind.CPU, None, host=self.hosts.index(host)))
            self.below(cpu, len(self.others) - 1, None, self.hosts.index(host))
        if not self.gpus:
            self.refuse("no element `gpu`: the tree has no GPUs", root)
        self.gpus.sort(key=lambda each: each[:2])
        return self.joined()

    def below(self, element: _Element, parent: int, rate: int | None, host: int) -> None:
        """Adds what is in an element, below the part ``parent``, over PCIe of ``rate``."""
        for child in element.children:
            match child.name:
                case "pci":
                    self.device(child, parent, host)
                case "gpu":
                    dev = self.number(child, "dev", 0, 4095)
                    part = Part(f"GPU{dev}", Kind.GPU, parent, rate, host)
                    self.gpus.append((host, dev, child, element.attributes.get("busid", "").lower(), part))
                case "nic":
                    self.below(child, parent, rate, host)
                case "net":
                    name = child.attributes.get("name") or f"net{child.attributes.get('dev', len(self.nics))}"
                    self.nics.append((child, Part(name, Kind.NIC, parent, rate, host)))

    def device(self, pci: _Element, parent: int, host: int) -> None:
        """Adds a PCI device: a switch if several devices or ports are below it."""
        rate = self.pcie(pci)
        ports = sum(len([1 for net in nic.children if net.name == "net"]) for nic in pci.children if nic.name == "nic")
        below = sum(each.name in ("pci", "gpu") for each in pci.children) + ports
        if below > 1:
            number = sum(part.kind == Kind.SWITCH for part in self.others)
            self.others.append(Part(f"switch{number}", Kind.SWITCH, parent, rate, host))
            parent = len(self.others) - 1
        self.below(pci, parent, rate, host)

    def joined(self) -> Machine:
        """The machine of all parts."""
        several = len(self.hosts) > 1
        first = len(self.gpus) + len(self.nics)
        leaves = [each[-1] for each in self.gpus] + [part for _, part in self.nics]
        parts = []
        for part in [*leaves, *self.others]:
            name = f"host{part.host}.{part.name}" if several and part.kind != Kind.CPU else part.name
            parent = None if part.parent is None else part.parent + first
            parts.append(Part(name, part.kind, parent, part.rate, part.host))
        at = {(host, address): number for number, (host, _, _, address, _) in enumerate(self.gpus)}
        if len(at) < len(self.gpus) or len({part.name for part in parts}) < len(parts):
            self.refuse("two GPUs or interfaces are the same", self.gpus[-1][2])
        direct: dict[tuple[int, int], int] = {}
        switched: dict[int, int] = {}
        rates = set()
        for number, (host, _, gpu, _, _) in enumerate(self.gpus):
            for link in gpu.all("nvlink"):
                count = self.number(link, "count", 1, 1024)
                target = at.get((host, link.attributes.get("target", "").lower()))
                if target is not None and target != number:
                    pair = (min(number, target), max(number, target))
                    if direct.setdefault(pair, count) != count:
                        self.refuse("two GPUs count the NVLinks between them differently", link, str(count))
                elif link.attributes.get("tclass", "").startswith(_GPU_CLASSES):
                    self.refuse(
                        "an NVLink leads to a GPU that the tree does not have", link, link.attributes.get("target")
                    )
                else:
                    switched[number] = switched.get(number, 0) + count
                rates.add(NVLINK_BYTES_PER_S.get(self.number(gpu, "sm", 0, 999)) if "sm" in gpu.attributes else None)
        if several and len(switched) < len(self.gpus):
            alone = next(gpu for number, (*_, gpu, _, _) in enumerate(self.gpus) if number not in switched)
            self.refuse("the tree has several hosts, and no NVSwitch joins this GPU with the others", alone)
        known = [rate for rate in rates if rate is not None]
        nics = enumerate(self.nics, len(self.gpus))
        speeds = {
            number: self.number(net, "speed", 0, 10**8) * 10**6
            for number, (net, _) in nics
            if "speed" in net.attributes
        }
        return Machine(
            tuple(parts),
            direct,
            switched,
            int(8 * min(known)) if known and len(known) == len(rates) else None,
            {number: speed for number, speed in speeds.items() if speed},
        )

    def pcie(self, pci: _Element) -> int | None:
        """Rate of a PCIe link in one direction, in bits per second, to the nearest 1 MB/s; None if unknown."""
        speed = _SPEED.match(pci.attributes.get("link_speed", ""))
        if speed is None or "link_width" not in pci.attributes:
            return None
        lanes = self.number(pci, "link_width", 0, 64)
        transfers = float(speed[1])
        # PCI Express Base Specification: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, then 242 of 256 bytes of a flit.
        code = 8 / 10 if transfers < 8 else 128 / 130 if transfers < 64 else 242 / 256
        return round(transfers * 1e9 * lanes * code / 8e6) * 8_000_000 or None

    def number(self, element: _Element, name: str, least: int, most: int) -> int:
        """A whole number in an attribute."""
        text = element.attributes.get(name)
        if text is None:
            self.refuse(f"`{element.name}` has no attribute `{name}`", element)
        if not (text.isascii() and text.isdigit() and least <= int(text[:12]) <= most):
            self.refuse(f"not a valid `{name}`", element, text, f"{least} to {most}")
        return int(text)

    def refuse(self, message: str, element: _Element, found: str | None = None, allowed: str | None = None) -> NoReturn:
        """Raises an error about an element."""
        at = (element.line, element.column, len(element.name) + 1)
        found = None if found is None else shown(found)
        raise_errors(self.printed.wrong(message, at, code=Code.BAD_VALUE, found=found, allowed=allowed))

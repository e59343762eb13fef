"""Reads Slurm's ``topology.conf``: a tree of switches (``topology/tree``), or blocks of hosts (``topology/block``).

A line is a switch with the hosts or the switches below it, or a block, whose hosts a scale-up network joins:
``SwitchName=leaf1 Nodes=gpu[001-016]``, ``SwitchName=spine Switches=leaf[1-8]``, ``BlockName=rack1
Nodes=gpu[001-018]``. Slurm knows no rates.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.clusters.hostlists import HostListError, expand
from syncline.clusters.network import Host, Network
from syncline.clusters.printed import TextReader
from syncline.codes import Code
from syncline.input.problem import nearest, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from syncline.clusters.given import Given
    from syncline.clusters.printed import Printed

_PAIR = re.compile(r"([A-Za-z]+)\s*=\s*(\S+)")
_KEYS = {
    "switchname": ("nodes", "switches", "linkspeed"),
    "blockname": ("nodes",),
    "blocksizes": (),
}
"""Keys that may follow the first key of a line."""
_NAMES = {
    "switchname": "SwitchName",
    "blockname": "BlockName",
    "blocksizes": "BlockSizes",
    "nodes": "Nodes",
    "switches": "Switches",
    "linkspeed": "LinkSpeed",
}


@dataclass(frozen=True)
class Value:
    """A value, and where it is."""

    text: str
    line: int
    column: int


@dataclass(frozen=True)
class Entry:
    """A switch or a block."""

    name: Value
    hosts: list[str]
    below: list[tuple[str, Value]]
    """Switches below a switch, and the value that names them."""


def begins(lines: Iterable[str]) -> bool:
    """Whether a text is of this kind."""
    return any(re.match(r"\s*(SwitchName|BlockName)\s*=", line, re.I) for line in lines)


def read(printed: Printed, given: Given) -> Network:
    """The network that a text describes, with the rates of ``--nic`` and ``--uplink``.

    :raises SynclineError: a line is malformed, or a rate is missing; errors name line and column.
    """
    return network_of(Reader(printed), given)


def network_of(reader: Reader, given: Given) -> Network:
    """The network of what a reader finds; arguments and errors are those of :func:`read`."""
    switches, blocks = reader.read()
    ports = given.count("--nics", 1)
    rate = given.rate("--nic", "Slurm does not know the rate of a host's interface")
    if switches:
        network = reader.tree(switches, ports, rate, given)
        block_of = {host: block.name.text for block in blocks for host in block.hosts}
        return Network(network.hosts, network.switches, network.cables, blocks=block_of)
    hosts = [Host(host, [(0, rate)] * ports) for block in blocks for host in block.hosts]
    return Network(hosts, ["network"], {}, blocks={host: each.name.text for each in blocks for host in each.hosts})


class Reader(TextReader):
    """Reads lines, and checks what they say together."""

    def read(self) -> tuple[list[Entry], list[Entry]]:
        """The switches and the blocks."""
        switches: dict[str, Entry] = {}
        blocks: dict[str, Entry] = {}
        for values in self.lines():
            kind = next(iter(values))
            if kind != "blocksizes":
                self.add(self.entry(kind, values), switches if kind == "switchname" else blocks)
        return self.checked(switches, blocks)

    def add(self, entry: Entry, known: dict[str, Entry]) -> None:
        """Adds a switch or a block to those that are known; a second one of a name is an error."""
        if entry.name.text in known:
            first = known[entry.name.text].name.line
            self.wrong_value(f"a second line of {entry.name.text}", entry.name, notes=[f"the first is line {first}"])
        known.setdefault(entry.name.text, entry)

    def checked(self, switches: dict[str, Entry], blocks: dict[str, Entry]) -> tuple[list[Entry], list[Entry]]:
        """The switches and the blocks, if there was no error so far, and no host is in two blocks."""
        self.raise_problems()
        if blocks:
            self.once([*blocks.values()])
        return [*switches.values()], [*blocks.values()]

    def lines(self) -> Iterator[dict[str, Value]]:
        """The keys in lower case and the values of each line, in their order."""
        for number, line in enumerate(self.printed.lines, 1):
            content = line.split("#", 1)[0]
            if not content.strip():
                continue
            found: dict[str, Value] = {}
            rest = content
            for pair in _PAIR.finditer(content):
                rest = rest.replace(pair[0], " " * len(pair[0]), 1)
                self.key(found, pair, number)
            if rest.strip():
                column = len(rest) - len(rest.lstrip()) + 1
                word = Value(rest.split()[0], number, column)
                self.wrong_value(
                    "not of the form KEY=VALUE", word, help="write it like SwitchName=leaf1 Nodes=gpu[001-016]"
                )
            elif found:
                yield found

    def key(self, found: dict[str, Value], pair: re.Match[str], line: int) -> None:
        """Adds a key and its value."""
        key, place = pair[1].lower(), Value(pair[1], line, pair.start() + 1)
        allowed = _KEYS[next(iter(found))] if found else tuple(_KEYS)
        if key not in allowed:
            names = [_NAMES[each] for each in allowed]
            near = nearest(pair[1], names)
            self.wrong_value(
                "a key that does not belong here", place, allowed=", ".join(names) or "no other key", near=near
            )
            self.raise_problems()
        if key in found:
            self.wrong_value(f"{pair[1]} is given twice", place)
        found[key] = Value(pair[2], line, pair.start(2) + 1)

    def entry(self, kind: str, values: dict[str, Value]) -> Entry:
        """A switch or a block."""
        name = values[kind]
        hosts = self.expanded(values["nodes"]) if "nodes" in values else []
        below = (
            [(each, values["switches"]) for each in self.expanded(values["switches"])] if "switches" in values else []
        )
        if not hosts and not below:
            self.nothing_below(name, "Nodes or Switches" if kind == "switchname" else "Nodes")
        return Entry(name, hosts, below)

    def nothing_below(self, name: Value, keys: str) -> None:
        """Collects an error about a switch or a block."""
        self.wrong_value(f"{name.text} has nothing below it", name, help=f"add {keys}")

    def expanded(self, value: Value) -> list[str]:
        """The names in a list."""
        try:
            return expand(value.text)
        except HostListError as problem:
            at = (value.line, value.column + problem.column, problem.width)
            self.problems.append(self.printed.wrong(f"not a list of names: {problem}", at, found=shown(value.text)))
            return []

    def once(self, blocks: list[Entry]) -> None:
        """Checks that no host is in two blocks."""
        first: dict[str, str] = {}
        for block in blocks:
            for host in block.hosts:
                if host in first:
                    self.wrong_value(
                        f"{host} is in two blocks", block.name, found=f"{first[host]} and {block.name.text}"
                    )
                first.setdefault(host, block.name.text)
        self.raise_problems()

    def tree(self, entries: list[Entry], ports: int, rate: int, given: Given) -> Network:
        """The tree of switches."""
        number = {entry.name.text: at for at, entry in enumerate(entries)}
        hosts: dict[str, Host] = {}
        for at, entry in enumerate(entries):
            for name in entry.hosts:
                hosts.setdefault(name, Host(name)).ports.extend([(at, rate)] * ports)
        cables: dict[tuple[int, int], Counter[int]] = {}
        for at, entry in enumerate(entries):
            for name, value in entry.below:
                if name not in number:
                    near = nearest(name, number) if len(number) < 10_000 else None
                    self.wrong_value("a switch that has no line", value, found=name, near=near)
                elif number[name] == at:
                    self.wrong_value(f"{name} is below itself", value)
                else:
                    cables[min(at, number[name]), max(at, number[name])] = Counter()
        self.raise_problems()
        network = Network([*hosts.values()], [entry.name.text for entry in entries], cables)
        if cables:
            uplinks = given.rates("--uplink", "Slurm does not know the rate between switches")
            for a, b in cables:
                level = min(each for each in (network.levels[a], network.levels[b]))
                cables[a, b][uplinks[max(0, min(level, len(uplinks)) - 1)]] = 1
        return network

    def wrong_value(
        self,
        message: str,
        value: Value,
        *,
        found: str | None = None,
        allowed: str | None = None,
        near: str | None = None,
        help: str | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        """Collects an error about a value."""
        at = (value.line, value.column)
        self.wrong(
            message,
            at,
            value.text,
            code=Code.BAD_VALUE,
            found=found,
            allowed=allowed,
            nearest=near,
            help=help,
            notes=notes,
        )

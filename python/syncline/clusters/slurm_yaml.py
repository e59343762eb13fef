"""Reads Slurm's ``topology.yaml``: the trees and blocks of ``topology.conf``, several to a file, each with a name.

The topology that counts is the one with ``cluster_default: true``, or the only one. In a tree, ``children`` are what
``Switches`` are in ``topology.conf``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from syncline.clusters.slurm import Entry, Reader, Value, network_of
from syncline.input.problem import nearest, raise_errors
from syncline.input.yaml import read as read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from syncline.clusters.given import Given
    from syncline.clusters.network import Network
    from syncline.clusters.printed import Printed
    from syncline.input.node import Mark, Node

_TOPOLOGY = ("topology", "cluster_default", "tree", "block", "flat")
_SWITCH, _BLOCK = ("switch", "nodes", "children"), ("block", "nodes")


def begins(lines: Iterable[str]) -> bool:
    """Whether a text is of this kind: a list whose entries have a topology's name and one of its forms."""
    text = "\n".join(lines)
    return bool(
        re.search(r"^\s*-\s+(topology|cluster_default)\s*:", text, re.M)
        and re.search(r"^\s+(- )?(tree|block|flat)\s*:", text, re.M)
    )


def read(printed: Printed, given: Given) -> Network:
    """The network that a text describes, with the rates of ``--nic`` and ``--uplink``.

    :raises SynclineError: the text is malformed, a rate is missing, or no topology is the one that counts; errors
        name line and column.
    """
    return network_of(_YamlReader(printed), given)


class _YamlReader(Reader):
    """Reads YAML in place of lines."""

    def read(self) -> tuple[list[Entry], list[Entry]]:
        """The switches and the blocks of the topology that counts."""
        chosen = self.chosen(read_yaml(self.printed.content, self.printed.file))
        switches: dict[str, Entry] = {}
        blocks: dict[str, Entry] = {}
        if "tree" in chosen:
            parts = self.mapping(chosen["tree"], ("switches",))
            for node in self.parts(parts, "switches", chosen["tree"]):
                self.add(self.read_entry(self.mapping(node, _SWITCH), "switch", node), switches)
        if "block" in chosen:
            parts = self.mapping(chosen["block"], ("blocks", "block_sizes"))
            for node in self.parts(parts, "blocks", chosen["block"]):
                self.add(self.read_entry(self.mapping(node, _BLOCK), "block", node), blocks)
        if not switches and not blocks:
            name = chosen.get("topology")
            self.refuse("a topology without switches and blocks says nothing of a network", name, "tree or block")
        return self.checked(switches, blocks)

    def chosen(self, root: Node) -> Mapping[str, Node]:
        """The topology that counts."""
        entries = root.value if isinstance(root.value, list) else [root]
        known = [self.mapping(each, _TOPOLOGY) for each in entries]
        said = [each.get("cluster_default") for each in known]
        for node in said:
            if node is not None and not isinstance(node.value, bool):
                self.refuse("`cluster_default` says whether this topology counts", node, "true or false")
        default = [each for each, node in zip(known, said, strict=True) if node is not None and node.value is True]
        if len(default) != 1 and len(known) != 1:
            many = "several topologies are" if default else "no topology is"
            names = ", ".join(str(each["topology"].value) for each in known if "topology" in each)
            self.refuse(f"{many} the default of the cluster", root, f"`cluster_default: true` in one of {names}")
        return (default or known)[0]

    def parts(self, values: Mapping[str, Node], key: str, holder: Node) -> list[Node]:
        """The entries of a list."""
        node = values.get(key)
        if node is None or not isinstance(node.value, list):
            self.refuse(f"`{key}` has to be a list", node or holder, f"a list below `{key}`")
        return node.value

    def read_entry(self, values: Mapping[str, Node], kind: str, holder: Node) -> Entry:
        """A switch or a block."""
        if kind not in values:
            self.refuse(f"a {kind} without a name", holder, f"{kind}: NAME")
        name = _value(values[kind])
        hosts = self.expanded(_value(values["nodes"])) if "nodes" in values else []
        children = _value(values["children"]) if "children" in values else None
        below = [] if children is None else [(each, children) for each in self.expanded(children)]
        if not hosts and not below:
            self.nothing_below(name, "nodes or children" if kind == "switch" else "nodes")
        return Entry(name, hosts, below)

    def mapping(self, node: Node, allowed: tuple[str, ...]) -> Mapping[str, Node]:
        """The values of a mapping that has these keys alone."""
        if not isinstance(node.value, dict):
            self.refuse("this has to be a mapping", node, ", ".join(allowed))
        for key in node.value:
            if key not in allowed:
                at = _place(node.keys.get(key, node.mark))
                message, near = "a key that does not belong here", nearest(key, allowed)
                self.wrong(message, at, key, allowed=", ".join(allowed), nearest=near)
        self.raise_problems()
        return node.value

    def refuse(self, message: str, node: Node | None, allowed: str) -> NoReturn:
        """Raises an error about a value, after which reading cannot go on."""
        at = _place(None if node is None else node.mark)
        raise_errors(*self.problems, self.printed.wrong(message, (*at, len(_text(node))), allowed=allowed))


def _place(mark: Mark | None) -> tuple[int, int]:
    return (1, 1) if mark is None else (mark.line, mark.column)


def _text(node: Node | None) -> str:
    return "" if node is None or isinstance(node.value, dict | list) else str(node.value)


def _value(node: Node) -> Value:
    """A scalar with its place."""
    return Value(_text(node), *_place(node.mark))

"""Reads a CSV edge list as a source with the values of a fabric given link by link."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input import limits
from syncline.input.check import in_order
from syncline.input.csv_rows import Form, read_rows
from syncline.input.node import Mark, Node
from syncline.input.problem import error, raise_errors, shown
from syncline.input.source import Source

if TYPE_CHECKING:
    from syncline.config.fabric import FileFabric
    from syncline.errors import Diagnostic

_NUMBERED = re.compile(r"(npu|switch)([0-9]{1,9})")
_DUPLEX = {"yes": True, "true": True, "no": False, "false": False}


def read(path: str, fabric: FileFabric) -> Source:
    """Reads the links of a CSV file; counts the vertices if ``fabric`` does not name them."""
    links, start, problems = read_rows(path, _FORM)
    vertices = {
        word: _vertices(links, word, given, problems)
        for word, given in (("npu", fabric.npus), ("switch", fabric.switches))
    }
    if problems:
        raise_errors(*in_order(problems))
    root = {"npus": vertices["npu"], "switches": vertices["switch"], "links": Node(list(links), start)}
    return Source(Node(dict(root), start), path)


def _value(key: str, cell: str, mark: Mark, problems: list[Diagnostic]) -> str | bool | int:
    if key == "duplex":
        if cell.lower() not in _DUPLEX:
            problem = "not a value of `duplex`"
            problems.append(
                error(Code.BAD_VALUE, problem, mark=mark, key=key, found=shown(cell), allowed=", ".join(_DUPLEX))
            )
        return _DUPLEX.get(cell.lower(), True)
    whole = key in ("from", "to", "count") and cell.isascii() and cell.isdigit() and len(cell) < 11
    return int(cell) if whole else cell


_FORM = Form(
    columns=("from", "to", "rate", "latency", "duplex", "count"),
    required=("from", "to", "rate"),
    help="the first line is from,to,rate, optionally with latency, duplex and count",
    row="link",
    max_rows=limits.MAX_EDGES,
    max_bytes=limits.MAX_EDGE_FILE_BYTES,
    convert=_value,
)


def _vertices(links: list[Node], word: str, given: list[str] | None, problems: list[Diagnostic]) -> Node:
    """The vertices of a kind: the given names, or else their number, counted from names such as ``npu0``.

    Numbers must run from 0 without gaps.
    """
    if given is not None:
        return Node([Node(name) for name in given])
    first: dict[int, Node] = {}
    for link in links:
        for end in ("from", "to"):
            node = link.child(end)
            found = _NUMBERED.fullmatch(node.value) if node and isinstance(node.value, str) else None
            if node and found and found[1] == word:
                first.setdefault(int(found[2]), node)
    gap = next(number for number in range(len(first) + 1) if number not in first)
    if gap < len(first):
        beyond = first[min(number for number in first if number > gap)]
        problems.append(
            error(
                Code.BAD_FABRIC,
                f"no link joins {word}{gap}",
                mark=beyond.mark,
                found=str(beyond.value),
                help=f"count from {word}0 without gaps, or name the vertices with fabric.npus and fabric.switches",
            )
        )
    return Node(len(first))

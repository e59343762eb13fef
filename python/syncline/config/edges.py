"""Fabrics given link by link: names of vertices into numbers, CSV edge lists into links."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

from syncline.config import limits
from syncline.config.check import check
from syncline.config.fabric import FileFabric, GraphFabric
from syncline.config.node import Mark, Node, Path, Text, dotted
from syncline.config.problem import error, nearest, refuse
from syncline.config.source import Source, from_file, read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.config.origin import Origins
    from syncline.errors import Diagnostic

_COLUMNS = ("from", "to", "rate", "latency", "duplex")
_NUMBERED = re.compile(r"(npu|switch)([0-9]{1,9})")


def graph(fabric: GraphFabric, origins: Origins, source: Source, at: Path) -> dict[str, Any]:
    """The resolved form of a fabric whose values stand at ``at`` in ``source``."""
    npus, switches = _vertices(fabric.npus, "npu"), _vertices(fabric.switches, "switch")
    numbers = {name: number for number, name in enumerate([*npus, *switches])}
    problems: list[Diagnostic] = []

    def number(vertex: str | int, path: Path) -> int:
        found = numbers.get(vertex) if isinstance(vertex, str) else vertex
        if found is not None and found < len(npus) + len(switches):
            return found
        listed = len(numbers) <= 12
        names = ", ".join(numbers) if listed else f"{next(iter(numbers))} to {next(reversed(numbers))}"
        problems.append(
            error(
                "SL0201",
                "no such vertex",
                mark=source.mark(path),
                key=dotted(path),
                found=str(vertex),
                allowed=f"{names}, or a number below {len(npus) + len(switches)}",
                nearest=nearest(str(vertex), numbers) if len(numbers) < 10_000 else None,
            )
        )
        return 0

    links: list[dict[str, Any]] = []
    for index, link in enumerate(fabric.links):
        path = (*at, "links", index)
        ends = number(link.from_, (*path, "from")), number(link.to, (*path, "to"))
        for start, end in (ends, ends[::-1]) if link.duplex else (ends,):
            for prefix in (("fabric", "links"), ("fabric", "graph", "links")):
                origins.move((*prefix, len(links)), path, source)
            links.append({"from": start, "to": end, "rate": link.rate, "latency": link.latency})
    routing: Any = "shortest"
    if isinstance(fabric.routing, list):
        paths = enumerate(fabric.routing)
        routing = {
            "explicit": [
                [number(vertex, (*at, "routing", row, column)) for column, vertex in enumerate(path)]
                for row, path in paths
            ]
        }
    for key in ("npus", "switches", "routing"):
        origins.move(("fabric", "graph", key), (*at, key), source)
    if problems:
        refuse(*problems)
    return {"npus": len(npus), "switches": len(switches), "links": links, "routing": routing}


def _vertices(given: int | Sequence[str], word: str) -> Sequence[str]:
    return [f"{word}{index}" for index in range(given)] if isinstance(given, int) else given


def read_edges(fabric: FileFabric, origins: Origins) -> dict[str, Any]:
    """The resolved form of a fabric that stands in a file of its own."""
    path = origins.source.relative(fabric.file)
    if path.lower().endswith((".yaml", ".yml", ".json")):
        source = from_file(path)
        return graph(check(source, GraphFabric), origins, source, ())
    source = _csv(path, fabric)
    if fabric.routing is not None and isinstance(source.root.value, dict):
        routing = origins.source.root.at(("fabric", "routing"))
        source.root.value["routing"] = routing or Node(fabric.routing if isinstance(fabric.routing, str) else None)
    return graph(check(source, GraphFabric), origins, source, ())


def _csv(path: str, fabric: FileFabric) -> Source:
    """The links of a CSV file, in the form of a graph."""
    text = read_file(path, limits.MAX_EDGE_FILE_BYTES)
    lines = text.splitlines()
    file = Text(path, lines)
    rows = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    links: list[Node] = []
    header: list[str] | None = None
    try:
        for row in rows:
            mark = Mark(file, rows.line_num, 1, 0)
            if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
                continue
            if header is None:
                header = _header(row, mark)
                continue
            if len(row) != len(header):
                refuse(error("SL0106", f"{len(row)} cells under {len(header)} columns", mark=mark))
            if len(links) == limits.MAX_EDGES:
                refuse(error("SL0106", f"more than {limits.MAX_EDGES} links", mark=mark))
            cells = {key: cell.strip() for key, cell in zip(header, row, strict=True) if cell.strip()}
            values = {key: Node(_cell(key, cell), mark) for key, cell in cells.items()}
            links.append(Node(dict(values), mark, dict.fromkeys(values, mark)))
    except csv.Error as problem:
        refuse(error("SL0106", f"not well-formed CSV: {problem}", mark=Mark(file, rows.line_num, 1, 0)))
    if header is None:
        refuse(error("SL0106", "the file is empty", mark=Mark(file, 0, 0, 0)))
    start = Mark(file, 1, 1, 0)
    root = {
        "npus": _names(links, "npu", fabric.npus, start),
        "switches": _names(links, "switch", fabric.switches, start),
        "links": Node(list(links), start),
    }
    return Source(Node(dict(root), start), path)


def _header(row: list[str], mark: Mark) -> list[str]:
    names = [cell.strip() for cell in row]
    problems = [
        error(
            "SL0101",
            f"unknown column `{name}`",
            mark=mark,
            found=name,
            allowed=", ".join(_COLUMNS),
            nearest=nearest(name, _COLUMNS),
        )
        for name in names
        if name not in _COLUMNS
    ]
    problems += [
        error("SL0103", f"missing column `{name}`", mark=mark, help=f"the first line must name {', '.join(_COLUMNS)}")
        for name in ("from", "to", "rate")
        if name not in names
    ]
    if not problems and len(set(names)) < len(names):
        problems.append(error("SL0102", "a column is given twice", mark=mark))
    if problems:
        refuse(*problems)
    return names


_DUPLEX = {"yes": True, "true": True, "no": False, "false": False}


def _cell(key: str, cell: str) -> str | bool | int:
    if key == "duplex":
        return _DUPLEX.get(cell.lower(), cell)
    return int(cell) if key in ("from", "to") and cell.isascii() and cell.isdigit() and len(cell) < 11 else cell


def _names(links: list[Node], word: str, given: list[str] | None, mark: Mark) -> Node:
    """The vertices of a kind: those given, or as many as the largest number in a name says."""
    if given is not None:
        return Node([Node(name, mark) for name in given], mark)
    largest = -1
    for link in links:
        for end in ("from", "to"):
            node = link.child(end)
            found = _NUMBERED.fullmatch(node.value) if node and isinstance(node.value, str) else None
            if found and found[1] == word:
                largest = max(largest, int(found[2]))
    return Node(largest + 1, mark)

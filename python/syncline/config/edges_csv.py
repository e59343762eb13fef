"""CSV edge lists, as sources with the values of a fabric given link by link."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.config import limits
from syncline.config.check import in_order
from syncline.config.node import Mark, Node, Text
from syncline.config.problem import error, nearest, refuse, shown
from syncline.config.source import Source, read_file

if TYPE_CHECKING:
    from syncline.config.fabric import FileFabric
    from syncline.errors import Diagnostic, Place

_COLUMNS = ("from", "to", "rate", "latency", "duplex")
_NUMBERED = re.compile(r"(npu|switch)([0-9]{1,9})")
_DUPLEX = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class _Cell(Mark):
    """A cell of a line; where exactly it stands is found out for an error only."""

    index: int = 0

    def place(self) -> Place:
        line = self.text.lines[self.line - 1]
        cells = line.split(",")
        if '"' in line or self.index >= len(cells) or not cells[self.index].strip():
            return Mark.place(self)
        cell = cells[self.index]
        before = sum(len(each) + 1 for each in cells[: self.index]) + len(cell) - len(cell.lstrip())
        return Mark(self.text, self.line, before + 1, len(cell.strip())).place()


def read(path: str, fabric: FileFabric) -> Source:
    """The links of a CSV file; vertices are counted where ``fabric`` does not name them."""
    file = Text(path, (content := read_file(path, limits.MAX_EDGE_FILE_BYTES)).splitlines())
    rows = csv.reader(io.StringIO(content, newline=""), strict=True, skipinitialspace=True)
    links: list[Node] = []
    problems: list[Diagnostic] = []
    header: list[str] | None = None
    try:
        for row in rows:
            mark = Mark(file, rows.line_num, 1, 0)
            if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
                continue
            if header is None:
                header = _header(row, mark)
            elif len(row) != len(header):
                many = f"{len(row)} cells under {len(header)} columns"
                problems.append(error("SL0106", many, mark=mark, help=f"the columns are {','.join(header)}"))
            elif len(links) == limits.MAX_EDGES:
                refuse(error("SL0106", f"more than {limits.MAX_EDGES} links", mark=mark))
            else:
                links.append(_link(header, row, mark, problems))
    except csv.Error as problem:
        refuse(error("SL0106", f"not well-formed CSV: {problem}", mark=Mark(file, rows.line_num, 1, 0)))
    start = Mark(file, 0, 0, 0)
    if header is None:
        refuse(error("SL0106", "the file is empty", mark=start, help=_HEADER))
    if not links and not problems:
        problems.append(
            error("SL0201", "no link stands under the header", mark=start, help="write a line for each link")
        )
    vertices = {
        word: _vertices(links, word, given, problems)
        for word, given in (("npu", fabric.npus), ("switch", fabric.switches))
    }
    if problems:
        refuse(*in_order(problems))
    root = {"npus": vertices["npu"], "switches": vertices["switch"], "links": Node(list(links), start)}
    return Source(Node(dict(root), start), path)


_HEADER = "the first line is from,to,rate, with latency and duplex where they are needed"


def _header(row: list[str], mark: Mark) -> list[str]:
    names = [cell.strip() for cell in row]
    problems = [
        error(
            "SL0101",
            f"unknown column `{name}`",
            mark=_Cell(mark.text, mark.line, 1, 0, index),
            key=name,
            found=name,
            allowed=", ".join(_COLUMNS),
            nearest=nearest(name, _COLUMNS),
        )
        for index, name in enumerate(names)
        if name not in _COLUMNS
    ]
    problems += [
        error("SL0103", f"missing column `{name}`", mark=mark, key=name, help=_HEADER)
        for name in ("from", "to", "rate")
        if name not in names
    ]
    problems += [
        error("SL0102", f"column `{name}` is given twice", mark=_Cell(mark.text, mark.line, 1, 0, index), key=name)
        for index, name in enumerate(names)
        if name in names[:index] and name in _COLUMNS
    ]
    if problems:
        refuse(*in_order(problems))
    return names


def _link(header: list[str], row: list[str], mark: Mark, problems: list[Diagnostic]) -> Node:
    """A line as the mapping that a link is in YAML. Empty cells are absent keys."""
    marks: dict[str, Mark] = {}
    values: dict[str, Node] = {}
    for index, (key, text) in enumerate(zip(header, row, strict=True)):
        if cell := text.strip():
            marks[key] = _Cell(mark.text, mark.line, 1, 0, index)
            values[key] = Node(_value(key, cell, marks[key], problems), marks[key])
    return Node(dict(values), mark, marks)


def _value(key: str, cell: str, mark: Mark, problems: list[Diagnostic]) -> str | bool | int:
    if key == "duplex":
        if cell.lower() not in _DUPLEX:
            problem = "a link runs both ways, or it does not"
            problems.append(error("SL0102", problem, mark=mark, key=key, found=shown(cell), allowed=", ".join(_DUPLEX)))
        return _DUPLEX.get(cell.lower(), True)
    return int(cell) if key in ("from", "to") and cell.isascii() and cell.isdigit() and len(cell) < 11 else cell


def _vertices(links: list[Node], word: str, given: list[str] | None, problems: list[Diagnostic]) -> Node:
    """The vertices of a kind: those given, or as many as the largest number in a name says, which leaves no gap."""
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
                "SL0201",
                f"no link leads to {word}{gap}",
                mark=beyond.mark,
                found=str(beyond.value),
                help=f"count from {word}0 without gaps, or name the vertices with fabric.npus and fabric.switches",
            )
        )
    return Node(len(first))

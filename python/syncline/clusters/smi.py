"""Reads what ``nvidia-smi topo -m`` prints: a matrix of how GPUs and network interfaces of a machine are joined.

An entry is ``NV4`` for four NVLinks, or how far a path over PCIe leads: ``PIX`` through one PCIe bridge, ``PXB``
through several, ``PHB`` through a host bridge, ``NODE`` between host bridges of a NUMA node, ``SYS`` between NUMA
nodes. Versions differ in the names of interfaces (``NIC0``, ``mlx5_0``) and in the columns of affinities behind the
matrix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.clusters.machine import Kind, Machine, Part
from syncline.input.problem import nearest, raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from syncline.clusters.printed import Printed
    from syncline.errors import Diagnostic

MAX_DEVICES = 512
"""Most rows of a matrix."""
MOST_NVLINKS = 18
"""NVLinks of a GPU that has most of them: H100 to B300."""
_LEVELS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""How far a path leads, nearest first."""
_RELATION = re.compile(r"X|PIX|PXB|PHB|NODE|SYS|NV[0-9]{1,2}")
_GPU = re.compile(r"GPU[0-9]{1,4}")
_LEGEND = re.compile(r"\s*(NIC[0-9]+):\s*(\S+)\s*$")


@dataclass(frozen=True)
class _Cell:
    """A word of a line, and where it is."""

    text: str
    line: int
    column: int

    @property
    def at(self) -> tuple[int, int, int]:
        """Its line, its column, and how long it is."""
        return self.line, self.column, len(self.text)


def begins(lines: Iterable[str]) -> bool:
    """Whether a text holds such a matrix."""
    return any(_is_header(_cells(line, 0)) for line in lines)


def read(printed: Printed) -> Machine:
    """The machine that a text describes.

    :raises SynclineError: the matrix is incomplete, or contradicts itself; errors name line and column.
    """
    names, rows = _matrix(printed)
    interfaces = {found[1]: found[2] for line in printed.lines if (found := _LEGEND.match(line))}
    gpus = [at for at, cell in enumerate(names) if _GPU.fullmatch(cell.text)]
    order = gpus + [at for at in range(len(names)) if at not in set(gpus)]
    relations = [[rows[a][b].text for b in order] for a in order]
    labels = [interfaces.get(names[at].text, names[at].text) for at in order]
    affinities = [rows[at][len(names)].text if len(rows[at]) > len(names) else "N/A" for at in order]
    return _machine(labels, len(gpus), relations, affinities)


def _cells(line: str, number: int) -> list[_Cell]:
    return [_Cell(word[0], number, word.start() + 1) for word in re.finditer(r"\S+", line)]


def _is_header(cells: list[_Cell]) -> bool:
    words = [cell.text for cell in cells]
    return bool(words) and bool(_GPU.fullmatch(words[0])) and not (len(words) > 1 and _RELATION.fullmatch(words[1]))


def _matrix(printed: Printed) -> tuple[list[_Cell], list[list[_Cell]]]:
    """The names of the columns, and a row of entries for each."""
    header: list[_Cell] = []
    lines = iter(enumerate(printed.lines, 1))
    for number, line in lines:
        if _is_header(cells := _cells(line, number)):
            end = next((at for at, cell in enumerate(cells) if cell.text in ("CPU", "NUMA")), len(cells))
            header = cells[:end]
            break
    if not header:
        raise_errors(
            printed.wrong(
                "no matrix of `nvidia-smi topo -m`: no line of column names that begins with GPU0",
                help="save all that `nvidia-smi topo -m` prints",
            )
        )
    _check_names(printed, header)
    place = {cell.text: at for at, cell in enumerate(header)}
    rows: dict[int, list[_Cell]] = {}
    problems: list[Diagnostic] = []
    last = header[0].line
    for number, line in lines:
        cells = _cells(line, number)
        if not cells:
            if len(rows) == len(header):
                break
            continue
        if cells[0].text.startswith("Legend"):
            break
        last = number
        at = place.get(cells[0].text)
        if at is None:
            problems.append(
                printed.wrong(
                    "a row that has no column",
                    cells[0].at,
                    found=cells[0].text,
                    allowed=_some(place),
                    nearest=nearest(cells[0].text, place),
                )
            )
        elif at in rows:
            problems.append(printed.wrong(f"a second row of {cells[0].text}", cells[0].at))
        else:
            rows[at] = _row(printed, header, cells, line, problems)
    missing = [cell.text for at, cell in enumerate(header) if at not in rows]
    if missing and not problems:
        problems.append(
            printed.wrong(
                "the matrix is incomplete",
                (last, 1, 0),
                found=f"{len(rows)} rows for {len(header)} columns",
                help=f"add the rows of {_some(missing)}",
            )
        )
    if not problems:
        problems = _contradictions(printed, header, [rows[at] for at in range(len(header))])
    if problems:
        raise_errors(*problems)
    return header, [rows[at] for at in range(len(header))]


def _check_names(printed: Printed, header: list[_Cell]) -> None:
    if len(header) > MAX_DEVICES:
        raise_errors(
            printed.wrong(
                "too many columns", header[MAX_DEVICES].at, found=str(len(header)), allowed=f"at most {MAX_DEVICES}"
            )
        )
    seen: set[str] = set()
    for cell in header:
        if cell.text in seen:
            raise_errors(printed.wrong(f"a second column of {cell.text}", cell.at))
        seen.add(cell.text)


def _row(
    printed: Printed, header: list[_Cell], cells: list[_Cell], line: str, problems: list[Diagnostic]
) -> list[_Cell]:
    """The entries of a row, one for each column."""
    entries = cells[1 : len(header) + 2]
    """The last one, if the row has it, is the CPU affinity."""
    for name, cell in zip(header, entries, strict=False):
        if not _RELATION.fullmatch(cell.text):
            problems.append(
                printed.wrong(
                    f"an unknown relation between {cells[0].text} and {name.text}",
                    cell.at,
                    found=shown(cell.text),
                    allowed=f"X, {', '.join(_LEVELS)}, or NV and a number of NVLinks",
                    nearest=nearest(cell.text, _LEVELS),
                )
            )
            return entries
        if (cell.text == "X") != (name.text == cells[0].text):
            problems.append(
                printed.wrong(
                    f"X stands where row and column are the same device, but this is {cells[0].text} and {name.text}",
                    cell.at,
                    found=cell.text,
                    help="a column is missing or too many in this row",
                )
            )
            return entries
        if cell.text.startswith("NV") and not int(cell.text[2:]):
            problems.append(printed.wrong("a number of NVLinks must be above 0", cell.at, found=cell.text))
    if len(entries) < len(header):
        problems.append(
            printed.wrong(
                f"the row of {cells[0].text} ends before the column {header[len(entries)].text}",
                (cells[0].line, len(line.rstrip()) + 1, 1),
                found=f"{len(entries)} entries",
                allowed=str(len(header)),
            )
        )
    return entries


def _contradictions(printed: Printed, header: list[_Cell], rows: list[list[_Cell]]) -> list[Diagnostic]:
    """Entries that differ from their mirror images, and NVLinks of devices that are no GPUs."""
    problems = []
    for a in range(len(header)):
        for b in range(a + 1, len(header)):
            here, there = rows[a][b], rows[b][a]
            if here.text != there.text:
                problems.append(
                    printed.wrong(
                        f"{header[a].text} and {header[b].text} are joined in two ways",
                        there.at,
                        found=there.text,
                        allowed=f"{here.text}, as in line {here.line}, column {here.column}",
                    )
                )
            elif here.text.startswith("NV") and not all(_GPU.fullmatch(header[at].text) for at in (a, b)):
                problems.append(printed.wrong("NVLinks join only GPUs", here.at, found=here.text))
    return problems[:50]


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed) if len(listed) <= 12 else f"{listed[0]} to {listed[-1]}"


def _machine(names: list[str], gpus: int, relations: list[list[str]], affinities: list[str]) -> Machine:
    """The machine. Devices ``0..gpus`` are GPUs, the others NICs."""
    direct, switched = _nvlinks(gpus, relations)
    parts = [Part(name, Kind.GPU if at < gpus else Kind.NIC, None) for at, name in enumerate(names)]
    parents: dict[int, int] = {}
    tops = list(range(len(names)))
    """The highest part above each device so far."""
    for level, kind in ((0, Kind.SWITCH), (1, Kind.SWITCH), (3, Kind.CPU)):
        for group in _groups(relations, level, affinities if kind == Kind.CPU else None):
            below = sorted({tops[at] for at in group})
            if kind == Kind.SWITCH and len(below) < 2:
                continue
            count = sum(part.kind == kind for part in parts)
            word = "switch" if kind == Kind.SWITCH else "cpu"
            for at in below:
                parents[at] = len(parts)
            for at in group:
                tops[at] = len(parts)
            parts.append(Part(f"{word}{count}", kind, None))
    made = tuple(Part(part.name, part.kind, parents.get(at)) for at, part in enumerate(parts))
    return Machine(made, direct, switched)


def _groups(relations: list[list[str]], level: int, affinities: list[str] | None) -> list[list[int]]:
    """The devices that paths up to a level join, directly or through others; GPUs may be joined through a NIC.

    NVLinks hide how far a path over PCIe leads; whether it leads to another processor, ``affinities`` tell.
    """
    near = set(_LEVELS[: level + 1])
    group = list(range(len(relations)))

    def first(at: int) -> int:
        while group[at] != at:
            group[at] = group[group[at]]
            at = group[at]
        return at

    for a, row in enumerate(relations):
        for b in range(a):
            beside = affinities is not None and affinities[a] == affinities[b] != "N/A"
            if row[b] in near or (beside and row[b].startswith("NV")):
                low, high = sorted((first(a), first(b)))
                group[high] = low
    found: dict[int, list[int]] = {}
    for at in range(len(relations)):
        found.setdefault(first(at), []).append(at)
    return list(found.values())


def _nvlinks(gpus: int, relations: list[list[str]]) -> tuple[Mapping[tuple[int, int], int], Mapping[int, int]]:
    """NVLinks that join GPUs directly, and those that join GPUs with NVSwitches.

    An NVSwitch joins a GPU's links with those of all others, so the matrix shows the same links for each pair. Where
    they add up to more than a GPU has, they lead to NVSwitches.
    """
    count = {
        (a, b): int(relations[a][b][2:]) for a in range(gpus) for b in range(gpus) if relations[a][b].startswith("NV")
    }
    total = [sum(count.get((a, b), 0) for b in range(gpus)) for a in range(gpus)]
    if max(total, default=0) > MOST_NVLINKS:
        return {}, {a: max(count.get((a, b), 0) for b in range(gpus)) for a in range(gpus) if total[a]}
    return {pair: links for pair, links in count.items() if pair[0] < pair[1]}, {}

"""Measurements between hosts in CSV files: rows of pairs, or a matrix."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.distances.checks import COLUMNS, NAMES, NUMBERS, PAIR, add_pair, made
from syncline.input import limits
from syncline.input.node import Mark, Text
from syncline.input.problem import error, nearest, raise_errors, shown
from syncline.input.source import read_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.distances.measured import Measured, Pair

_HELP = "the first line is from,to,rtt_s (or rtt_us, rtt_ms, rate_bytes_per_s), or a unit and names of hosts: us,a,b"
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def to_csv(rows: Iterable[tuple[str | float | None, ...]]) -> str:
    """The text of rows with a value for each column."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return out.getvalue()


def from_csv(path: str) -> Measured:
    """Reads a CSV file of pairs or of a matrix.

    :raises SynclineError: the file cannot be read, is malformed, or holds impossible values.
    """
    lines = read_file(path, limits.MAX_DISTANCE_FILE_BYTES).splitlines()
    file = Text(path, lines)
    reader = csv.reader(io.StringIO("\n".join(lines), newline=""), strict=True, skipinitialspace=True)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as problem:
        mark = Mark(file, reader.line_num, 1, 0)
        raise_errors(error(Code.BAD_SYNTAX, f"not well-formed CSV: {problem}", mark=mark))
    rows = [row for row in rows if any(row[1]) and not row[1][0].startswith("#")]
    if not rows:
        raise_errors(error(Code.BAD_SYNTAX, "the file is empty", mark=Mark(file, 0, 0, 0), help=_HELP))
    header = rows[0][1]
    return _from_matrix(file, rows) if header[0] in (*_SECONDS, "") else _from_rows(file, header, rows)


def _from_rows(file: Text, header: list[str], rows: list[tuple[int, list[str]]]) -> Measured:
    start = Mark(file, rows[0][0], 1, 0)
    extra = ("rtt_us", "rtt_ms")
    known = (*COLUMNS, *extra)
    for at, name in enumerate(header):
        if name not in known or name in header[:at]:
            problem = "is given twice" if name in header[:at] else "is unknown"
            raise_errors(
                error(
                    Code.UNKNOWN_KEY if name not in known else Code.BAD_VALUE,
                    f"column `{name}` {problem}",
                    mark=start,
                    key=name,
                    found=shown(name),
                    allowed=", ".join(known),
                    nearest=nearest(name, known) if name not in known else None,
                )
            )
    for name in NAMES:
        if name not in header:
            raise_errors(error(Code.MISSING_KEY, f"missing column `{name}`", mark=start, key=name, help=_HELP))
    if sum(name in header for name in ("rtt_s", *extra)) > 1:
        raise_errors(error(Code.BAD_VALUE, "round trips are given in several units", mark=start, help=_HELP))
    numbers: dict[str, int] = {}
    pairs: dict[tuple[int, int], Pair] = {}
    by_number: dict[int, str] = {}
    for line, cells in rows[1:]:
        mark = Mark(file, line, 1, 0)
        if len(cells) != len(header):
            many = f"{len(cells)} cells under {len(header)} columns"
            raise_errors(error(Code.BAD_SYNTAX, many, mark=mark, help=f"the columns are {','.join(header)}"))
        row = dict(zip(header, cells, strict=True))
        ends = (row["from"], row["to"])
        if "" in ends:
            raise_errors(error(Code.BAD_VALUE, "a host has no name", mark=mark, key=NAMES[ends.index("")]))
        values: dict[str, Any] = {}
        for name, cell in row.items():
            if name in NAMES or not cell:
                continue
            factor = {"rtt_us": 1e-6, "rtt_ms": 1e-3}.get(name, 1.0)
            value = _number(cell, mark, name)
            whole = name in NUMBERS or PAIR.get(name) == "int"
            if whole and value != int(value):
                raise_errors(error(Code.BAD_VALUE, "not a whole number", mark=mark, key=name, found=shown(cell)))
            values["rtt_s" if name in extra else name] = int(value) if whole else value * factor
        for name, column in zip(ends, NUMBERS, strict=True):
            number = values.pop(column, None)
            numbers.setdefault(name, len(numbers))
            if number is not None:
                by_number[number] = name
        key = (numbers[ends[0]], numbers[ends[1]])
        add_pair(pairs, key, ends, values, f"line {line}", mark)
    names = tuple(numbers)
    measured = made(names, pairs, file.file, start)
    # Hosts keep the numbers that the file gives, or else are numbered as they appear.
    if sorted(by_number) == list(range(len(names))) and len({*by_number.values()}) == len(names):
        return measured.among(numbers[by_number[number]] for number in range(len(names)))
    return measured


def _from_matrix(file: Text, rows: list[tuple[int, list[str]]]) -> Measured:
    start = Mark(file, rows[0][0], 1, 0)
    unit, *hosts = rows[0][1]
    if unit not in _SECONDS:
        raise_errors(
            error(
                Code.BAD_UNIT,
                "the first cell of a matrix is the unit of its numbers",
                mark=start,
                found="an empty cell",
                allowed=", ".join(_SECONDS),
                help=f"write it like us,{','.join(hosts[:3])}",
            )
        )
    if twice := next((name for at, name in enumerate(hosts) if name in hosts[:at]), None):
        raise_errors(error(Code.BAD_DISTANCES, "two hosts have one name", mark=start, found=shown(twice)))
    number = {name: at for at, name in enumerate(hosts)}
    pairs: dict[tuple[int, int], Pair] = {}
    seen: set[str] = set()
    for line, (name, *cells) in rows[1:]:
        mark = Mark(file, line, 1, 0)
        if name not in number:
            raise_errors(
                error(
                    Code.BAD_DISTANCES,
                    "the row is of a host that has no column",
                    mark=mark,
                    found=shown(name),
                    nearest=nearest(name, hosts),
                )
            )
        if name in seen:
            raise_errors(error(Code.BAD_DISTANCES, "a host has two rows", mark=mark, found=shown(name)))
        seen.add(name)
        if len(cells) != len(hosts):
            raise_errors(error(Code.BAD_SYNTAX, f"{len(cells)} numbers for {len(hosts)} hosts", mark=mark))
        for other, cell in zip(hosts, cells, strict=True):
            # Of a host to itself, and of pairs that were not measured.
            if other == name or cell in ("", "-", "nan", "NaN"):
                continue
            rtt = _number(cell, mark, other) * _SECONDS[unit]
            add_pair(pairs, (number[name], number[other]), (name, other), {"rtt_s": rtt}, f"line {line}", mark)
    return made(tuple(hosts), pairs, file.file, start)


def _number(cell: str, mark: Mark, key: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise_errors(
            error(
                Code.BAD_VALUE,
                "not a number",
                mark=mark,
                key=key,
                found=shown(cell),
                help="leave the cell empty if this was not measured",
            )
        )
    return value

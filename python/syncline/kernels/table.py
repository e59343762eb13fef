"""Reads a table of measured kernels, with an error for whatever is wrong in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input import limits
from syncline.input.check import in_order
from syncline.input.csv_rows import Form, read_rows
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.kernels.columns import COLUMNS, NAMES, Row, Value
from syncline.schemas import KERNELS

if TYPE_CHECKING:
    from syncline.errors import Diagnostic

_KINDS = {column.name: column.kind for column in COLUMNS}
_MEASURE = "write it with `syncline kernels measure`"


@dataclass(frozen=True)
class Table:
    """Measured kernels, and what they were measured with."""

    facts: dict[str, str]
    """What the header says of device and software, such as ``device`` and ``torch``."""
    rows: list[Row]
    """The rows, by column; columns that do not apply are None."""


def read(path: str) -> Table:
    """Reads a table. Raises a :class:`SynclineError` with all errors in it."""
    facts = _facts(path)
    found, _, problems = read_rows(path, _FORM)
    for each in found:
        for name in _FORM.required:
            if each.child(name) is None:
                problems.append(error(Code.MISSING_KEY, f"a row without `{name}`", mark=each.mark, key=name))
    if problems:
        raise_errors(*in_order(problems))
    rows: list[Row] = []
    for each in found:
        values = each.to_python()
        rows.append({name: _number(name, values.get(name)) for name in NAMES})
    return Table(facts, rows)


def _number(name: str, value: Value) -> Value:
    return float(value) if _KINDS[name] == "number" and value is not None else value


def _facts(path: str) -> dict[str, str]:
    """The comments before the names of the columns. Raises an error if they name another schema, or none."""
    lines = read_file(path, limits.MAX_KERNEL_FILE_BYTES).splitlines()
    facts = {}
    for line in lines:
        if not line.startswith("#"):
            break
        key, colon, value = line.removeprefix("#").partition(":")
        if colon:
            facts[key.strip()] = value.strip()
    if lines and facts.get("schema") != KERNELS:
        first = Mark(Text(path, lines), 1, 1, len(lines[0]))
        message = "not a table of measured kernels of a version that this can read"
        raise_errors(
            error(
                Code.BAD_SYNTAX,
                message,
                mark=first,
                found=facts.get("schema"),
                allowed=KERNELS,
                help=f"{_MEASURE}; its first line is # schema: {KERNELS}",
            )
        )
    return facts


def _value(name: str, cell: str, mark: Mark, problems: list[Diagnostic]) -> str | bool | int:
    kind = _KINDS[name]
    if kind == "integer" and cell.isascii() and cell.isdigit() and len(cell) < 19:
        return int(cell)
    if kind == "flag" and cell in ("true", "false"):
        return cell == "true"
    if kind == "word" or (kind == "number" and _is_number(cell)):
        return cell
    allowed = {"flag": "true, false", "integer": "a whole number, at least 0", "number": "a number, at least 0"}
    problems.append(
        error(Code.BAD_VALUE, f"value not allowed for `{name}`", mark=mark, key=name, found=cell, allowed=allowed[kind])
    )
    return cell


def _is_number(cell: str) -> bool:
    try:
        value = float(cell)
    except ValueError:
        return False
    return math.isfinite(value) and value >= 0


_FORM = Form(
    columns=NAMES,
    required=("operation", "seconds"),
    help=_MEASURE,
    row="kernel",
    max_rows=limits.MAX_KERNELS,
    max_bytes=limits.MAX_KERNEL_FILE_BYTES,
    convert=_value,
)

"""Reads the rows of a CSV file as mappings, like those of a YAML file, with their places."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.check import in_order
from syncline.input.node import Mark, Node, Text
from syncline.input.problem import error, nearest, raise_errors
from syncline.input.source import read_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.errors import Diagnostic, Place


@dataclass(frozen=True, slots=True)
class Cell(Mark):
    """A cell of a line. Its column is worked out only when an error needs it."""

    index: int = 0

    def place(self) -> Place:
        """The cell in the form that a diagnostic holds."""
        line = self.text.lines[self.line - 1]
        cells = _cells(line)
        if self.index >= len(cells) or not cells[self.index].strip():
            return Mark.place(self)
        cell = cells[self.index]
        before = sum(len(each) + 1 for each in cells[: self.index]) + len(cell) - len(cell.lstrip())
        return Mark(self.text, self.line, before + 1, len(cell.strip())).place()


def _cells(line: str) -> list[str]:
    """The cells of a line as they are written, with their quotes; commas within quotes separate nothing."""
    cells, quoted = [""], False
    for letter in line:
        quoted ^= letter == '"'
        if letter == "," and not quoted:
            cells.append("")
        else:
            cells[-1] += letter
    return cells


@dataclass(frozen=True)
class Form:
    """The format of a CSV file."""

    columns: tuple[str, ...]
    """Columns that the file may have."""
    required: tuple[str, ...]
    """Columns that the file must have."""
    help: str
    """Describes the header line, for errors."""
    row: str
    """The noun for a row, for errors."""
    max_rows: int
    max_bytes: int
    convert: Callable[[str, str, Mark, list[Diagnostic]], str | bool | int | float]
    """Converts a cell to its value, given its column, text and place; appends errors to the list."""
    empty: str = Code.BAD_FABRIC
    """The code of the error for a file without rows."""


def read_rows(path: str, form: Form) -> tuple[list[Node], Mark, list[Diagnostic]]:
    """The rows of a CSV file, the place of the whole file, and the errors in it.

    An empty cell is an absent key. Empty lines and lines that begin with ``#`` are skipped.
    """
    file = Text(path, (content := read_file(path, form.max_bytes)).splitlines())
    rows = csv.reader(io.StringIO(content, newline=""), strict=True, skipinitialspace=True)
    found: list[Node] = []
    problems: list[Diagnostic] = []
    header: list[str] | None = None
    try:
        for row in rows:
            mark = Mark(file, rows.line_num, 1, 0)
            if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
                continue
            if header is None:
                header = _header(row, mark, form)
            elif len(row) != len(header):
                many = f"{len(row)} cells under {len(header)} columns"
                problems.append(error(Code.BAD_SYNTAX, many, mark=mark, help=f"the columns are {','.join(header)}"))
            elif len(found) == form.max_rows:
                raise_errors(error(Code.BAD_SYNTAX, f"more than {form.max_rows} {form.row}s", mark=mark))
            else:
                found.append(_row(header, row, mark, problems, form))
    except csv.Error as problem:
        raise_errors(error(Code.BAD_SYNTAX, f"not well-formed CSV: {problem}", mark=Mark(file, rows.line_num, 1, 0)))
    start = Mark(file, 0, 0, 0)
    if header is None:
        raise_errors(error(Code.BAD_SYNTAX, "the file is empty", mark=start, help=form.help))
    if not found and not problems:
        message = f"the file has no {form.row} below its header"
        problems.append(error(form.empty, message, mark=start, help=f"write a line for each {form.row}"))
    return found, start, problems


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def _header(row: list[str], mark: Mark, form: Form) -> list[str]:
    names = [cell.strip() for cell in row]
    for separator, called in _SEPARATORS.items():
        if len(names) == 1 and sum(each.strip() in form.columns for each in names[0].split(separator)) > 1:
            raise_errors(error(Code.BAD_SYNTAX, f"{called} separate the columns", mark=mark, allowed="commas"))
    problems = [
        error(
            Code.UNKNOWN_KEY,
            f"unknown column `{name}`",
            mark=Cell(mark.text, mark.line, 1, 0, index),
            key=name,
            found=name,
            allowed=", ".join(form.columns),
            nearest=nearest(name, form.columns),
        )
        for index, name in enumerate(names)
        if name not in form.columns
    ]
    problems += [
        error(Code.MISSING_KEY, f"missing column `{name}`", mark=mark, key=name, help=form.help)
        for name in form.required
        if name not in names
    ]
    problems += [
        error(Code.BAD_VALUE, f"column `{name}` is given twice", mark=Cell(mark.text, mark.line, 1, 0, index), key=name)
        for index, name in enumerate(names)
        if name in names[:index] and name in form.columns
    ]
    if problems:
        raise_errors(*in_order(problems))
    return names


def _row(header: list[str], row: list[str], mark: Mark, problems: list[Diagnostic], form: Form) -> Node:
    marks: dict[str, Mark] = {}
    values: dict[str, Node] = {}
    for index, (key, text) in enumerate(zip(header, row, strict=True)):
        if cell := text.strip():
            marks[key] = Cell(mark.text, mark.line, 1, 0, index)
            values[key] = Node(form.convert(key, cell, marks[key], problems), marks[key])
    return Node(dict(values), mark, marks)

"""Measurements between hosts as a Parquet table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.distances.checks import (
    COLUMNS,
    MAX_COUNT,
    NAMES,
    NUMBERS,
    PAIR,
    RANGES,
    add_pair,
    impossible,
    made,
)
from syncline.distances.measured import Pair
from syncline.errors import SynclineError
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from syncline.distances.measured import Measured

TABLE = "probe"
"""Name of the table in the file."""
MEANING = "What one host measured of its path to another."


def to_parquet(rows: list[tuple[str | float | None, ...]]) -> bytes:
    """A Parquet file of rows with a value for each column."""
    columns = [
        (name, meaning, _kind(name), [row[at] for row in rows]) for at, (name, meaning) in enumerate(COLUMNS.items())
    ]
    return _core.table_to_parquet(TABLE, MEANING, columns)


def _kind(column: str) -> str:
    if column in NAMES:
        return "text"
    return "optional_float" if "float" in PAIR.get(column, "") else "int"


def from_parquet(path: str) -> Measured:
    """Reads a Parquet file of measurements.

    :raises SynclineError: the file cannot be read, or holds no measurements or impossible ones.
    """
    try:
        columns = {name: values for name, _, values in _core.table_from_parquet(path)}
    except SynclineError as problem:
        # Files of other kinds end here, too.
        help = "measurements are a Parquet file of `syncline probe`, or a CSV file whose name ends in .csv"
        raise SynclineError([{"help": help, **each} for each in problem.diagnostics], problem.exit_status) from None
    place = Mark(Text(path, ()), 0, 0, 0)
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                "the table holds no measurements between hosts",
                mark=place,
                key=missing[0],
                found=f"columns {', '.join(columns)}",
                help="files of `syncline probe` do; columns of other tables can be renamed in a CSV file",
            )
        )
    names = dict(zip(columns["from_host"], columns["from"], strict=True))
    names |= zip(columns["to_host"], columns["to"], strict=True)
    of_pairs = [columns[name] for name in PAIR]
    if _plausible(columns, names):
        keys = zip(columns["from_host"], columns["to_host"], strict=True)
        pairs = dict(zip(keys, map(Pair, *of_pairs), strict=True))
    else:
        pairs = _row_by_row(columns, place)
    if sorted(names) != list(range(len(names))):
        raise impossible("numbers of hosts are not 0, 1, 2 and so on", f"{min(names)} to {max(names)}", place)
    if len(set(names.values())) < len(names):
        raise impossible("two hosts have one name", f"{len(names)} hosts with {len(set(names.values()))} names", place)
    return made(tuple(names[number] for number in range(len(names))), pairs, path, place)


def _plausible(columns: dict[str, list[Any]], names: dict[int, str]) -> bool:
    """Whether all rows are right, column by column, which is faster than row by row."""
    for number, name in zip(NUMBERS, NAMES, strict=True):
        if any(names[host] != own for host, own in zip(columns[number], columns[name], strict=True)):
            return False
    keys = set(zip(*(columns[number] for number in NUMBERS), strict=True))
    if len(keys) < len(columns[NUMBERS[0]]) or any(a == b for a, b in keys):
        return False
    for name in PAIR:
        least, most = RANGES.get(name, (0, MAX_COUNT))
        known = [value for value in columns[name] if value is not None]
        # A sum is finite only if every value is a number.
        if known and not (math.isfinite(sum(known)) and min(known) >= least and max(known) <= most):
            return False
    return True


def _row_by_row(columns: dict[str, list[Any]], place: Mark) -> dict[tuple[int, int], Pair]:
    """The pairs of all rows.

    :raises SynclineError: a row is wrong.
    """
    names: dict[int, str] = {}
    pairs: dict[tuple[int, int], Pair] = {}
    values = zip(*(columns[name] for name in (*NAMES, *NUMBERS, *PAIR)), strict=True)
    for row, (origin, target, a, b, *of_pair) in enumerate(values, start=1):
        where = f"row {row}"
        if any(names.setdefault(number, name) != name for number, name in ((a, origin), (b, target))):
            raise impossible("two hosts have one number", where, place)
        add_pair(pairs, (a, b), (origin, target), dict(zip(PAIR, of_pair, strict=True)), where, place)
    return pairs

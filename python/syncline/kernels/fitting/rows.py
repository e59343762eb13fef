"""Tables of measured kernels: Parquet files in ``validation``, and CSV files of ``syncline kernels measure``."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.input.limits import MAX_KERNEL_FILE_BYTES
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.kernels.fitting.attention import Attentions
from syncline.kernels.fitting.gemm import Products

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row = dict[str, Any]
"""A row of a table; columns that do not apply are absent."""

COLUMNS = {
    "accelerator": ("text", "Name of the accelerator, as in `data/accelerators.yaml`."),
    "software": ("text", "What ran the kernel."),
    "operation": ("text", "`gemm` or `attention`."),
    "data_type": ("text", "Type of the operands, such as `bf16`."),
    "m": ("int", "Rows of the result of a matrix product; 0 for other operations."),
    "n": ("int", "Columns of the result."),
    "k": ("int", "Length of the sums."),
    "batch": ("int", "Sequences of attention; 0 for other operations."),
    "sequence": ("int", "Tokens of a sequence."),
    "heads": ("int", "Query heads."),
    "kv_heads": ("int", "Heads of keys and values."),
    "head_dim": ("int", "Elements of a head."),
    "window": ("int", "Tokens to which each attends at most; 0 for no limit."),
    "causal": ("bool", "Each token attends only to earlier ones."),
    "seconds": ("float", "Time of one call."),
    "source": ("text", "Repository and file of the row."),
}
"""Columns of the Parquet files, with their kinds and meanings."""
_INTEGERS = (
    *("m", "n", "k", "groups", "batch", "sequence", "heads", "kv_heads", "head_dim", "window"),
    *("bytes", "flop", "elements", "value_head_dim"),
)
_MEANING = "What kernels took."


@dataclass
class Kernels:
    """Rows of one accelerator, and where they come from."""

    accelerator: str
    rows: list[Row] = field(default_factory=list)

    def named(self, column: str) -> list[str]:
        """The different values of a column of words, in alphabetical order."""
        return sorted({str(row[column]) for row in self.rows if row.get(column)})

    def products(self, data_type: str, operation: str = "gemm") -> list[Row]:
        """The rows of matrix products in one data type, of all layouts. In fp8, one scale for each tensor counts."""
        return [
            row
            for row in self.rows
            if row["operation"] == operation
            and row.get("data_type") == data_type
            and row.get("variant", "tensor_scaled") == "tensor_scaled"
        ]

    def attention(self, data_type: str, direction: str = "forward") -> list[Row]:
        """The rows of attention in one data type and pass; of several libraries, the fastest for each shape."""
        found: dict[tuple[Any, ...], Row] = {}
        for row in self.rows:
            if row["operation"] != "attention" or row.get("data_type") != data_type:
                continue
            if row.get("pass", "forward") != direction or row.get("value_head_dim", row["head_dim"]) != row["head_dim"]:
                continue
            shape = tuple(row.get(name) for name in (*_SHAPE, "causal"))
            if shape not in found or row["seconds"] < found[shape]["seconds"]:
                found[shape] = row
        return list(found.values())


_SHAPE = ("batch", "sequence", "heads", "kv_heads", "head_dim", "window")


def read(paths: Iterable[str], accelerator: str | None) -> Kernels:
    """The rows of all tables.

    :param accelerator: name of the accelerator, for tables that do not say it.
    :raises SynclineError: a table cannot be read, or they are of several accelerators.
    """
    from syncline.models import ModelError
    from syncline.models.accelerators import find

    found: list[Row] = []
    for path in paths:
        rows = _parquet(path) if path.endswith(".parquet") else _csv(path)
        if not rows:
            raise_errors(error(Code.BAD_VALUE, "the table has no rows", mark=_whole(path)))
        found += rows
    names = {str(row["accelerator"]) for row in found if row.get("accelerator")}
    if accelerator is not None:
        names.add(accelerator)
    try:
        names = {find(name).name for name in names}
    except ModelError as problem:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "no such accelerator",
                found=str(problem.found),
                allowed=problem.allowed,
                nearest=problem.nearest,
            )
        )
    if len(names) != 1:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "a model is of one accelerator",
                found=", ".join(sorted(names)) or "no name",
                help="name it with --accelerator" if not names else "give tables of one accelerator",
            )
        )
    return Kernels(names.pop(), found)


def products(rows: Sequence[Row]) -> Products:
    """Matrix products as columns."""
    import numpy as np

    m, n, k = (np.array([row[name] for row in rows], dtype=np.int64) for name in "mnk")
    return Products(m, n, k, np.array([row["seconds"] for row in rows], dtype=float))


def attentions(rows: Sequence[Row]) -> Attentions:
    """Attention kernels as columns."""
    import numpy as np

    shapes = np.array([[row.get(name, 0) for name in _SHAPE] for row in rows], dtype=np.int64).reshape(-1, len(_SHAPE))
    causal = np.array([bool(row.get("causal", True)) for row in rows], dtype=bool)
    return Attentions(shapes, causal, np.array([row["seconds"] for row in rows], dtype=float))


def to_parquet(rows: Sequence[Row]) -> bytes:
    """A Parquet file of rows."""
    empty: dict[str, Any] = {"text": "", "int": 0, "float": 0.0, "bool": False}
    columns = [
        (name, meaning, kind, [row.get(name, empty[kind]) for row in rows]) for name, (kind, meaning) in COLUMNS.items()
    ]
    return _core.table_to_parquet("kernels", _MEANING, columns)


def _parquet(path: str) -> list[Row]:
    columns = {name: values for name, _, values in _core.table_from_parquet(path)}
    if "operation" not in columns or "seconds" not in columns:
        raise_errors(_no_table(path, columns))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _csv(path: str) -> list[Row]:
    lines = read_file(path, MAX_KERNEL_FILE_BYTES).splitlines()
    facts = dict(
        line.removeprefix("#").strip().split(": ", 1) for line in lines if line.startswith("#") and ": " in line
    )
    origin = {"source": f"syncline kernels measure, {facts.get('date', 'without a date')}"}
    if "torch" in facts:
        origin["software"] = f"PyTorch {facts['torch']}"
    rows = []
    reader = csv.DictReader(line for line in lines if line.strip() and not line.startswith("#"))
    if not {"operation", "seconds"} <= set(reader.fieldnames or ()):
        raise_errors(_no_table(path, reader.fieldnames or ()))
    for number, cells in enumerate(reader, 1):
        try:
            rows.append({**origin, **_converted(cells)})
        except ValueError as problem:
            raise_errors(error(Code.BAD_VALUE, f"row {number} is malformed", mark=_whole(path), found=str(problem)))
    return rows


_TYPES = {"fp8_e4m3": "fp8"}
"""Names of data types in tables of ``syncline kernels measure`` that are called otherwise here."""


def _converted(cells: dict[str, str]) -> Row:
    kinds: dict[str, Callable[[str], Any]] = dict.fromkeys(_INTEGERS, int)
    kinds |= {"seconds": float, "causal": lambda text: text == "true"}
    row = {name: kinds.get(name, str)(cell) for name, cell in cells.items() if name is not None and cell}
    if "data_type" in row:
        row["data_type"] = _TYPES.get(row["data_type"], row["data_type"])
    return row


def _no_table(path: str, columns: Iterable[str]) -> Any:
    return error(
        Code.BAD_VALUE,
        "the table holds no measured kernels",
        mark=_whole(path),
        found=f"columns {', '.join(columns)}",
        help="measure kernels with `syncline kernels measure`",
    )


def _whole(path: str) -> Mark:
    return Mark(Text(path, ()), 0, 0, 0)

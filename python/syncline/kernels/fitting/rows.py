"""Tables of measured kernels: Parquet files in ``validation``, and CSV files of ``syncline kernels measure``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors, shown
from syncline.kernels.fitting.attention import Attentions
from syncline.kernels.fitting.gemm import Products
from syncline.kernels.table import read as read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
_MEANING = "What kernels took."


@dataclass
class Kernels:
    """Rows of one accelerator, and where they come from."""

    accelerator: str
    rows: list[Row] = field(default_factory=list)
    facts: Mapping[str, str] = field(default_factory=dict)
    """What tables say of the device in their headers, such as ``sm_count``; empty for Parquet files."""

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
    found: list[Row] = []
    facts: dict[str, str] = {}
    for path in paths:
        rows, said = (_parquet(path), {}) if path.endswith(".parquet") else _csv(path)
        if not rows:
            raise_errors(error(Code.BAD_VALUE, "the table has no rows", mark=_whole(path)))
        for name, value in said.items():
            if name in _DEVICE and facts.setdefault(name, value) != value:
                message = "tables of several devices"
                both = f"{name} {facts[name]} and {value}"
                raise_errors(error(Code.BAD_VALUE, message, mark=_whole(path), found=both, help="fit one at a time"))
        found += rows
    names = {_known(str(row["accelerator"])) for row in found if row.get("accelerator")}
    if accelerator is not None:
        names.add(_known(accelerator))
    if len(names) != 1:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "a model is of one accelerator",
                found=", ".join(sorted(names)) or "no name",
                help="name it with --accelerator" if not names else "give tables of one accelerator",
            )
        )
    return Kernels(names.pop(), found, facts)


_DEVICE = ("device", "sm_count", "l2_bytes", "memory_bytes")
"""What the headers of tables of one accelerator say alike."""


def _known(name: str) -> str:
    """The name of an accelerator in ``data/accelerators.yaml`` by any of its names, or else the name itself."""
    from syncline.models import ModelError
    from syncline.models.accelerators import find

    try:
        return find(name).name
    except ModelError:
        if not name.isprintable() or not 0 < len(name) <= _LONGEST or name.isspace():
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "not a name of an accelerator",
                    found=shown(name),
                    allowed=f"1 to {_LONGEST} letters that can be printed",
                )
            )
        return name


_LONGEST = 100
"""Letters of the name of an accelerator."""


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


def _csv(path: str) -> tuple[list[Row], Mapping[str, str]]:
    """The rows of a table of ``syncline kernels measure``, and what its header says."""
    table = read_table(path)
    origin = {"source": f"syncline kernels measure, {table.facts.get('date', 'without a date')}"}
    if "torch" in table.facts:
        origin["software"] = f"PyTorch {table.facts['torch']}"
    rows = []
    for each in table.rows:
        row = {name: value for name, value in each.items() if value is not None}
        operation = str(row["operation"])
        if missing := [name for name in _NEEDED.get(operation, ()) if name not in row]:
            message = f"a row of {operation} without {missing[0]}"
            help = "measure kernels with `syncline kernels measure`"
            raise_errors(error(Code.MISSING_KEY, message, mark=_whole(path), key=missing[0], help=help))
        if "data_type" in row:
            row["data_type"] = _TYPES.get(str(row["data_type"]), row["data_type"])
        rows.append({**origin, **row})
    return rows, table.facts


_NEEDED = {
    "gemm": ("m", "n", "k", "data_type"),
    "attention": ("batch", "sequence", "heads", "kv_heads", "head_dim", "data_type"),
}
"""What rows of an operation say."""
_TYPES = {"fp8_e4m3": "fp8"}
"""Names of data types in tables of ``syncline kernels measure`` that are called otherwise here."""


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

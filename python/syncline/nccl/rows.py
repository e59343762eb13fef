"""Measured collectives: CSV files, which may be compressed."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

COLUMNS = ("system", "gpu", "software", "operation", "data_type", "gpus", "nodes", "bytes", "seconds", "source")
"""Columns of a file, in this order."""

ELEMENT_BYTES = {
    **dict.fromkeys(("int8", "uint8", "fp8", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "char"), 1),
    **dict.fromkeys(("half", "float16", "fp16", "bfloat16", "bf16"), 2),
    **dict.fromkeys(("float", "float32", "fp32", "int32", "uint32", "int"), 4),
    **dict.fromkeys(("double", "float64", "fp64", "int64", "uint64"), 8),
}
"""Bytes of an element, by the names that NCCL, nccl-tests and PyTorch give to data types."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured collective."""

    system: str
    """Name of the machine."""
    gpu: str
    """Name of the accelerator."""
    software: str
    """Library and version, such as ``NCCL 2.29.2``."""
    operation: str
    """The operation, such as ``all_reduce``."""
    data_type: str
    """Type of the elements."""
    gpus: int
    """GPUs that take part, in all nodes."""
    nodes: int
    """Nodes."""
    bytes: int
    """Size, as the operation counts it: see ``syncline_nccl::Operation``."""
    seconds: float
    """Time of one call."""
    source: str
    """Where the row comes from."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.data_type]

    @property
    def call(self) -> tuple[int, int, int, int, int]:
        """The call, as the core takes it."""
        return self.bytes, self.element_bytes, self.gpus // self.nodes, self.nodes, 1


def read(paths: Iterable[Path]) -> list[Row]:
    """The rows of several files, in order.

    :raises SynclineError: a file cannot be read, or a row is malformed.
    """
    return [row for path in paths for row in _rows(path)]


def _rows(path: Path) -> Iterator[Row]:
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = content.decode()
    except (OSError, EOFError, gzip.BadGzipFile, UnicodeDecodeError) as problem:
        mark = Mark(Text(str(path), ()), 0, 0, 0)
        raise_errors(error(Code.UNREADABLE, f"cannot be read: {problem}", mark=mark))
    reader = csv.reader(io.StringIO(text, newline=""))
    header = tuple(next(reader, ()))
    if header != COLUMNS:
        mark = Mark(Text(str(path), ()), 1, 1, 0)
        raise_errors(
            error(
                Code.BAD_SYNTAX,
                "not a file of collectives",
                mark=mark,
                found=",".join(header)[:80],
                allowed=",".join(COLUMNS),
            )
        )
    for cells in reader:
        yield _row(path, reader.line_num, cells)


def _row(path: Path, line: int, cells: list[str]) -> Row:
    def wrong(what: str, found: str, allowed: str) -> None:
        mark = Mark(Text(str(path), ()), line, 1, 0)
        raise_errors(error(Code.BAD_VALUE, what, mark=mark, found=found, allowed=allowed))

    if len(cells) != len(COLUMNS):
        wrong("a row has another number of cells", str(len(cells)), str(len(COLUMNS)))
    system, gpu, software, operation, data_type, *numbers, source = cells
    if operation not in (known := _core.nccl_operations()):
        wrong("unknown operation", operation, ", ".join(known))
    if data_type not in ELEMENT_BYTES:
        wrong("unknown data type", data_type, ", ".join(ELEMENT_BYTES))
    try:
        gpus, nodes, size = (int(each) for each in numbers[:3])
        seconds = float(numbers[3])
    except ValueError:
        wrong("a number cannot be read", ", ".join(numbers), "gpus, nodes, bytes and seconds")
    if not (nodes >= 1 and gpus >= 1 and gpus % nodes == 0 and size >= 1 and 0 < seconds < 1e6):
        wrong("impossible numbers", ", ".join(numbers), "GPUs that nodes divide, bytes and seconds above 0")
    return Row(system, gpu, software, operation, data_type, gpus, nodes, size, seconds, source)


def write(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows; the same rows give the same bytes."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([getattr(row, column) for column in COLUMNS] for row in rows)
    content = out.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)

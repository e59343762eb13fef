"""The columns of a table of measured kernels, and its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from syncline.schemas import KERNELS

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | int | float | bool | None
"""A value of a row: text, a number, yes or no, or nothing where the column does not apply."""
Row = dict[str, Value]
"""A row of the table, by column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table."""

    name: str
    kind: Literal["word", "integer", "number", "flag"]
    """What a cell holds; a flag is ``true`` or ``false``."""
    meaning: str


COLUMNS = (
    Column("operation", "word", "What ran, such as `gemm` or `rms_norm`."),
    Column("pass", "word", "`forward`, `backward`, or `forward_backward` for layers."),
    Column("variant", "word", "Which of several ways to do it, such as `eager` or `compiled`."),
    Column("backend", "word", "Library or function that was asked for, such as `flash`, `cudnn` or `bmm`."),
    Column("data_type", "word", "Type of the elements: `bf16`, `fp16`, `fp32`, `tf32` or `fp8_e4m3`."),
    Column("layout", "word", "Of a matrix product: `nt`, `nn` or `tn`; the first letter is that of the left operand."),
    Column("m", "integer", "Rows of the result of a matrix product, of one group; rows of other tensors."),
    Column("n", "integer", "Columns of the result; length of a row of other tensors."),
    Column("k", "integer", "Length of the sums of a matrix product."),
    Column("groups", "integer", "Products of a grouped or batched GEMM; tensors of an optimizer; nodes of a graph."),
    Column("batch", "integer", "Sequences of attention or layers."),
    Column("sequence", "integer", "Tokens of a sequence."),
    Column("heads", "integer", "Query heads."),
    Column("kv_heads", "integer", "Heads of keys and values."),
    Column("head_dim", "integer", "Elements of a head of queries and keys."),
    Column("value_head_dim", "integer", "Elements of a head of values."),
    Column("causal", "flag", "Each token attends only to earlier ones."),
    Column("layers", "integer", "Layers of a stack."),
    Column("elements", "integer", "Elements of the main tensor, or parameters of an optimizer."),
    Column("bytes", "integer", "Bytes that must be read and written at least, all tensors together."),
    Column("flop", "integer", "Floating-point operations of matrix products; causal attention counts half."),
    Column(
        "launch",
        "word",
        "`graph`: many calls in a CUDA graph; `loop`: launched one by one; `host`: by the host's clock.",
    ),
    Column("kernels", "integer", "Kernels, copies and memsets that one call launches."),
    Column("copies", "integer", "Sets of operands that calls took in turn."),
    Column("seconds", "number", "Time of one call: the median of the repeats."),
    Column("p10_s", "number", "10th percentile of the repeats."),
    Column("p90_s", "number", "90th percentile of the repeats."),
    Column("repeats", "integer", "Number of timed repeats; a repeat of a graph holds several calls."),
    Column("at_s", "number", "When the row was measured, in seconds since the start of the measurement."),
    Column("sm_clock_mhz", "integer", "Clock of the multiprocessors, read while the kernels ran or shortly before."),
    Column(
        "power_w", "number", "Power of the device, read likewise: of that moment if it tells, else of the last second."
    ),
    Column("temperature_c", "integer", "Temperature of the device, read likewise."),
)
"""The columns, in their order in the file."""

NAMES = tuple(column.name for column in COLUMNS)
"""The names of the columns, in order."""


def header(facts: Mapping[str, Value]) -> str:
    """The first lines of a table: schema and facts of device and software as comments, and the names of columns."""
    lines = [f"# schema: {KERNELS}", *(f"# {key}: {' '.join(str(value).split())}" for key, value in facts.items())]
    return "\n".join([*lines, ",".join(NAMES)]) + "\n"


def line(row: Mapping[str, Value]) -> str:
    """The line of a row. No value needs quotes: words have no commas."""
    return ",".join(_cell(row.get(name)) for name in NAMES) + "\n"


def _cell(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)

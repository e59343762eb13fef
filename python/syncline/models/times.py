"""Tables of measured times, by layer and pass: YAML or CSV files for the compute model ``table``."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from syncline.codes import Code
from syncline.input import limits
from syncline.input.base import Strict
from syncline.input.check import Whole, check, in_order
from syncline.input.csv_rows import Form, read_rows
from syncline.input.node import Mark, Node
from syncline.input.problem import error, raise_errors
from syncline.input.source import Source, from_file
from syncline.input.units import Time
from syncline.input.words import DataType, Pass
from syncline.schemas import TIMES

if TYPE_CHECKING:
    from syncline.errors import Diagnostic


class MeasuredTime(Strict):
    """A measured time of a layer."""

    layer: Annotated[str, Field(min_length=1)]
    """The layer's name."""
    pass_: Annotated[Pass, Field(alias="pass")]
    """The pass that was measured."""
    time: Time
    """The measured time; the median of the repeats."""
    q1: Time | None = None
    """First quartile of the repeats."""
    q3: Time | None = None
    """Third quartile of the repeats."""
    repeats: Annotated[int, Field(ge=1, le=2**63)] | None = None
    """Number of repeats."""


class Times(Strict):
    """Measured times of the layers of a model, and what they were measured with."""

    schema_: Annotated[Literal["syncline-times/1"], Field(alias="schema")] = TIMES
    """Version of the format."""
    model: str = ""
    """The model that was measured."""
    device: str = ""
    """The device that it ran on."""
    software: str = ""
    """The software that ran it."""
    batch_per_npu: Annotated[int, Field(ge=1, le=2**63)] | None = None
    """Samples of one iteration."""
    data_type: DataType | None = None
    """Element type."""
    times: Annotated[list[MeasuredTime], Field(min_length=1, max_length=limits.MAX_TIMES)]
    """The times."""

    @property
    def label(self) -> str:
        """Model, device and software, in a few words."""
        return ", ".join(part for part in (self.model, self.device, self.software) if part)

    def by_layer(self) -> dict[str, dict[str, str]]:
        """Times of the passes of each layer, as a resolved scenario holds them."""
        layers: dict[str, dict[str, str]] = {}
        for each in self.times:
            layers.setdefault(each.layer, {})[each.pass_] = each.time
        return layers


def read(path: str) -> tuple[Times, Source]:
    """Reads a table: CSV by its ending, else YAML or JSON."""
    source = _csv(path) if path.lower().endswith(".csv") else from_file(path)
    times = check(source, Times, Whole("the table"))
    _once(times, source)
    return times, source


def text(times: Times, path: str) -> str:
    """The text of a table for the file ``path``: CSV if it ends so, else YAML."""
    rows = [each.model_dump(by_alias=True, exclude_none=True) for each in times.times]
    if path.lower().endswith(".csv"):
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, _FORM.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return buffer.getvalue()
    head = times.model_dump(by_alias=True, exclude={"times"}, exclude_defaults=True)
    lines = [f"{key}: {json.dumps(value)}" for key, value in {"schema": times.schema_, **head}.items()]
    listed = [f"  - {{ {', '.join(_pair(key, value) for key, value in row.items())} }}" for row in rows]
    return "\n".join([*lines, "times:", *listed]) + "\n"


def _pair(key: str, value: Any) -> str:
    return f"{key}: {json.dumps(value) if key == 'layer' else value}"


def _once(times: Times, source: Source) -> None:
    """Raises an error if the time of a layer and pass is given twice."""
    seen: set[tuple[str, str]] = set()
    problems: list[Diagnostic] = []
    for index, each in enumerate(times.times):
        if (each.layer, each.pass_) in seen:
            message = f"the {each.pass_} of layer `{each.layer}` is given twice"
            mark = source.mark(("times", index))
            problems.append(error(Code.BAD_VALUE, message, mark=mark, key=f"times.{index}", help="keep one of the two"))
        seen.add((each.layer, each.pass_))
    if problems:
        raise_errors(*in_order(problems))


def _csv(path: str) -> Source:
    rows, start, problems = read_rows(path, _FORM)
    if problems:
        raise_errors(*in_order(problems))
    return Source(Node({"times": Node(list(rows), start)}, start), path)


def _value(key: str, cell: str, _mark: Mark, _problems: list[Diagnostic]) -> Any:
    return int(cell) if key == "repeats" and cell.isascii() and cell.isdigit() and len(cell) < 19 else cell


_FORM = Form(
    columns=("layer", "pass", "time", "q1", "q3", "repeats"),
    required=("layer", "pass", "time"),
    help="the first line is layer,pass,time, optionally with q1, q3 and repeats",
    row="time",
    max_rows=limits.MAX_TIMES,
    max_bytes=limits.MAX_BYTES,
    convert=_value,
)

"""Measured training runs: the rows of a file such as ``validation/runs.csv``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from syncline.codes import Code
from syncline.input import limits
from syncline.input.base import Strict
from syncline.input.check import Whole, collect, in_order
from syncline.input.csv_rows import Form, read_rows
from syncline.input.problem import error, raise_errors, shown
from syncline.input.source import Source

if TYPE_CHECKING:
    from syncline.errors import Diagnostic
    from syncline.input.node import Mark, Node

Count = Annotated[int, Field(ge=1, lt=1 << 31)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
Positive = Annotated[float, Field(gt=0)]


class Run(Strict):
    """A measured run. ``validation/README.md`` says what each column means; an absent one was not published."""

    id: Text
    dataset: Text = "own"
    source: Text | None = None
    framework: Text | None = None
    task: Literal["pretrain", "sft", "lora"] = "pretrain"
    calibrates: Text | None = None
    filters: Text | None = None
    model: Text
    layers: Count | None = None
    cluster: Text
    gpus: Count
    tp: Count = 1
    sequence_parallel: bool = False
    pp: Count = 1
    virtual_stages: Count = 1
    schedule: Literal["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipe-v"] | None = None
    split: Literal["even", "ends", "layout", "cost", "uneven"] | None = None
    cp: Count = 1
    ep: Count = 1
    etp: Count = 1
    dp: Count | None = None
    zero: Annotated[int, Field(ge=0, le=3)] = 0
    shard_group: Count | None = None
    micro_batch: Count
    global_batch: Count
    accumulation: Count | None = None
    sequence: Annotated[int, Field(ge=1, le=1 << 40)]
    precision: Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
    gradient_type: Literal["fp32", "bf16", "fp16"] | None = None
    recompute: Literal["none", "selective", "full"] | None = None
    recompute_modules: Text | None = None
    attention: Literal["flash", "unfused", "triton", "flash-attention-2", "cudnn"] = "flash"
    rope_fusion: bool | None = None
    optimizer: Literal["adam"] = "adam"
    lora: Count | None = None
    offload: Annotated[str, Field(pattern=r"^([1-9][0-9]* layers|[a-z_0-9]+( [a-z_0-9]+)*)$")] | None = None
    overlap_tp: bool | None = None
    overlap_gradients: bool | None = None
    overlap_parameters: bool | None = None
    overlap_pipeline: bool | None = None
    overlap_experts: bool | None = None
    graphs: Literal["none", "partial", "full"] | None = None
    dispatcher: Literal["all_to_all", "fused"] | None = None
    routing: Literal["random", "consecutive"] | None = None
    dispatch_multiprocessors: Count | None = None
    fused_experts: bool | None = None
    low_precision_output_layer: bool | None = None
    fp8_attention: bool | None = None
    low_precision_parameters: bool | None = None
    step_s: Positive | None = None
    memory_gib: Positive | None = None
    fits: Literal["yes", "no", "failed"] | None = None
    mfu: Annotated[float, Field(ge=0)] | None = None
    reading: Text | None = None

    @property
    def replicas(self) -> int:
        """Data parallelism."""
        return self.gpus // (self.tp * self.pp * self.cp)

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a pipeline in a step."""
        return self.global_batch // (self.replicas * self.micro_batch)

    @property
    def memory_bytes(self) -> float | None:
        """Measured peak memory in bytes."""
        return None if self.memory_gib is None else self.memory_gib * 2**30

    def passes(self, name: str) -> bool:
        """Whether the row passes a filter."""
        return name in (self.filters or "").split()


@dataclass(frozen=True, slots=True)
class Excluded:
    """A row that is not used."""

    id: str
    dataset: str
    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A row with the places of its cells, for errors about it."""

    run: Run
    node: Node

    def mark(self, column: str) -> Mark | None:
        """Where a cell is; where the row is, if the cell is empty."""
        return self.node.mark_of((column,))


COLUMNS = (*Run.model_fields, "excluded")
REQUIRED = ("id", "model", "cluster", "gpus", "micro_batch", "global_batch", "sequence", "precision", "step_s")
_WHOLE = Whole("the row")
_FLAGS = {"yes": True, "no": False}


def _kinds() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The columns that hold whole numbers, numbers and yes or no."""
    kinds: dict[str, set[str]] = {"int": set(), "float": set(), "bool": set()}
    for name, field in Run.model_fields.items():
        found = re.findall(r"\b(int|float|bool)\b", str(field.annotation))
        if found:
            kinds[found[0]].add(name)
    return frozenset(kinds["int"]), frozenset(kinds["float"]), frozenset(kinds["bool"])


_INTS, _FLOATS, _BOOLS = _kinds()


def _value(column: str, cell: str, mark: Mark, problems: list[Diagnostic]) -> str | bool | int | float:
    if column in _INTS and re.fullmatch(r"-?[0-9]{1,400}", cell):
        return int(cell)
    if column in _FLOATS and re.fullmatch(r"-?[0-9]*\.?[0-9]+([eE][-+]?[0-9]{1,3})?", cell):
        return float(cell)
    if column in _BOOLS:
        if cell not in _FLAGS:
            wrong = f"not a value of `{column}`"
            problems.append(
                error(Code.BAD_VALUE, wrong, mark=mark, key=column, found=shown(cell), allowed=", ".join(_FLAGS))
            )
        return _FLAGS.get(cell, True)
    return cell


_FORM = Form(
    columns=COLUMNS,
    required=REQUIRED,
    help=f"the first line names the columns; {', '.join(REQUIRED)} are needed",
    row="run",
    max_rows=limits.MAX_RUNS,
    max_bytes=limits.MAX_RUN_FILE_BYTES,
    convert=_value,
    empty=Code.BAD_SYNTAX,
)


@dataclass(frozen=True, slots=True)
class Runs:
    """The rows of a file."""

    file: str
    used: tuple[Placed, ...]
    excluded: tuple[Excluded, ...]

    def __iter__(self) -> Any:
        """The runs that are used."""
        return (each.run for each in self.used)

    def __len__(self) -> int:
        return len(self.used)


def read_runs(path: str) -> Runs:
    """Reads the rows of a file, and checks each cell. :func:`~.checks.check` compares them with models and clusters.

    :raises SynclineError: the file cannot be read or is malformed; all wrong cells are in it.
    """
    rows, _, problems = read_rows(path, _FORM)
    used: list[Placed] = []
    excluded: list[Excluded] = []
    ids: dict[str, int] = {}
    for node in rows:
        values = node.to_python()
        name, line = str(values.get("id", "")), node.mark.line if node.mark else 0
        if name in ids:
            again = f"two rows have the id `{name}`"
            where = node.mark_of(("id",))
            problems.append(
                error(Code.BAD_VALUE, again, mark=where, key="id", help=f"the first is in line {ids[name]}")
            )
        ids.setdefault(name, line)
        if values.get("excluded"):
            model, dataset = str(values.get("model", "")), str(values.get("dataset", ""))
            excluded.append(Excluded(name, dataset, model, str(values["excluded"])))
            continue
        made, wrong = collect(Source(node, path), Run, _WHOLE)
        problems += wrong
        if made is not None and made.step_s is None and made.fits not in ("no", "failed"):
            why = "a run that fits needs the time of a step"
            problems.append(error(Code.MISSING_KEY, why, mark=node.mark, key="step_s", help="give `step_s`, or `fits`"))
        if made is not None:
            used.append(Placed(made, node))
    if problems:
        raise_errors(*in_order(problems))
    return Runs(path, tuple(used), tuple(excluded))

"""The schema of ``compute``: the model that turns work into time."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from syncline.codes import Code
from syncline.input import limits
from syncline.input.base import Strict, either, validation_error
from syncline.input.units import Bytes, FlopRate, Flops, Frequency, Rate, Time
from syncline.input.words import DataType

Fraction = Annotated[float, Field(gt=0, le=1)]
Power = Annotated[float, Field(ge=1e-6, le=1e6)]
Side = Annotated[int, Field(ge=1, le=2**20)]
Vector = Annotated[Literal["free"] | FlopRate, either('free, or a compute rate such as "1TFLOP/s"', "free")]


class EfficiencyPoint(Strict):
    """One point of an efficiency curve."""

    flop: Flops
    """Number of operations of a task."""
    efficiency: Fraction
    """Fraction of the peak that a task of this size reaches, above 0 to 1."""


Efficiency = Annotated[
    Annotated[Fraction, Tag("number")]
    | Annotated[list[EfficiencyPoint], Field(min_length=1, max_length=limits.MAX_POINTS), Tag("points")],
    Discriminator(lambda value: "points" if isinstance(value, list) else "number"),
]
"""A fraction, or a list of points, sorted by rising work."""


Peak = Annotated[
    Annotated[FlopRate, Tag("word")] | Annotated[dict[DataType, FlopRate], Field(min_length=1), Tag("types")],
    Discriminator(lambda value: "types" if isinstance(value, dict) else "word"),
]
"""One rate for all data types, or a rate for each data type."""


class Roofline(Strict):
    """The larger of two times: operations over peak rate, and bytes over memory bandwidth."""

    model: Literal["roofline"]
    """The compute model's name."""
    accelerator: str | None = None
    """Name of an accelerator whose data sheet syncline knows, such as `A100`. Gives `peak`, `memory` and
    `memory_capacity`."""
    peak: Peak | None = None
    """Peak rate, such as `312TFLOP/s`; or peak rates by data type, such as `{ fp8: 1979TFLOP/s, bf16: 989TFLOP/s }`."""
    memory: Rate | None = None
    """Memory bandwidth, such as `1555GB/s`."""
    efficiency: Efficiency = 1.0
    """Fraction of the peak that tasks reach, above 0 to 1: one for all tasks, or a curve over the number of
    operations."""
    compute_power: Power = 1.0
    """Divides all compute times: 2 makes the NPU twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""

    @model_validator(mode="after")
    def _complete(self) -> Roofline:
        if self.accelerator is None and (self.peak is None or self.memory is None):
            lacking = [key for key in ("peak", "memory") if getattr(self, key) is None]
            raise validation_error(
                f"missing key `{lacking[0]}`",
                code=Code.MISSING_KEY,
                help="give `accelerator`, or both `peak` and `memory`",
            )
        return self


class Systolic(Strict):
    """A systolic array for matrix products, with a vector unit for the rest."""

    model: Literal["systolic"]
    """The compute model's name."""
    rows: Side = 256
    """Rows of multiply-accumulate units."""
    columns: Side = 256
    """Columns of multiply-accumulate units."""
    clock: Frequency = "1GHz"
    """Clock rate: each unit does one multiply-accumulate a cycle."""
    memory: Rate
    """Memory bandwidth, such as `900GB/s`. The array stalls while operands arrive too slowly."""
    dataflow: Literal["weight_stationary", "output_stationary", "input_stationary"] = "weight_stationary"
    """Which operand stays in the array while the others flow through it."""
    vector: Vector | None = None
    """Rate of operations that are not matrix products; `free` if they take no time. Without it, two operations for each
    column and cycle."""
    delay: Time = "0s"
    """Time added to each pass of each layer."""
    compute_power: Power = 1.0
    """Divides all compute times: 2 makes the NPU twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


class Throughput(Strict):
    """Matrix products at a fixed rate, whatever their shape and memory traffic; other work as by a roofline."""

    model: Literal["throughput"]
    """The compute model's name."""
    rate: FlopRate
    """Rate of operations, such as `60TFLOP/s`. A pass with matrix products takes their operations at this rate, and no
    time for anything else."""
    memory: Rate
    """Memory bandwidth, such as `600GB/s`. A pass without matrix products takes the larger of two times: its bytes at
    this rate, and its operations at `rate`."""
    compute_power: Power = 1.0
    """Divides all compute times: 2 makes the NPU twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


class Table(Strict):
    """Measured times of each layer and pass."""

    model: Literal["table"]
    """The compute model's name."""
    file: Annotated[str, Field(min_length=1)]
    """Path of the table, a YAML or CSV file."""
    compute_power: Power = 1.0
    """Divides all compute times: 2 makes the NPU twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


class MeasuredKernels(Strict):
    """Models of kernels, fitted to measured ones."""

    model: Literal["measured"]
    """The compute model's name."""
    accelerator: Annotated[str, Field(min_length=1)]
    """Name of an accelerator whose kernels were measured, such as `H100`; or path of a `.json` file of
    `syncline kernels fit`. Gives `memory_capacity`."""
    compute_power: Power = 1.0
    """Divides all compute times: 2 makes the NPU twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


class Given(Strict):
    """Takes compute times from the workload, which must give them."""

    model: Literal["given"]
    """The compute model's name."""
    compute_power: Power = 1.0
    """Divides all compute times: 2 makes the NPU twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


_Model = Literal["given", "roofline", "systolic", "throughput", "table", "measured"]
"""Names of compute models."""


class _Unknown(Strict):
    """A mapping whose ``model`` names no compute model. Validation refuses it, and lists the names."""

    model_config = ConfigDict(extra="allow")

    model: _Model


def _choose(value: Any) -> str | None:
    if isinstance(value, str):
        return "word"
    if isinstance(value, BaseModel):
        return str(value.model)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        # Check a mapping without `model` as a roofline, so that the error says that `model` is missing.
        name = value.get("model", "roofline")
        return name if isinstance(name, str) and name in get_args(_Model) else "unknown"
    return None


Compute = Annotated[
    Annotated[Literal["given"], Tag("word")]
    | Annotated[Given, Tag("given")]
    | Annotated[Roofline, Tag("roofline")]
    | Annotated[Systolic, Tag("systolic")]
    | Annotated[Throughput, Tag("throughput")]
    | Annotated[Table, Tag("table")]
    | Annotated[MeasuredKernels, Tag("measured")]
    | Annotated[SkipJsonSchema[_Unknown], Tag("unknown")],
    Discriminator(_choose),
]
"""A compute model: `given`, or an object with its parameters."""

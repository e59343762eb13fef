"""What turns work into time, as a user writes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from syncline.config import limits
from syncline.config.base import Strict, either, wrong
from syncline.config.quantity import Bytes, FlopRate, Flops, Frequency, Rate, Time
from syncline.config.words import DataType

Fraction = Annotated[float, Field(gt=0, le=1)]
Power = Annotated[float, Field(ge=1e-6, le=1e6)]
Side = Annotated[int, Field(ge=1, le=2**20)]
Vector = Annotated[Literal["free"] | FlopRate, either('free, or a compute rate such as "1TFLOP/s"', "free")]


class EfficiencyPoint(Strict):
    """One point of an efficiency curve."""

    flop: Flops
    """Operations of a task."""
    efficiency: Fraction
    """Fraction of the peak that a task of this size reaches, above 0 to 1."""


Efficiency = Annotated[
    Annotated[Fraction, Tag("number")]
    | Annotated[list[EfficiencyPoint], Field(min_length=1, max_length=limits.MAX_POINTS), Tag("points")],
    Discriminator(lambda value: "points" if isinstance(value, list) else "number"),
]
"""A fraction, or points by rising work."""


Peak = Annotated[
    Annotated[FlopRate, Tag("word")] | Annotated[dict[DataType, FlopRate], Field(min_length=1), Tag("types")],
    Discriminator(lambda value: "types" if isinstance(value, dict) else "word"),
]
"""A rate for all types, or a rate for each."""


class Roofline(Strict):
    """The larger of operations over peak rate and bytes over memory bandwidth."""

    model: Literal["roofline"]
    """The compute model's name."""
    accelerator: str | None = None
    """Name of an accelerator whose data sheet syncline knows, such as `A100`. Gives `peak`, `memory` and
    `memory_capacity`."""
    peak: Peak | None = None
    """Peak rate, such as `312TFLOP/s`; or rates by the type that operations compute in, such as
    `{ fp8: 1979TFLOP/s, bf16: 989TFLOP/s }`."""
    memory: Rate | None = None
    """Memory bandwidth, such as `1555GB/s`."""
    efficiency: Efficiency = 1.0
    """Fraction of the peak that is reached, above 0 to 1: one for all tasks, or a curve by their operations."""
    compute_power: Power = 1.0
    """What all compute times are divided by: 2 is an NPU that is twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""

    @model_validator(mode="after")
    def _complete(self) -> Roofline:
        if self.accelerator is None and (self.peak is None or self.memory is None):
            lacking = [key for key in ("peak", "memory") if getattr(self, key) is None]
            raise wrong(
                f"missing key `{lacking[0]}`",
                code="SL0103",
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
    """Cycles per second: each unit does one multiply-accumulate a cycle."""
    memory: Rate
    """Memory bandwidth, such as `900GB/s`. Where operands arrive too slowly, the array stalls."""
    dataflow: Literal["weight_stationary", "output_stationary", "input_stationary"] = "weight_stationary"
    """What stays in the array while the rest flows through it."""
    vector: Vector | None = None
    """Rate of operations that are no matrix products; `free` where these take no time. Without it, two for each column
    and cycle."""
    delay: Time = "0s"
    """Added to each pass of each layer."""
    compute_power: Power = 1.0
    """What all compute times are divided by: 2 is an NPU that is twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


class Throughput(Strict):
    """Matrix products at a fixed rate, whatever their shape and traffic; other work by the larger of two times."""

    model: Literal["throughput"]
    """The compute model's name."""
    rate: FlopRate
    """Rate of operations, such as `60TFLOP/s`. A pass with matrix products takes their operations at this rate, and no
    time for anything else."""
    memory: Rate
    """Memory bandwidth, such as `600GB/s`. A pass without matrix products takes its bytes at this rate, or its
    operations at the other, whichever takes longer."""
    compute_power: Power = 1.0
    """What all compute times are divided by: 2 is an NPU that is twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


class Table(Strict):
    """Measured times, by layer and pass."""

    model: Literal["table"]
    """The compute model's name."""
    file: Annotated[str, Field(min_length=1)]
    """Path of the table, in YAML or CSV."""
    compute_power: Power = 1.0
    """What all compute times are divided by: 2 is an NPU that is twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


class Given(Strict):
    """Only times that the workload gives."""

    model: Literal["given"]
    """The compute model's name."""
    compute_power: Power = 1.0
    """What all compute times are divided by: 2 is an NPU that is twice as fast."""
    memory_capacity: Bytes | None = None
    """Memory of an NPU, such as `80GiB`. A job that does not fit is refused."""


class _Unknown(Strict):
    """What has a name that is no compute model's. It is refused with the names that are."""

    model_config = ConfigDict(extra="allow")

    model: Literal["given", "roofline", "systolic", "throughput", "table"]


_MODELS = ("given", "roofline", "systolic", "throughput", "table")


def _choose(value: Any) -> str | None:
    if isinstance(value, str):
        return "word"
    if isinstance(value, BaseModel):
        return str(value.model)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        # A mapping without a model lacks one; the first keys that compute models had are the roofline's.
        name = value.get("model", "roofline")
        return name if isinstance(name, str) and name in _MODELS else "unknown"
    return None


Compute = Annotated[
    Annotated[Literal["given"], Tag("word")]
    | Annotated[Given, Tag("given")]
    | Annotated[Roofline, Tag("roofline")]
    | Annotated[Systolic, Tag("systolic")]
    | Annotated[Throughput, Tag("throughput")]
    | Annotated[Table, Tag("table")]
    | Annotated[SkipJsonSchema[_Unknown], Tag("unknown")],
    Discriminator(_choose),
]
"""A compute model: `given`, or an object with its parameters."""

"""What turns work into time, as a user writes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from syncline.config.base import Strict, form, wrong
from syncline.config.quantity import FlopRate, Rate


class Roofline(Strict):
    """The larger of operations over peak rate and bytes over memory bandwidth."""

    model: Literal["roofline"]
    """The compute model's name."""
    accelerator: str | None = None
    """Name of an accelerator whose data sheet syncline knows, such as `A100`. Gives `peak` and `memory`."""
    peak: FlopRate | None = None
    """Peak rate for the workload's data type, such as `312TFLOP/s`."""
    memory: Rate | None = None
    """Memory bandwidth, such as `1555GB/s`."""
    efficiency: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Fraction of the peak that is reached, above 0 to 1."""

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


class Given(Strict):
    """Only times that the workload gives."""

    model: Literal["given"]
    """The compute model's name."""


Compute = Annotated[
    Annotated[Literal["given"], Tag("<word>")]
    | Annotated[Given, Tag("<given>")]
    | Annotated[Roofline, Tag("<roofline>")],
    Discriminator(
        lambda value: (
            "<given>"
            if isinstance(value, Given) or (isinstance(value, dict) and value.get("model") == "given")
            else form(word=True, default="roofline", model="roofline")(value)
        )
    ),
]
"""A compute model: `given`, or an object with its parameters."""

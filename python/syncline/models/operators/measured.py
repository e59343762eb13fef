"""Times of operators from the tables that FlexFlow's profiler writes.

A table is a JSON object with ``batch_size``, ``ngpus`` and ``measurements``. Each measurement has the operator's
structure as ``name``, such as ``Dense_2048_2048``; its split as ``pc_str``, whose last number is the number of parts
of the ``batch_size`` samples; and the milliseconds ``fw_time`` and ``bw_time``. TopoOpt's released tables were measured
on an A100 in fp32, where a part is that of a server whose four accelerators share it evenly.

A time applies to any job whose parts have as many samples. Times of other numbers of samples are interpolated on
logarithmic scales, or extrapolated in proportion to the samples; :attr:`MeasuredTable.notes` then says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NoReturn

from pydantic import Field, model_validator

from syncline.codes import Code
from syncline.input import limits
from syncline.input.base import Strict, validation_error
from syncline.input.check import Whole, check
from syncline.input.problem import error, raise_errors
from syncline.input.source import from_file

if TYPE_CHECKING:
    from syncline.models.operators.operator import Operator

LONGEST_MS = 1e9
"""Longest time of an operator, in milliseconds."""

Milliseconds = Annotated[float, Field(gt=0, lt=LONGEST_MS)]


@dataclass
class MeasuredTable:
    """A table of measured times."""

    file: str
    """Path of the table."""
    interpolate: bool
    """Whether numbers of samples that were not measured are interpolated."""
    by_name: dict[str, dict[int, tuple[float, float]]]
    """Milliseconds forward and backward, by operator and samples of a server's part."""
    notes: list[str] = field(default_factory=list)
    """What was interpolated or extrapolated."""

    def times(self, operator: Operator, samples: int, parameter_degree: int) -> tuple[int, int]:
        """Picoseconds of a part with some samples, forward and backward.

        Raises ``SynclineError`` if they are unknown.
        """
        known = self.by_name.get(operator.measured, {})
        if not known or parameter_degree > 1:
            what = f"`{operator.name}`" + (" split by parameters" if parameter_degree > 1 else "")
            self._refuse(f"the table has no times for {what}", operator.measured, ", ".join(self.by_name))
        if samples in known:
            forward, backward = known[samples]
            return round(forward * 1e9), round(backward * 1e9)
        if not self.interpolate:
            allowed = ", ".join(str(each) for each in sorted(known))
            message = f"the table has no times for this number of samples of `{operator.name}`"
            self._refuse(message, str(samples), allowed)
        note = f"times of {operator.measured} for {samples} samples are interpolated"
        if note not in self.notes:
            self.notes.append(note)
        forward, backward = (self._interpolated(known, samples, column) for column in range(2))
        return round(forward * 1e9), round(backward * 1e9)

    def _interpolated(self, known: dict[int, tuple[float, float]], samples: int, column: int) -> float:
        below = max((each for each in known if each < samples), default=None)
        above = min((each for each in known if each > samples), default=None)
        if below is None or above is None:
            near = min(known, key=lambda each: abs(each - samples))
            return known[near][column] * samples / near
        low, high = known[below][column], known[above][column]
        share = math.log(samples / below) / math.log(above / below)
        return float(low ** (1 - share) * high**share)

    def _refuse(self, message: str, found: str, allowed: str) -> NoReturn:
        help = "leave out `measured` for times by the accelerator's peak rates"
        if not self.interpolate:
            help = f"set `interpolate: true`, or {help}"
        raise_errors(error(Code.BAD_VALUE, message, key="measured", found=found, allowed=allowed, help=help))


class Measurement(Strict):
    """The times of one operator, split in one way."""

    name: Annotated[str, Field(min_length=1)]
    """The operator's structure."""
    pc_str: Annotated[str, Field(pattern=r"^[0-9]{1,9}(-[0-9]{1,9})*$")]
    """Its split; the last number is that of the parts of the samples."""
    fw_time: Milliseconds
    """Milliseconds forward."""
    bw_time: Milliseconds
    """Milliseconds backward."""
    mem_req: float | None = None
    """Memory that it needs, which is not used."""

    @property
    def parts(self) -> int:
        """Number of parts of the samples."""
        return int(self.pc_str.rpartition("-")[2])


class Table(Strict):
    """A table of measured times."""

    batch_size: Annotated[int, Field(ge=1, le=2**40)]
    """Samples of all parts of an operator."""
    ngpus: int | None = None
    """Number of servers, which is not used."""
    measurements: Annotated[list[Measurement], Field(max_length=limits.MAX_TIMES)]
    """The measurements."""

    @model_validator(mode="after")
    def _possible(self) -> Table:
        for at, each in enumerate(self.measurements):
            if not 1 <= each.parts <= self.batch_size:
                raise validation_error(
                    "this number of parts is not possible",
                    at=("measurements", at, "pc_str"),
                    found=str(each.parts),
                    allowed=f"1 to {self.batch_size}, the samples of `batch_size`",
                )
        return self


def read(path: str, *, interpolate: bool) -> MeasuredTable:
    """Reads a table. Raises ``SynclineError`` with all errors in it."""
    table = check(from_file(path), Table, Whole("the table of measured operators"))
    by_name: dict[str, dict[int, tuple[float, float]]] = {}
    for each in table.measurements:
        by_name.setdefault(each.name, {})[table.batch_size // each.parts] = each.fw_time, each.bw_time
    return MeasuredTable(path, interpolate, by_name)

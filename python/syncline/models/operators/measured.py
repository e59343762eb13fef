"""Times of operators from the tables that FlexFlow's profiler writes.

A table is a JSON object with ``batch_size``, ``ngpus`` and ``measurements``. Each measurement has the operator's
structure as ``name``, such as ``Dense_2048_2048``; its division as ``pc_str``, whose last number is the number of parts
of the ``batch_size`` samples; and the milliseconds ``fw_time`` and ``bw_time``. TopoOpt's released tables were measured
on an A100 in fp32, where a part is that of a server whose four accelerators divide it evenly.

A time applies to any job whose parts have as many samples. Times of other numbers of samples are interpolated on
logarithmic scales, or extrapolated in proportion to the samples; :attr:`Measured.notes` then says so.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from syncline.codes import Code
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from syncline.models.operators.operator import Operator

_TIMES = ("fw_time", "bw_time")
LONGEST_MS = 1e9
"""Longest time of an operator, in milliseconds."""


@dataclass
class Measured:
    """A table of measured times."""

    file: str
    """Path of the table."""
    interpolate: bool
    """Whether numbers of samples that were not measured are interpolated."""
    by_name: dict[str, dict[int, tuple[float, float]]]
    """Milliseconds forward and backward, by operator and samples of a server's part."""
    notes: list[str] = field(default_factory=list)
    """What was interpolated or extrapolated."""

    def times(self, operator: Operator, samples: int, slices: int) -> tuple[int, int]:
        """Picoseconds of a part with some samples, forward and backward.

        Raises ``SynclineError`` if they are unknown.
        """
        known = self.by_name.get(operator.measured, {})
        if not known or slices > 1:
            what = f"`{operator.name}`" + (" cut by parameters" if slices > 1 else "")
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


def read(path: str, *, interpolate: bool) -> Measured:
    """Read a table. Raises ``SynclineError`` for a file that is no such table."""

    def bad(message: str, code: Code = Code.BAD_SYNTAX) -> NoReturn:
        raise_errors(error(code, f"not a table of measured operators: {message}", key="measured", found=path))

    try:
        table: Any = json.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        bad(str(problem), Code.UNREADABLE)
    except (ValueError, RecursionError) as problem:
        bad(str(problem))
    try:
        batch = int(table["batch_size"])
        by_name: dict[str, dict[int, tuple[float, float]]] = {}
        for each in table["measurements"]:
            parts = int(str(each["pc_str"]).rpartition("-")[2])
            forward, backward = (float(each[key]) for key in _TIMES)
            possible = 1 <= parts <= batch and 0 < forward < LONGEST_MS and 0 < backward < LONGEST_MS
            if not possible:
                bad(f"a measurement of {each['name']} is impossible")
            by_name.setdefault(str(each["name"]), {})[batch // parts] = forward, backward
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        bad(f"{type(problem).__name__}: {problem}")
    return Measured(path, interpolate, by_name)

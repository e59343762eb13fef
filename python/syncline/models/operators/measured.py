"""Times of operators from the tables that FlexFlow's profiler writes.

A table is a JSON object with ``batch_size``, ``ngpus`` and ``measurements``. Each measurement has the operator's
structure as ``name``, such as ``Dense_2048_2048``; its division as ``pc_str``, whose last number is the number of parts
of the samples; and the milliseconds ``fw_time`` and ``bw_time``. TopoOpt's released tables were measured on an A100 in
fp32, on the samples of one accelerator of a server with four.

A number of parts that was not measured is interpolated on a logarithmic scale between its neighbours, or extrapolated
in proportion to the samples; :attr:`Measured.notes` then says so.
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


@dataclass
class Measured:
    """A table of measured times."""

    file: str
    """Path of the table."""
    batch: int
    """Samples of a step over all servers."""
    servers: int
    """Number of servers for which it was measured."""
    interpolate: bool
    """Whether numbers of parts that were not measured are interpolated."""
    by_name: dict[str, dict[int, tuple[float, float]]]
    """Milliseconds forward and backward, by operator and number of parts of the samples."""
    notes: list[str] = field(default_factory=list)
    """What was interpolated or extrapolated."""

    def times(self, operator: Operator, parts: int, slices: int) -> tuple[int, int]:
        """Picoseconds of a part, forward and backward. Raises ``SynclineError`` if they are unknown."""
        known = self.by_name.get(operator.measured, {})
        if not known or slices > 1:
            what = f"`{operator.name}`" + (" cut by parameters" if slices > 1 else "")
            self._refuse(f"the table has no times of {what}", operator.measured, ", ".join(self.by_name))
        if parts in known:
            forward, backward = known[parts]
            return round(forward * 1e9), round(backward * 1e9)
        if not self.interpolate:
            allowed = ", ".join(str(each) for each in sorted(known))
            self._refuse(f"the table has no times of `{operator.name}` in {parts} parts", str(parts), allowed)
        note = f"times of {operator.measured} in {parts} parts are interpolated"
        if note not in self.notes:
            self.notes.append(note)
        forward, backward = (self._interpolated(known, parts, column) for column in range(2))
        return round(forward * 1e9), round(backward * 1e9)

    def _interpolated(self, known: dict[int, tuple[float, float]], parts: int, column: int) -> float:
        below = max((each for each in known if each < parts), default=None)
        above = min((each for each in known if each > parts), default=None)
        if below is None or above is None:
            near = min(known, key=lambda each: abs(each - parts))
            return known[near][column] * near / parts
        low, high = known[below][column], known[above][column]
        share = math.log(parts / below) / math.log(above / below)
        return low ** (1 - share) * high**share if low > 0 and high > 0 else low + (high - low) * share

    def _refuse(self, message: str, found: str, allowed: str) -> NoReturn:
        help = "set `interpolate: true`, or leave out `measured` for times by the accelerator's peak rates"
        raise_errors(error(Code.BAD_VALUE, message, key="measured", found=found, allowed=allowed, help=help))


def read(path: str, *, interpolate: bool) -> Measured:
    """Read a table. Raises ``SynclineError`` for a file that is no such table."""

    def bad(message: str, code: Code = Code.BAD_SYNTAX) -> NoReturn:
        raise_errors(error(code, f"not a table of measured operators: {message}", key="measured", found=path))

    try:
        table: Any = json.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        bad(str(problem), Code.UNREADABLE)
    except ValueError as problem:
        bad(str(problem))
    try:
        batch, servers = int(table["batch_size"]), int(table["ngpus"])
        by_name: dict[str, dict[int, tuple[float, float]]] = {}
        for each in table["measurements"]:
            parts = int(str(each["pc_str"]).rpartition("-")[2])
            forward, backward = (float(each[key]) for key in _TIMES)
            if parts < 1 or not (0 <= forward < math.inf and 0 <= backward < math.inf):
                bad(f"a measurement of {each['name']} is impossible")
            by_name.setdefault(str(each["name"]), {})[parts] = forward, backward
    except (KeyError, TypeError, ValueError) as problem:
        bad(f"{type(problem).__name__}: {problem}")
    return Measured(path, batch, servers, interpolate, by_name)

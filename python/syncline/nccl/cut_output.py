"""Notices that output of nccl-tests was cut between two lines: a run whose last lines or last sizes are missing.

A run begins with a line that says its sizes (``minBytes 1024 maxBytes 1073741824 step: 2(factor)``), and ends with
``# Avg bus bandwidth``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.problem import warning
from syncline.quantity import size

if TYPE_CHECKING:
    from syncline.errors import Diagnostic
    from syncline.input.node import Mark

_SIZES = re.compile(r"minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\)")
_END = "# Avg bus bandwidth"
_ALIGNMENT = 16
"""Programs shorten sizes so that each GPU has whole parts of up to this many bytes."""


@dataclass
class Extent:
    """How much of a run was seen."""

    smallest: int = 0
    """Smallest size that it announces, bytes."""
    largest: int = 0
    """Largest size that it announces, bytes; 0 if it announces none."""
    step: int = 0
    """Factor, or bytes, from one size to the next."""
    by_factor: bool = True
    """Whether ``step`` is a factor."""
    headed: bool = False
    """Whether lines before the times were seen."""
    ended: bool = False
    """Whether its last line was seen."""
    last: tuple[int, int, Mark] | None = None
    """Bytes, GPUs and place of its last time."""

    def heading(self, line: str) -> None:
        """Takes note of a line that is no time."""
        self.headed = self.headed or self.last is None
        if found := _SIZES.search(line):
            self.smallest, self.largest, self.step = int(found[1]), int(found[2]), int(found[3])
            self.by_factor = found[4] == "factor"
        if line.strip().startswith(_END):
            self.ended = True

    def time(self, nbytes: int, gpus: int, mark: Mark) -> None:
        """Takes note of a time."""
        self.last = (nbytes, gpus, mark)

    def problem(self) -> Diagnostic | None:
        """A warning if the run was cut; None if it is whole, or if nothing says how long it should be."""
        if self.last is None or not self.headed:
            return None
        nbytes, gpus, mark = self.last
        missing = self._missing(nbytes, gpus)
        if missing is None and self.ended:
            return None
        said = f"the last size is {size(nbytes)}"
        if missing is not None:
            said += f", and {size(missing)} up to {size(self.largest)} are missing"
        early = "" if missing is None else " before its largest size"
        joined = ", and" if early else ""
        end = "" if self.ended else f"{joined} without the line `{_END}`"
        return warning(
            Code.BAD_SYNTAX,
            f"a run ends here{early}{end}: its output may have been cut",
            mark=mark,
            found=said,
            help="copy the whole output, or measure again; what was read is used, and larger calls are extrapolated",
        )

    def _missing(self, nbytes: int, gpus: int) -> int | None:
        """The size that should follow, if one should."""
        if self.largest == 0 or self.step < (2 if self.by_factor else 1):
            return None
        nominal = max(self.smallest, 1)
        while nominal < nbytes:
            nominal = nominal * self.step if self.by_factor else self.smallest + self._steps(nbytes) * self.step
        # A size between two of the list is the larger one, shortened.
        if nominal - nbytes > gpus * _ALIGNMENT:
            return None
        following = nominal * self.step if self.by_factor else nominal + self.step
        return following if following <= self.largest else None

    def _steps(self, nbytes: int) -> int:
        return -(-(nbytes - self.smallest) // self.step)

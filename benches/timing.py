"""Timing of exchanges. Uses only the standard library, because Gloo's ranks may run in a Python without syncline."""

from __future__ import annotations

import json
import runpy
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CORES = Path(__file__).parents[1] / "python" / "syncline" / "testbed" / "cores.py"
busy_s = runpy.run_path(str(CORES))["busy_s"]
WARM_UP = 3
"""Number of exchanges before timing begins, to open connections and grow their windows."""


def repeats(nbytes: int) -> int:
    """Number of exchanges that are timed."""
    return 5 if nbytes > 1 << 22 else 40


def timed(exchange: Callable[[], object], nbytes: int, *, first: bool) -> None:
    """Runs and times exchanges; the ``first`` process prints the times."""
    seconds, before = [], 0.0
    for step in range(WARM_UP + repeats(nbytes)):
        before = busy_s() if step == WARM_UP else before
        began = time.perf_counter()
        exchange()
        seconds += [time.perf_counter() - began] if step >= WARM_UP else []
    if first:
        sys.stdout.write(json.dumps({"seconds": seconds, "core_s": busy_s() - before}) + "\n")

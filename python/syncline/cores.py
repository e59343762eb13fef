"""How many cores a search or an ensemble may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores that this process may use, at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

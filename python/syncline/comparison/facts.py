"""Facts about two runs that differ, such as models and assumptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline.quantity import signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.result import Result

_ABOUT = (
    ("ranks", "ranks"),
    ("npus", "NPUs"),
    ("parallelism", "parallelism"),
    ("iterations", "iterations"),
    ("micro_batches", "micro-batches of an iteration"),
    ("network_model", "network model"),
    ("compute_model", "compute model"),
    ("calibrated", "calibrated"),
    ("ended", "how it ended"),
    ("bottleneck", "bottleneck"),
    ("prices", "price list"),
    ("faults", "faults"),
    ("fault_cost_s", "cost of faults"),
    ("notes", "assumptions"),
)
"""Keys of the summary that are compared, and their names for people."""


@dataclass(frozen=True)
class Fact:
    """A fact that differs between the runs."""

    key: str
    """A key of the summary, or ``version``."""
    name: str
    """Its name for people."""
    a: Any
    b: Any


def facts(a: Result, b: Result) -> Iterator[Fact]:
    """The facts that differ between the runs."""
    if a.version != b.version:
        yield Fact("version", "version of syncline", a.version, b.version)
    for key, name in _ABOUT:
        one, other = (getattr(each.summary, key) for each in (a, b))
        if one != other:
            yield Fact(key, name, one, other)


def fact(key: str, value: Any) -> str:
    """The text of a fact's value."""
    if value is None or value == () or value == "":
        return "-"
    if isinstance(value, tuple):
        return "; ".join(map(str, value))
    return signed(value) if key.endswith("_s") else str(value)

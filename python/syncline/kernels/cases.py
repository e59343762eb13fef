"""What is measured, in which order, and for which part of the time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.kernels.bench import Bench
    from syncline.kernels.columns import Row, Value

FAMILIES = ("gemm", "attention", "memory", "grouped", "optimizer", "copy", "launch", "sustained", "layers")
"""The families of operations, the most important first: modules of :mod:`syncline.kernels.families`."""


@dataclass(frozen=True)
class Case:
    """Something to measure."""

    level: int
    """0 is measured first: a coarse grid; higher levels refine it."""
    row: Row
    """The columns that are known before."""
    settings: dict[str, Any] = field(default_factory=dict, compare=False)
    """What the family needs besides."""

    @property
    def key(self) -> str:
        """Tells cases apart, across processes."""
        return " ".join(f"{name}={value}" for name, value in self.row.items() if value is not None)


class Family(Protocol):
    """A module of a family."""

    def cases(self, *, quick: bool) -> list[Case]:
        """All cases, in any order; a handful of tiny ones if ``quick``."""

    def measure(self, case: Case, bench: Bench) -> Iterator[Row]:
        """Measures a case. Each row that it yields adds to those columns that the case knows."""


@dataclass(frozen=True)
class Stage:
    """One level of one family, with its part of the time."""

    family: str
    level: int
    share: float
    """The part of all time after which the stage gives way, to continue after all others."""


STAGES = (
    Stage("launch", 0, 0.02),
    Stage("gemm", 0, 0.10),
    Stage("attention", 0, 0.08),
    Stage("memory", 0, 0.05),
    Stage("optimizer", 0, 0.03),
    Stage("copy", 0, 0.02),
    Stage("grouped", 0, 0.03),
    Stage("layers", 0, 0.04),
    Stage("sustained", 0, 0.08),
    Stage("gemm", 1, 0.16),
    Stage("attention", 1, 0.09),
    Stage("layers", 1, 0.06),
    Stage("memory", 1, 0.07),
    Stage("grouped", 1, 0.06),
    # From here on, torch.compile is needed: seconds for each case.
    Stage("memory", 2, 0.08),
    Stage("layers", 2, 0.08),
    Stage("optimizer", 1, 0.01),
    Stage("copy", 1, 0.01),
    Stage("gemm", 2, 0.2),
    Stage("attention", 2, 0.1),
)
"""All stages, in their order."""


def family(name: str) -> Family:
    """The module of a family."""
    return cast("Family", import_module(f"syncline.kernels.families.{name}"))


def plan(operations: Sequence[str], *, quick: bool) -> list[tuple[Stage, list[Case]]]:
    """The stages of the families in ``operations``, with their cases.

    Within levels above 0, cases are shuffled, the same in every run, so that a stage that is cut short has measured an
    even sample of its grid. A case that several levels have is measured in the first of them.
    """
    every = {name: family(name).cases(quick=quick) for name in FAMILIES if name in operations}
    seen: set[str] = set()
    stages = []
    for stage in STAGES:
        fresh = [case for case in every.get(stage.family, ()) if case.level == stage.level and case.key not in seen]
        cases = list({case.key: case for case in fresh}.values())
        if stage.level:
            random.Random(stage.level).shuffle(cases)  # noqa: S311 - an order, no secret
        seen.update(case.key for case in cases)
        stages.append((stage, cases))
    return stages


def is_backward(case: Case) -> bool:
    """The case is a backward pass."""
    which = case.row.get("pass")
    return which == "backward"


def row(operation: str, **columns: Value) -> Row:
    """The known columns of a case; ``pass_`` is the column ``pass``."""
    return {"operation": operation, **{name.rstrip("_"): value for name, value in columns.items()}}

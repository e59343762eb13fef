"""One figure of a paper: claims, choices, what is measured, how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from experiments.harness.case import Case
    from experiments.harness.claim import Claim, Verdict
    from experiments.harness.runner import Runner
    from experiments.harness.table import Table


@dataclass(frozen=True)
class Choice:
    """Another reading of what the paper leaves open. All claims are judged under it as well."""

    name: str
    changes: Mapping[str, Any] | Callable[[Path], Mapping[str, Any]]
    """Changes of the scenarios, by key; ``FILE:KEY`` changes only that file. Or a function that gives them, and is
    given a folder for files that they name."""


@dataclass(frozen=True)
class Findings:
    """What an experiment measured."""

    tables: Sequence[Table]
    verdicts: Sequence[Verdict]

    def table(self, name: str) -> Table:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)


@dataclass(frozen=True)
class Experiment:
    """One figure."""

    folder: Path
    """Where its scenarios and its page are; the folder's name is the experiment's."""
    title: str
    """What the figure shows."""
    claims: Sequence[Claim]
    measure: Callable[[Runner], Findings]
    """Simulates, and judges every claim."""
    draw: Callable[[Findings], Figure]
    """Draws the figure from what was measured."""
    choices: Sequence[Choice] = field(default=())
    networks: Sequence[str] = ("queued", "analytical", "packet")
    """Network models that it can be measured with, first the one of its scenarios."""
    cases: Callable[[Runner], Sequence[Case]] | None = None
    """What it simulates, for runs that take long enough to be simulated side by side, before it is measured."""
    calibrated: str = ""
    """What its simulations were calibrated by, if they were."""
    runs: bool = False
    """Whether a part of it runs on the testbed."""

    @property
    def name(self) -> str:
        """Such as ``fig09``."""
        return self.folder.name

    @property
    def paper(self) -> str:
        """Such as ``astra2020``."""
        return self.folder.parent.name

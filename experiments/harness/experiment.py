"""One figure of a paper: its claims, its choices, and functions that measure and draw it."""

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
    """An alternative reading of something that the paper leaves open. All claims are also judged under it."""

    name: str
    changes: Mapping[str, Any] | Callable[[Path], Mapping[str, Any]]
    """Changes to the scenarios, by key; ``FILE:KEY`` changes only that file. Or a function that returns the changes;
    its argument is a folder where it may write files that the changes refer to."""


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
    """Folder of its scenarios and its page; the folder's name is the experiment's name."""
    title: str
    """What the figure shows."""
    claims: Sequence[Claim]
    measure: Callable[[Runner], Findings]
    """Simulates, then judges every claim."""
    draw: Callable[[Findings], Figure]
    """Draws the figure from the findings."""
    choices: Sequence[Choice] = field(default=())
    networks: Sequence[str] = ("queued", "analytical", "packet")
    """Supported network models; the first is the one in its scenarios."""
    cases: Callable[[Runner], Sequence[Case]] | None = None
    """Lists the long runs, which are simulated in parallel before ``measure`` is called."""
    calibrated: str = ""
    """What its simulations were calibrated with; empty if they were not calibrated."""
    runs: bool = False
    """Whether part of it runs on the testbed."""

    @property
    def name(self) -> str:
        """Such as ``fig09``."""
        return self.folder.name

    @property
    def paper(self) -> str:
        """Such as ``astra2020``."""
        return self.folder.parent.name

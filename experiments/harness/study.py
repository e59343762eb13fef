"""Runs an experiment under all its choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.harness.runner import Runner
from experiments.harness.store import Store
from experiments.harness.table import Table
from experiments.harness.testbed import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from experiments.harness.claim import Verdict
    from experiments.harness.experiment import Experiment, Findings
    from experiments.harness.testbed import Bench


def _ignore_progress(_: float, __: str) -> None:
    """Ignores progress."""


@dataclass(frozen=True)
class Study:
    """An experiment and its outcome."""

    experiment: Experiment
    network: str
    """Network model of the runs that decide the verdicts."""
    compute: str
    """Compute model, as named in the results of the runs."""
    quick: bool
    """Whether it has fewer points and no other choices."""
    findings: Findings
    """Findings under the default settings."""
    sensitivity: Table | None
    """Verdicts that differ under other choices; ``None`` in a quick run or if there is no other choice."""

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """One for each claim."""
        return self.findings.verdicts

    @property
    def tables(self) -> Sequence[Table]:
        """All tables."""
        return [*self.findings.tables, *([self.sensitivity] if self.sensitivity else [])]

    @property
    def obtained(self) -> str:
        """Models and settings behind the numbers, in one line."""
        settings = "quick settings" if self.quick else "full settings"
        compute = f", compute {self.compute}" if self.compute else ""
        calibrated = f"calibrated: {self.experiment.calibrated}" if self.experiment.calibrated else "not calibrated"
        return f"Models: network {self.network}{compute}; {calibrated}; {settings}"


def study(
    experiment: Experiment,
    network: str | None = None,
    *,
    quick: bool = False,
    choices: bool = True,
    store: Store | None = None,
    bench: Bench | None = None,
    tell: Callable[[float, str], object] = _ignore_progress,
) -> Study:
    """Measures an experiment, with ``network`` instead of its own model if given; unless ``quick``, under every choice.

    ``bench`` supplies the testbed's measurements; without it, they come from the figure's record. Calls ``tell`` with
    the completed fraction, from 0 to 1, and what is being done.
    """
    store = Store() if store is None else store
    own = experiment.networks[0]

    def runner(changes: Mapping[str, Any] | Callable[[Path], Mapping[str, Any]]) -> Runner:
        choice = changes(store.place) if callable(changes) else changes
        model = network if network != own else None
        return Runner(model, quick=quick, choice=choice, store=store, bench=bench or Record(experiment.folder))

    others = experiment.choices if choices and not quick else ()
    usual, *under = runners = [runner(changes) for changes in ({}, *(choice.changes for choice in others))]
    if experiment.cases:
        stages = [sorted(experiment.cases(each), key=lambda case: -case.weight) for each in runners]
        store.results([case for stage in stages for case in stage], lambda done: tell(done, experiment.name))
    findings = experiment.measure(usual)
    sensitivity = None
    if others:
        title = "Verdicts under other readings of the paper; rows with the same measurement as above are omitted"
        sensitivity = Table("sensitivity", title, ("choice", "claim", "verdict", "measured"))
        for done, (choice, each) in enumerate(zip(others, under, strict=True), 1):
            tell(done / len(runners), f"{experiment.name}: {choice.name}")
            for known, verdict in zip(findings.verdicts, experiment.measure(each).verdicts, strict=True):
                if (verdict.holds, verdict.measured) != (known.holds, known.measured):
                    sensitivity.add(choice.name, verdict.claim.id, verdict.word, verdict.measured)
    return Study(experiment, network or own, ", ".join(usual.compute_models), quick, findings, sensitivity)

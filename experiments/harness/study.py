"""An experiment run under all its choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.harness.runner import Runner
from experiments.harness.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.harness.claim import Verdict
    from experiments.harness.experiment import Experiment, Findings


@dataclass(frozen=True)
class Study:
    """An experiment and what came out of it."""

    experiment: Experiment
    network: str
    """Network model that the verdicts are about."""
    compute: str
    """Compute model, as the results of the runs name it."""
    quick: bool
    """Whether it has fewer points, and no other choices."""
    findings: Findings
    """Under the settings that the experiment's page argues for."""
    sensitivity: Table | None
    """The verdicts under every other choice; none in a quick run and where there is no other choice."""

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
        """How the numbers were obtained."""
        settings = "quick settings" if self.quick else "full settings"
        return f"Obtained by: network {self.network}, compute {self.compute}, calibrated: no; {settings}"


def study(experiment: Experiment, network: str, *, quick: bool) -> Study:
    """Measures an experiment; unless quick, under every choice."""
    runner = Runner(network, quick=quick)
    findings = experiment.measure(runner)
    compute = ", ".join(runner.compute_models)
    sensitivity = None
    if experiment.choices and not quick:
        title = "Under other readings of what the paper leaves open; what is measured as above is left out"
        sensitivity = Table("sensitivity", title, ("choice", "claim", "verdict", "measured"))
        for choice in experiment.choices:
            others = experiment.measure(runner.under(choice.changes)).verdicts
            for usual, verdict in zip(findings.verdicts, others, strict=True):
                if (verdict.holds, verdict.measured) != (usual.holds, usual.measured):
                    sensitivity.add(choice.name, verdict.claim.id, verdict.word, verdict.measured)
    return Study(experiment, network, compute, quick, findings, sensitivity)

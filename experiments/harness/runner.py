"""Simulates scenarios under one set of settings; each case only once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.harness.case import Case
from experiments.harness.store import Store
from experiments.harness.testbed import Nothing

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.harness.testbed import Bench
    from syncline import Result

Changes = Mapping[str, Any]
"""Values that replace those of a scenario file, by key, as with ``--set``."""


class Runner:
    """Simulates scenario files with the changes of one command and one reading of the paper."""

    def __init__(
        self,
        network: str | None = None,
        *,
        quick: bool = False,
        choice: Changes | None = None,
        store: Store | None = None,
        bench: Bench | None = None,
    ) -> None:
        self.network = network
        """Network model that replaces the one in the scenario files; ``None`` keeps theirs."""
        self.quick = quick
        """Whether to measure fewer points."""
        self.store = Store() if store is None else store
        """Source of simulation results."""
        self.bench: Bench = Nothing() if bench is None else bench
        """Source of testbed measurements."""
        self._choice = dict(choice or {})
        self._cases: dict[str, Case] = {}
        self._compute: set[str] = set()

    def simulate(self, scenario: Path, changes: Changes | None = None, *, network: str | None = None) -> Result:
        """The result of a scenario file; for the arguments see :meth:`case`."""
        return self.result(self.case(scenario, changes, network=network))

    def result(self, case: Case) -> Result:
        """The result of a case."""
        result = self.store.result(case)
        self._compute.add(result.summary.compute_model)
        return result

    def case(
        self, scenario: Path, changes: Changes | None = None, *, network: str | None = None, weight: float = 1.0
    ) -> Case:
        """The case of a scenario file. ``changes`` overrides the choice; ``network`` overrides the runner's model.

        A choice names a key that only one of an experiment's scenarios has as ``FILE:KEY``.
        """
        merged: dict[str, Any] = {}
        for key, value in self._choice.items():
            file, _, rest = key.rpartition(":")
            if file in ("", scenario.stem):
                merged[rest] = value
        merged |= changes or {}
        if wanted := network or self.network:
            merged["network"] = wanted
        key = json.dumps([str(scenario), merged], sort_keys=True)
        if key not in self._cases:
            self._cases[key] = Case(scenario, {**merged, "report": False}, weight)
        return self._cases[key]

    @property
    def usual(self) -> bool:
        """Whether this is the experiment's default reading of the paper."""
        return not self._choice

    @property
    def compute_models(self) -> list[str]:
        """Compute models of the runs so far, without those that extend another one's name (``a, b`` beside ``a``)."""
        names = sorted(self._compute)
        return [name for name in names if not any(name.startswith(f"{other},") for other in names)]

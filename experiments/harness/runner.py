"""Simulates scenarios under the settings of a run, each once."""

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
"""Values that differ from a scenario file, by key: what ``--set`` takes."""


class Runner:
    """Simulates scenario files, changed by what the run and the experiment want."""

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
        """The network model in place of the one in the scenario files; ``None`` for that one."""
        self.quick = quick
        """Whether fewer points are enough."""
        self.store = Store() if store is None else store
        """Where results come from."""
        self.bench: Bench = Nothing() if bench is None else bench
        """Where measurements on the testbed come from."""
        self._choice = dict(choice or {})
        self._cases: dict[str, Case] = {}
        self._compute: set[str] = set()

    def simulate(self, scenario: Path, changes: Changes | None = None, *, network: str | None = None) -> Result:
        """The result of a scenario file; :meth:`case` says which."""
        return self.result(self.case(scenario, changes, network=network))

    def result(self, case: Case) -> Result:
        """The result of a case."""
        result = self.store.result(case)
        self._compute.add(result.summary.compute_model)
        return result

    def case(
        self, scenario: Path, changes: Changes | None = None, *, network: str | None = None, weight: float = 1.0
    ) -> Case:
        """A scenario file. ``changes`` wins over the choice, and ``network`` over the run's.

        A choice may name keys that only some of an experiment's scenarios have, each as ``FILE:KEY``.
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
        """Whether this is the experiment's own reading of the paper, and no other choice."""
        return not self._choice

    @property
    def compute_models(self) -> list[str]:
        """How compute times were obtained in the runs so far; one that only adds to another is not named by itself."""
        names = sorted(self._compute)
        return [name for name in names if not any(name.startswith(f"{other},") for other in names)]

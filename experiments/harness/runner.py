"""Simulates scenarios under the settings of a run, each once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import syncline
from syncline import Result

if TYPE_CHECKING:
    from pathlib import Path

Changes = Mapping[str, Any]
"""Values that differ from a scenario file, by key: what ``--set`` takes."""


class Runner:
    """Simulates scenario files, changed by what the run and the experiment want."""

    def __init__(self, network: str, *, quick: bool = False, choice: Changes | None = None) -> None:
        self.network = network
        """The network model that verdicts are about."""
        self.quick = quick
        """Whether fewer points are enough."""
        self._choice = dict(choice or {})
        self._known: dict[str, Result] = {}

    def under(self, choice: Changes) -> Runner:
        """The same settings, and another choice of what the paper leaves open."""
        other = Runner(self.network, quick=self.quick, choice=choice)
        other._known = self._known
        return other

    def simulate(self, scenario: Path, changes: Changes | None = None, *, network: str | None = None) -> Result:
        """The result of a scenario file. ``changes`` wins over the choice, and ``network`` over the run's.

        A choice may name keys that only some of an experiment's scenarios have, each as ``FILE:KEY``.
        """
        merged: dict[str, Any] = {}
        for key, value in self._choice.items():
            file, _, rest = key.rpartition(":")
            if file in ("", scenario.stem):
                merged[rest] = value
        merged |= changes or {}
        merged["network"] = network or self.network
        key = json.dumps([str(scenario), merged], sort_keys=True)
        if key not in self._known:
            self._known[key] = syncline.simulate(scenario, set=merged)
        return self._known[key]

    @property
    def compute_models(self) -> list[str]:
        """How compute times were obtained in the runs so far; one that only adds to another is not named by itself."""
        names = sorted({result.summary.compute_model for result in self._known.values()})
        return [name for name in names if not any(name.startswith(f"{other},") for other in names)]

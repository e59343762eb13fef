"""What is simulated: a scenario file with some other values, and a name by which its results are found again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import syncline
from syncline import _core, api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.config.load import Loaded


@dataclass(frozen=True)
class Case:
    """A scenario file with other values, by key: what ``--set`` takes."""

    scenario: Path
    changes: Mapping[str, Any]
    weight: float = 1.0
    """About how long it takes, beside others in the same unit: for the time that is left, and what goes first."""

    @cached_property
    def loaded(self) -> Loaded:
        """Read, checked and resolved."""
        return api.prepare(self.scenario, self.changes, {})

    @cached_property
    def name(self) -> str:
        """The same for two cases if the same version and build would simulate the same."""
        resolved = self.loaded.resolved
        said = json.dumps([syncline.__version__, _build(), resolved, _contents(resolved)], sort_keys=True)
        return f"{self.loaded.name}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


@cache
def _build() -> str:
    """What tells builds of one version apart."""
    return hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()


def _contents(resolved: Mapping[str, Any]) -> list[str]:
    """Hashes of the files that a resolved scenario names."""
    named = [*resolved["collectives"]["plans"].values()]
    workload = resolved["workload"]
    named += [workload[key] for key in ("file", "groups") if isinstance(workload.get(key), str)]
    if isinstance(prefix := workload.get("prefix"), str):
        named += sorted(str(each) for each in Path(prefix).parent.glob(f"{Path(prefix).name}.*"))
    return [hashlib.sha256(Path(each).read_bytes()).hexdigest() for each in named]

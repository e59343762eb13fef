"""One simulation: a scenario file with some values changed, and the name under which its results are stored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import syncline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline import Loaded


@dataclass(frozen=True)
class Case:
    """A scenario file with some values changed, by key, as with ``--set``."""

    scenario: Path
    changes: Mapping[str, Any]
    weight: float = 1.0
    """Estimated run time relative to other cases: used for progress, and to start the longest cases first."""

    @cached_property
    def loaded(self) -> Loaded:
        """The scenario after reading, checking and resolving."""
        return syncline.load(self.scenario, set=self.changes)

    @cached_property
    def name(self) -> str:
        """Name of the results: equal for two cases if and only if version, build and resolved input are equal."""
        resolved = self.loaded.resolved
        said = json.dumps([syncline.__version__, syncline.__build__, resolved, _contents(resolved)], sort_keys=True)
        return f"{self.loaded.name}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _contents(resolved: Mapping[str, Any]) -> list[str]:
    """Hashes of the files that a resolved scenario names."""
    named = [*resolved["collectives"]["plans"].values()]
    workload = resolved["workload"]
    named += [workload[key] for key in ("file", "groups") if isinstance(workload.get(key), str)]
    if isinstance(prefix := workload.get("prefix"), str):
        named += sorted(str(each) for each in Path(prefix).parent.glob(f"{Path(prefix).name}.*"))
    return [hashlib.sha256(Path(each).read_bytes()).hexdigest() for each in named]

"""Runs that the tests of the report share, and tables that no small run has."""

from __future__ import annotations

import json
from typing import Any

import syncline
from tests.conftest import ROOT

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
"""A name that would do something in a page that does not escape it."""

SMALL: dict[str, Any] = {
    "name": HOSTILE,
    "workload": {
        "iterations": 2,
        "layers": [
            {
                "name": name,
                "forward": "20us",
                "input_grad": "10us",
                "weight_grad": "10us",
                "communication": {"weight_grad": {"collective": "all_reduce", "bytes": "1MB"}},
            }
            for name in (HOSTILE, "$second ${name}", "third & <b>last</b>")
        ],
    },
    "compute": "given",
    "fabric": {"shape": "Ring(4)_Switch(2)", "rate": "25GB/s", "latency": "1us"},
    "network": "queued",
}
"""Three layers with awkward names."""


def resnet() -> syncline.Result:
    """The example that the documentation shows."""
    return syncline.simulate(ROOT / "examples" / "resnet50-torus" / "scenario.yaml")


class WithMore:
    """A run with more tables than it left."""

    def __init__(self, result: syncline.Result, more: dict[str, dict[str, list[Any]]]) -> None:
        self._inner, self._more = result._tables, more

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def tables(self) -> list[tuple[str, str]]:
        return [*self._inner.tables(), *((name, "") for name in self._more)]

    def table(self, name: str) -> Any:
        if name in self._more:
            return [(column, "", values) for column, values in self._more[name].items()]
        return self._inner.table(name)


def with_moments(result: syncline.Result) -> syncline.Result:
    """The run with its activity over time and a critical path."""
    whole = result.summary.total_time_s
    bins = 200
    names = ["compute", *(dim.name for dim in result.summary.dims)]
    activity: dict[str, list[Any]] = {
        "dimension": [name for name in names for _ in range(bins)],
        "start_s": [whole * at / bins for _ in names for at in range(bins)],
        "end_s": [whole * (at + 1) / bins for _ in names for at in range(bins)],
        "utilization": [(lane * 7 + at * at) % 50 / 100 for lane, _ in enumerate(names) for at in range(bins)],
        "busiest_utilization": [
            0.0 if lane == 0 else (lane * 7 + at * at) % 50 / 60 for lane, _ in enumerate(names) for at in range(bins)
        ],
    }
    kinds = ["compute", "compute", "communication", "wait"]
    path: dict[str, list[Any]] = {
        "start_s": [whole * at / 40 for at in range(40)],
        "end_s": [whole * (at + 1) / 40 for at in range(40)],
        "rank": [at % 4 for at in range(40)],
        "kind": [kinds[at % 4] for at in range(40)],
        "layer": [f"layer{at % 5}" for at in range(40)],
        "part": ["forward"] * 40,
        "what": ["task"] * 40,
        "dimension": [names[1] if at % 4 == 2 else "" for at in range(40)],
    }
    more = {"activity": activity, "critical_path": path}
    return syncline.Result(WithMore(result, more), result.scenario)


def embedded(page: str) -> dict[str, Any]:
    """The data that a page holds."""
    begin = page.index('id="data">') + len('id="data">')
    found: dict[str, Any] = json.loads(page[begin : page.index("</script>", begin)])
    return found

"""Runs that the tests of the report share."""

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


def embedded(page: str) -> dict[str, Any]:
    """The data that a page holds."""
    begin = page.index('id="data">') + len('id="data">')
    found: dict[str, Any] = json.loads(page[begin : page.index("</script>", begin)])
    return found

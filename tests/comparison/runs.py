"""Runs that the tests of comparisons share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import syncline

LAYERS = [
    {
        "name": name,
        "forward": "20us",
        "weight_grad": "10us",
        "exchanges": [
            {"when": "after_forward", "axis": "tensor", "collective": "all_gather", "bytes": size},
            {"when": "after_weight_grad", "axis": "data", "collective": "all_reduce", "bytes": "1MB"},
        ],
    }
    for name, size in (("first", "1MB"), ("second", "4MB"), ("third", "1kB"))
]

JOB: dict[str, Any] = {
    "name": "job",
    "workload": {"layers": LAYERS, "iterations": 2, "parallel": {"tensor": ["ring"], "data": ["cluster"]}},
    "compute": "given",
    "fabric": {
        "dims": [
            {"name": "ring", "shape": "ring", "size": 4, "rate": "25GB/s", "latency": "1us"},
            {"name": "cluster", "shape": "switch", "size": 2, "rate": "200Gb/s", "latency": "1us"},
        ]
    },
    "network": "queued",
}
"""Three layers with activations gathered in a ring and gradients reduced over a switch."""


@cache
def job(**changed: Any) -> syncline.Result:
    """Simulates the job with changed values of its scenario; ``__`` in a keyword stands for a dot."""
    return syncline.simulate(JOB, set={key.replace("__", "."): value for key, value in changed.items()})


@cache
def alone(rate: str = "25GB/s") -> syncline.Result:
    """Simulates a job of one collective, without compute."""
    fabric = {"shape": "Ring(4)_Switch(2)", "rate": rate, "latency": "1us"}
    return syncline.simulate(workload={"collective": "all_reduce", "bytes": "4MB"}, fabric=fabric, name="alone")


def kept(result: syncline.Result, folder: Path) -> None:
    """Saves a copy of a run into a folder; the shared run itself stays without a folder."""
    syncline.Result(result._tables, result.scenario).save(folder)

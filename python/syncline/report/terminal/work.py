"""The work of each layer, as ``show workload`` lists it."""

from __future__ import annotations

from typing import Any

from syncline import _core
from syncline.input.words import PASSES


def work(workload: dict[str, Any], view: dict[str, Any]) -> list[dict[str, Any]]:
    """FLOP, memory traffic and parameters of each layer, and the compute time of one rank of the first class.

    The first three are those of the whole layer for the samples that one NPU works on at a time, before tensor
    parallelism divides it. The time is that of an iteration; None if not all tasks are listed, or ranks differ. The
    list is empty for workloads without layers.
    """
    first: dict[str, Any] = next(iter(view["classes"]), {"tasks": 0, "listed": ()})
    whole = len(first["listed"]) == first["tasks"] and len(view["classes"]) == 1
    seconds: dict[str, float] = {}
    for task in first["listed"] if whole else ():
        if task["what"] == "compute":
            seconds[task["layer"]] = seconds.get(task["layer"], 0.0) + task["duration_s"] * task.get("times", 1)
    return [
        {
            "layer": layer["name"],
            "flop": _sum(layer, "flop", "flops"),
            "memory_bytes": _sum(layer, "memory", "bytes"),
            "parameters": layer.get("parameters") or 0,
            "compute_s": seconds.get(layer["name"], 0.0) if whole else None,
        }
        for layer in workload.get("layers", ())
    ]


def _sum(layer: dict[str, Any], key: str, kind: str) -> int:
    """The sum over all passes; passes that are given as times count as 0."""
    given = (layer.get(each) for each in PASSES)
    operations = (each["ops"] for each in given if isinstance(each, dict) and "ops" in each)
    return sum(_core.parse_quantity(kind, each[key]) for each in operations)

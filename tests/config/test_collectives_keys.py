"""No key of ``collectives`` is accepted and ignored: each has a scenario in which it changes the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline.config.collectives import Collectives, JobCollectives

LARGE = [{"collective": "all_reduce", "bytes": "1MiB"}]
SEVERAL = [{"collective": "all_reduce", "bytes": "256KiB"}, {"collective": "all_to_all", "bytes": "64KiB"}] * 2
GRID = {"shape": "Ring(4)_Switch(4)", "rate": ["100GB/s", "25GB/s"], "latency": "500ns"}
ONE = {"shape": "Switch(6)", "rate": "50GB/s", "latency": "500ns"}
LAYERS = [
    {"name": name, "forward": "20us", "input_grad": "5us", "weight_grad": "5us", "parameters": size}
    for name, size in (("a", 200_000), ("b", 900_000), ("c", 300_000))
]

# Of each key: a value, what else is set, and the job and fabric in which it makes a difference.
CASES: dict[str, tuple[Any, dict[str, Any], Any, Any]] = {
    "all_reduce": ("baseline", {}, LARGE, GRID),
    "algorithms": ({"default": {"all_reduce": "tree"}}, {}, LARGE, ONE),
    "logical": ([2, 8], {}, LARGE, GRID),
    "chunks": (3, {}, LARGE, ONE),
    "chunks_of": ({"all_reduce": 2}, {}, LARGE, ONE),
    "min_chunk": ("512KiB", {}, LARGE, ONE),
    "element": ("4KiB", {}, LARGE, ONE),
    "order": ("lifo", {"chunks": 8}, LAYERS, ONE),
    "issue_threshold": (1, {"issue_batch": 1, "chunks": 32}, LARGE, GRID),
    "issue_batch": (1, {"issue_threshold": 1, "chunks": 32}, LARGE, GRID),
    "queues": (1, {"algorithms": {"default": {"all_reduce": "ring"}}}, LARGE, {"shape": "Ring(4)", "rate": "50GB/s"}),
    "active_chunks": (1, {"chunks": 32}, LARGE, GRID),
    "outstanding": (1, {"chunks": 32}, LARGE, GRID),
    "concurrent": (1, {"chunks": 8}, LAYERS, ONE),
    "endpoint_delay": ("1us", {}, LARGE, ONE),
    "injection_latency": ("1us", {}, LARGE, ONE),
    "reduction_rate": ("10GB/s", {}, LARGE, ONE),
}


def outcome(job: Any, fabric: Any, settings: dict[str, Any]) -> tuple[float, int]:
    """Time and messages of a scenario: what the endpoints do shows in one of them."""
    if job is LAYERS:
        workload: dict[str, Any] = {"layers": LAYERS, "iterations": 2}
    else:
        workload = {"collectives": job}
    result = syncline.simulate(workload=workload, fabric=fabric, collectives=settings)
    return result.summary.total_time_s, result.summary.messages


@pytest.mark.parametrize("key", [key for key in Collectives.model_fields if key != "plans"])
def test_every_key_changes_a_result(key: str) -> None:
    value, others, job, fabric = CASES[key]
    assert outcome(job, fabric, others | {key: value}) != outcome(job, fabric, others)


def test_own_plans_change_a_result() -> None:
    plan = Path(__file__).parents[2] / "examples" / "custom-plan" / "plan.json"
    fabric = {"shape": "Switch(4)", "rate": "50GB/s", "latency": "500ns"}
    own = outcome(LARGE, fabric, {"plans": {"all_reduce": str(plan)}})
    assert own != outcome(LARGE, fabric, {})


@pytest.mark.parametrize("key", [key for key in JobCollectives.model_fields if key != "plans"])
def test_every_key_of_one_of_several_jobs_changes_a_result(key: str) -> None:
    value, others, job, fabric = CASES[key]

    def run(settings: dict[str, Any]) -> float:
        jobs = [{"name": "alone", "workload": {"collectives": job}, "collectives": settings}]
        return syncline.simulate(jobs=jobs, fabric=fabric).summary.total_time_s

    assert run(others | {key: value}) != run(others)

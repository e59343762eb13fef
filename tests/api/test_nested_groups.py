"""Where groups of one mesh are parts of those of another, few ranks represent all, with the same results."""

from __future__ import annotations

from typing import Any

import pytest

import syncline

FABRICS: dict[str, dict[str, Any]] = {
    "dimensions": {
        "dims": [
            {"name": "node", "shape": "switch", "size": 4, "rate": "100GB/s", "latency": "100ns"},
            {"name": "rail", "shape": "switch", "size": 16, "rate": "50GB/s", "latency": "1us"},
        ]
    },
    "leaves": {
        "leaf_spine": {
            "leaves": 4,
            "hosts_per_leaf": 16,
            "spines": 2,
            "rate": "50GB/s",
            "cables": 1,
            "latency": "1us",
        },
        "nodes": {"npus": 4, "rate": "100GB/s", "latency": "100ns", "nics": 4, "rails": True},
    },
}


def scenario(fabric: str, **more: Any) -> dict[str, Any]:
    """64 copies of a dense layer, and experts among 8 and 32 of these ranks."""

    def exchange(when: str, axis: str, collective: str) -> dict[str, Any]:
        return {"when": when, "axis": axis, "collective": collective, "bytes": "16MiB"}

    def mesh(name: str, expert: int) -> dict[str, Any]:
        return {name: {"tensor": 1, "axes": {"expert": expert}, "data": "rest"}}

    dense = {"name": "dense", "forward": "1ms", "input_grad": "1ms", "weight_grad": "1ms", "parameters": 0}

    def experts(name: str) -> dict[str, Any]:
        moments = ("before_forward", "after_forward", "before_backward", "after_input_grad")
        tokens = [exchange(when, "expert", "all_to_all") for when in moments]
        return {
            **dense,
            "name": name,
            "mesh": name,
            "exchanges": [*tokens, exchange("after_weight_grad", "data", "all_reduce")],
        }

    return {
        "workload": {
            "layers": [
                {**dense, "exchanges": [exchange("after_weight_grad", "data", "all_reduce")]},
                experts("few"),
                experts("many"),
            ],
            "parallel": {"tensor": 1, "data": "rest", "meshes": {**mesh("few", 8), **mesh("many", 32)}},
            "batch_per_npu": 1,
        },
        "fabric": FABRICS[fabric],
        "report": False,
        **more,
    }


@pytest.mark.parametrize("network", ["analytical", "queued", "flow"])
@pytest.mark.parametrize("fabric", FABRICS)
def test_few_ranks_represent_all(fabric: str, network: str) -> None:
    few = syncline.simulate(scenario(fabric, network=network))
    each = syncline.simulate(scenario(fabric, network=network, symmetry=False))
    assert each.summary.simulated_ranks == 64
    assert few.summary.simulated_ranks <= 32
    assert few.summary.step_time_s == pytest.approx(each.summary.step_time_s, rel=0 if network != "flow" else 1e-9)
    assert (few.summary.messages, few.summary.bytes) == (each.summary.messages, each.summary.bytes)
    durations = [sorted(zip(*(run.table("collectives")[name] for name in NAMES), strict=True)) for run in (few, each)]
    for one, other in zip(*durations, strict=True):
        assert one[:-1] == other[:-1]
        assert one[-1] == pytest.approx(other[-1], rel=1e-9)


NAMES = ("layer", "part", "kind", "group", "mean_duration_s")

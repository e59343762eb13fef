"""Waits of ranks by axis, compared with the times of that axis's collectives."""

from collections import defaultdict

import pytest

import syncline

SCENARIO = {
    "schema": "syncline/1",
    "workload": {
        "model": "gpt3_175b",
        "layers": 4,
        "sequence": 512,
        "batch_per_npu": 1,
        "micro_batches": 4,
        "parallel": {"tensor": 4, "data": 2, "pipeline": 2, "zero": 3, "sequence": True},
    },
    "compute": {"model": "roofline", "accelerator": "H100", "efficiency": 0.5},
    "fabric": {"shape": "Switch(4)_Switch(4)", "rate": ["450GB/s", "2GB/s"], "latency": ["0.5us", "2us"]},
}


def taken(result: syncline.Result) -> dict[str, float]:
    """Time of the collectives of each axis in seconds, from issue to result, mean over ranks."""
    sums: dict[str, float] = defaultdict(float)
    table = result.table("collectives")
    rows = zip(table["group"], table["group_ranks"], table["groups"], table["mean_duration_s"], strict=True)
    for group, ranks, groups, duration in rows:
        sums[group.split(".")[0]] += duration * ranks * groups / result.summary.ranks
    return sums


@pytest.mark.parametrize("network", ["analytical", "queued", "flow"])
@pytest.mark.parametrize("zero", [1, 3])
def test_the_wait_for_an_axis_is_not_longer_than_its_collectives(network: str, zero: int) -> None:
    """In ZeRO 3, a tensor-parallel gather begins once parameters have arrived: that wait counts for the data axis."""
    result = syncline.simulate(SCENARIO, set={"network": network, "workload.parallel.zero": zero})
    summary = result.summary
    exposed = {axis.name: axis.exposed_communication_s for axis in summary.exposed_by_axis}
    assert sum(exposed.values()) == pytest.approx(summary.exposed_communication_s, rel=1e-9)
    limits = taken(result)
    for axis in ("tensor", "data"):
        assert exposed[axis] <= limits[axis] * (1 + 1e-9)
    if zero == 3:
        # Parameters are gathered at 2 GB/s, so nearly all of the wait is for them. Little compute hides tensor
        # parallelism, so the wait for it is nearly as long as its collectives.
        assert exposed["data"] > 5 * exposed["tensor"]
        assert exposed["tensor"] > 0.8 * limits["tensor"]

"""What ranks wait for, by axis, against what the collectives of that axis take."""

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
        "parallel": {"model": 4, "data": 2, "pipeline": 2, "zero": 3, "sequence": True},
    },
    "compute": {"model": "roofline", "accelerator": "H100", "efficiency": 0.5},
    "fabric": {"shape": "Switch(4)_Switch(4)", "rate": ["450GB/s", "2GB/s"], "latency": ["0.5us", "2us"]},
}


def taken(result: syncline.Result) -> dict[str, float]:
    """Seconds that the collectives of each axis take, from issue to result, at the mean rank."""
    sums: dict[str, float] = defaultdict(float)
    table = result.table("collectives")
    rows = zip(table["group"], table["group_ranks"], table["groups"], table["mean_duration_s"], strict=True)
    for group, ranks, groups, duration in rows:
        sums[group.split(".")[0]] += duration * ranks * groups / result.summary.ranks
    return sums


@pytest.mark.parametrize("network", ["analytical", "queued", "flow"])
@pytest.mark.parametrize("zero", [1, 3])
def test_no_axis_is_waited_for_longer_than_its_collectives_take(network: str, zero: int) -> None:
    """In ZeRO 3, a tensor-parallel gather begins when the parameters are there: what they take is data's."""
    result = syncline.simulate(SCENARIO, set={"network": network, "workload.parallel.zero": zero})
    summary = result.summary
    exposed = {axis.name: axis.exposed_communication_s for axis in summary.exposed_by_axis}
    assert sum(exposed.values()) == pytest.approx(summary.exposed_communication_s, rel=1e-9)
    limits = taken(result)
    for axis in ("model", "data"):
        assert exposed[axis] <= limits[axis] * (1 + 1e-9)
    if zero == 3:
        # Parameters are gathered at 2 GB/s: nearly all of the waiting is for them, and tensor parallelism, which little
        # hides, is waited for nearly as long as it takes.
        assert exposed["data"] > 5 * exposed["model"]
        assert exposed["model"] > 0.8 * limits["model"]

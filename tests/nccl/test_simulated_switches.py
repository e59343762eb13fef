"""Simulations with a framework's all-reduces, and with SHARP in switches, take times that follow by hand."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest

import syncline
from syncline.errors import SynclineError
from syncline.nccl import shots
from syncline.nccl.rows import read
from syncline.report.html.page import report

ROWS = read([Path(__file__).parents[2] / "validation" / "collectives" / "shots" / "shots.csv.gz"])
"""Measured all-reduces of frameworks."""
NODE = {"name": "nvlink", "shape": "switch", "size": 8, "rate_per_npu": "450GB/s", "latency": "100ns"}


def rail(nodes: int) -> dict[str, Any]:
    return {"name": "rail", "shape": "switch", "size": nodes, "rate_per_npu": "400Gb/s", "latency": "100ns"}


def scenario(nbytes: int, *dims: dict[str, Any], collective: str = "all_reduce", **collectives: Any) -> dict[str, Any]:
    return {
        "workload": {"collective": collective, "bytes": f"{nbytes}B"},
        "fabric": {"dims": list(dims or (NODE,))},
        "collectives": {"nccl": "h100-sxm", "element": "2B", **collectives},
        "report": False,
    }


def chosen(result: syncline.Result) -> tuple[str, str]:
    found = result.table("collectives")
    return found["nccl_algorithm"][0], found["nccl_protocol"][0]


def problem(wrong: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(SynclineError) as caught:
        syncline.simulate(wrong)
    found: dict[str, Any] = dict(caught.value.diagnostics[0])
    return found


def by_hand(kernels: shots.Shots, gpus: int, nbytes: int) -> tuple[str, float]:
    """One shot reads the vectors of all others, two shots read 2 (g - 1) / g vectors: microseconds."""

    def us(text: str) -> float:
        return float(text.removesuffix("us"))

    def per_us(text: str) -> float:
        return float(text.removesuffix("GB/s")) * 1e3

    one = us(kernels.one_launch) + nbytes * (gpus - 1) / per_us(kernels.one_rate)
    two = us(kernels.two_launch) + nbytes * 2 * (gpus - 1) / gpus / per_us(kernels.two_rate)
    return ("one_shot", one) if gpus == 2 or one <= two else ("two_shots", two)


@pytest.mark.parametrize("framework", ["vLLM", "SGLang", "TensorRT-LLM"])
@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_small_all_reduces_take_the_time_of_the_framework(framework: str, gpus: int) -> None:
    kernels = shots.find("h100-sxm", framework)
    for nbytes in (256, 16 << 10, 1 << 20, 8 << 20):
        found = syncline.simulate(scenario(nbytes, {**NODE, "size": gpus}, custom_all_reduce=framework))
        algorithm, expected = by_hand(kernels, gpus, nbytes)
        assert found.summary.step_time_s * 1e6 == pytest.approx(expected, rel=1e-3), nbytes
        assert chosen(found) == (algorithm, "")


def test_simulated_all_reduces_of_frameworks_are_near_the_measured_ones() -> None:
    rows = [row for row in ROWS if (row.system, row.software) == ("h100-sxm", "vLLM 0.24.0")]
    errors = []
    for row in rows:
        given = scenario(row.bytes, {**NODE, "size": row.gpus}, custom_all_reduce="vLLM 0.24.0")
        errors.append(abs(syncline.simulate(given).summary.step_time_s / row.seconds - 1))
    assert len(errors) >= 10
    assert median(errors) < 0.08


def test_the_framework_leaves_other_all_reduces_to_nccl() -> None:
    for nbytes, dims in (((8 << 20) + 8, (NODE,)), (1 << 20, (NODE, rail(2)))):
        found = syncline.simulate(scenario(nbytes, *dims, custom_all_reduce="vLLM"))
        assert found.summary.step_time_s == syncline.simulate(scenario(nbytes, *dims)).summary.step_time_s
        [warning] = [each for each in found.warnings if each["key"] == "collectives.custom_all_reduce"]
        assert warning["message"] == "no all-reduce of the job is carried out by vLLM 0.24.0"
    gathers = scenario(1 << 20, collective="all_gather", custom_all_reduce="vLLM")
    assert chosen(syncline.simulate(gathers))[0] == "ring"


def test_links_carry_each_vector_to_all_others_in_one_shot() -> None:
    for nbytes, factor in ((4096, 7), (8 << 20, 7 / 4)):
        found = syncline.simulate(scenario(nbytes, custom_all_reduce="vLLM")).table("links")
        assert max(found["carried_bytes"]) == pytest.approx(nbytes * factor, rel=0.01)


def test_results_say_which_kernels_carry_out_all_reduces() -> None:
    found = syncline.simulate(scenario(1 << 20, custom_all_reduce="vLLM"))
    errors = shots.find("h100-sxm", "vLLM").errors
    said = f"small all-reduces by vLLM 0.24.0, errors median {100 * errors.median:.1f} %, 90th percentile "
    assert said in found.summary.calibrated
    assert "two_shots" in str(found)
    assert "<td>two_shots</td>" in report(found).decode()


def test_frameworks_are_those_that_were_measured() -> None:
    unknown = problem(scenario(1024, custom_all_reduce="vLMM"))
    assert unknown["key"] == "collectives.custom_all_reduce"
    assert unknown["found"] == "vLMM" and "vLLM 0.24.0" in unknown["allowed"]
    without = scenario(1024, custom_all_reduce="vLLM")
    del without["collectives"]["nccl"]
    assert problem(without)["message"] == "needs `nccl`"
    other = scenario(1024, {**NODE, "size": 4}, nccl="gh200-alps", custom_all_reduce="vLLM")
    assert "custom all-reduces were not measured on NVIDIA GH200" in problem(other)["message"]


def direct_us(nbytes: int) -> float:
    """CollNetDirect of NCCL's tuning model on nodes of 8 H100 with an interface each, 92 % of 50 GB/s."""
    return 2 * (3.7 + 7 * 0.4) + 31 + nbytes / (8 * 50e3 * 0.92 * 0.5 * 0.85)


@pytest.mark.parametrize("nodes", [4, 64])
def test_switches_sum_in_the_time_of_the_tuning_model(nodes: int) -> None:
    nbytes = 1 << 20
    # NVLS, measured in a node, with 18 us between nodes, is the quickest where it is allowed; it needs 2-byte elements.
    found = syncline.simulate(scenario(nbytes, NODE, rail(nodes), sharp=True))
    plain = syncline.simulate(scenario(nbytes, NODE, rail(nodes)))
    assert found.summary.step_time_s < plain.summary.step_time_s
    assert chosen(found) == ("collnet_direct", "Simple")
    assert found.summary.step_time_s * 1e6 == pytest.approx(direct_us(nbytes), rel=1e-3)
    assert found.summary.calibrated.endswith("SHARP by NCCL's tuning model, not measured")


def test_a_node_sends_the_vector_once_to_switches_that_sum() -> None:
    nbytes = 1 << 20
    found = syncline.simulate(scenario(nbytes, NODE, rail(16), sharp=True)).table("links")
    # An eighth of the vector leaves over the interface of each GPU.
    rails = [
        carried for name, carried in zip(found["dimension"], found["carried_bytes"], strict=True) if name == "rail"
    ]
    assert max(rails) == pytest.approx(nbytes / 8, rel=0.01)


def test_sharp_needs_a_network_between_nodes() -> None:
    without = scenario(1024, sharp=True)
    del without["collectives"]["nccl"]
    assert problem(without)["message"] == "needs `nccl`"
    found = problem(scenario(1024, nccl="h100-sxm-2.23", sharp=True))
    assert found["key"] == "collectives.sharp"
    assert found["message"] == "`h100-sxm-2.23` has no constants for a network between nodes"

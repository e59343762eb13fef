"""The compute model ``measured``: tasks take the times of their kernels."""

from __future__ import annotations

from typing import Any

import pytest

import syncline
from syncline import SynclineError, kernels

FABRIC = {"dims": [{"name": "d", "shape": "switch", "size": 2, "rate": "100GB/s", "latency": "1us"}]}


def simulated(workload: dict[str, Any], accelerator: str = "H100") -> Any:
    """The result of a job of two NPUs."""
    compute = {"model": "measured", "accelerator": accelerator}
    return syncline.simulate({"schema": "syncline/1", "fabric": FABRIC, "workload": workload, "compute": compute})


def decoder(**more: Any) -> dict[str, Any]:
    """A small decoder."""
    sizes = {"layers": 2, "hidden": 1024, "heads": 8, "sequence": 1024, "vocabulary": 32000, "batch_per_npu": 2}
    return {"model": "decoder", "precision": "bf16", **sizes, **more}


def test_a_layer_takes_the_times_of_its_kernels() -> None:
    products = [{"m": 4096, "k": 1024, "n": 2048, "memory": "28MB"}, {"m": 4096, "k": 2048, "n": 512, "memory": "23MB"}]
    layers = [{"name": "only", "forward": {"products": products, "memory": "61MB"}, "parameters": 1000}]
    found = simulated({"layers": layers, "batch_per_npu": 1, "precision": "bf16"}).summary.compute_s
    h100 = kernels.load("H100")
    expected = h100.gemm(4096, 2048, 1024).seconds + h100.gemm(4096, 512, 2048).seconds
    # 10 MB are left beside the products.
    expected += h100.memory_bound(10_000_000).seconds
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_faster_memory_shortens_what_moves_bytes_alone() -> None:
    h100, h200 = (simulated(decoder(), each).summary.compute_s for each in ("H100", "H200"))
    ratio = kernels.load("H200").memory_ratio
    assert 1.02 < h100 / h200 < ratio


def test_a_job_never_beats_the_roofline() -> None:
    measured = simulated(decoder()).summary.compute_s
    roofline = syncline.simulate(
        {
            "schema": "syncline/1",
            "fabric": FABRIC,
            "workload": decoder(),
            "compute": {"model": "roofline", "accelerator": "H100"},
        }
    ).summary.compute_s
    # Small layers are dominated by launches.
    assert roofline < measured < 4 * roofline


def test_fp8_is_faster_than_bf16_but_not_twice_as_fast() -> None:
    # Wide layers: attention, norms and losses stay in bf16, and activations are converted.
    wide = {"hidden": 8192, "heads": 64, "sequence": 2048, "positions": 2048, "batch_per_npu": 4}
    bf16, fp8 = (simulated(decoder(precision=each, **wide)).summary.compute_s for each in ("bf16", "fp8"))
    assert 1.2 < bf16 / fp8 < 2


def test_a_type_that_was_not_measured_is_refused_at_its_place() -> None:
    with pytest.raises(SynclineError) as refused:
        simulated(decoder(precision="fp32"))
    [problem] = refused.value.diagnostics
    assert (problem["key"], problem["found"], problem["allowed"]) == ("workload.precision", "fp32", "bf16, fp8")


def test_an_accelerator_without_models_is_refused_at_its_place() -> None:
    with pytest.raises(SynclineError) as refused:
        simulated(decoder(), "V100")
    assert refused.value.diagnostics[0]["key"] == "compute.accelerator"


def test_a_file_of_models_may_be_named(tmp_path: Any) -> None:
    path = tmp_path / "own.json"
    path.write_text(kernels.load("A100").text)
    own, shipped = (simulated(decoder(), each).summary.step_time_s for each in (str(path), "A100"))
    assert own == shipped

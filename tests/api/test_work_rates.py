"""Samples, tokens and FLOP per second, MFU and HFU, compared with formulas of published papers."""

import json

import pytest

import syncline
from syncline import _core
from syncline.config.load import load
from syncline.errors import SynclineError

PEAK = 312e12


def job(**workload):
    return {
        "workload": {"model": "decoder", "dropout": False, **workload},
        "compute": {"model": "roofline", "peak": "312TFLOP/s", "memory": "1EB/s"},
        "fabric": {"shape": "Switch(8)", "rate": "1TB/s", "latency": "0s"},
    }


def summary(**workload):
    return syncline.simulate(job(**workload)).summary


def test_operations_match_narayanan_2021():
    """Narayanan et al. 2021, equation 3: 96 B s l h^2 (1 + s / 6h + V / 16lh), which computes the forward pass
    twice."""
    sizes = {"layers": 4, "hidden": 1024, "heads": 16, "sequence": 512, "positions": 512, "vocabulary": 51_200}
    (n, h, s, v, batch) = (4, 1024, 512, 51_200, 64)
    common = {**sizes, "batch_per_npu": 2, "global_batch": batch, "attention": "unfused"}
    found = summary(**common, parallel={"tensor": 2})
    flop = 72 * batch * s * n * h * h + 12 * batch * s * s * n * h + 6 * batch * s * h * v
    masked = 6 * batch * s * s * n * h
    assert found.samples_per_step == batch
    assert found.tokens_per_step == batch * s
    assert found.samples_per_s == pytest.approx(batch / found.step_time_s)
    assert found.tokens_per_s == pytest.approx(batch * s / found.step_time_s)
    # Causal attention needs half of the scores; equation 3 counts all of them.
    assert found.model_tflop_per_s_per_npu == pytest.approx((flop - masked) / found.step_time_s / 8 / 1e12)
    assert found.mfu == pytest.approx((flop - masked) / found.step_time_s / 8 / PEAK)
    assert found.mfu_unmasked == pytest.approx(flop / found.step_time_s / 8 / PEAK)
    # All scores are computed, and nothing is recomputed.
    assert found.hfu == pytest.approx(found.mfu_unmasked)
    full = summary(**common, parallel={"tensor": 2, "recompute": "full"})
    # Blocks are recomputed. The projection is not in a block, so it is not (the equation's 96 V / 16 is also 6).
    assert full.hfu * full.step_time_s * 8 * PEAK == pytest.approx(
        96 * batch * s * n * h * h * (1 + s / (6 * h) + v / (16 * n * h))
    )
    assert full.mfu * full.step_time_s == pytest.approx(found.mfu * found.step_time_s)


def test_a_token_costs_six_operations_per_parameter():
    """PaLM (Chowdhery et al. 2022, appendix B): 6 N + 12 L H Q T for each token, with all scores."""
    bare = {"attention_bias": False, "output_bias": False, "mlp_bias": False, "norm_parameters": False, "positions": 0}
    sizes = {"layers": 3, "hidden": 512, "heads": 8, "sequence": 256, "vocabulary": 1000}
    found = summary(**sizes, **bare, batch_per_npu=1)
    per_token = found.mfu_unmasked * PEAK * 8 * found.step_time_s / found.tokens_per_step
    assert found.parameters == 3 * 12 * 512**2 + 1000 * 512
    assert per_token == pytest.approx(6 * found.parameters + 12 * 3 * 512 * 256)


def test_hfu_is_the_busy_share_of_compute():
    """If only matrix products take time, HFU is the fraction of the time in which compute is busy."""
    value = job(layers=2, sequence=128, batch_per_npu=4, attention="fused_full", optimizer="none")
    value["compute"] = {"model": "throughput", "rate": "312TFLOP/s", "memory": "1EB/s"}
    found = syncline.simulate(value).summary
    # The throughput model runs products at the full rate; norms and similar operations take little time.
    assert found.hfu == pytest.approx(found.compute_s / found.total_time_s, rel=0.02)
    assert found.mfu < found.hfu


def test_fused_attention_recomputes_scores():
    """Attention has two products in the forward pass and five in the backward pass; one of these recomputes scores."""
    sizes = {"layers": 2, "hidden": 512, "heads": 8, "sequence": 1024, "positions": 1024, "batch_per_npu": 1}
    found = summary(**sizes)
    again = 2 * 2 * 1024 * 512 * 512
    per_npu = (found.hfu - found.mfu) * PEAK * found.step_time_s
    assert per_npu == pytest.approx(again)


def test_a_global_batch_gives_the_number_of_micro_batches():
    by_hand = summary(layers=1, sequence=64, batch_per_npu=2, micro_batches=4)
    assert by_hand.samples_per_step == 2 * 8 * 4
    derived = summary(layers=1, sequence=64, batch_per_npu=2, global_batch=64)
    assert (derived.micro_batches, derived.samples_per_step, derived.step_time_s) == (4, 64, by_hand.step_time_s)
    # Half as many copies need twice as many micro-batches.
    halved = summary(layers=1, sequence=64, batch_per_npu=2, global_batch=64, parallel={"tensor": 2})
    assert (halved.micro_batches, halved.samples_per_step) == (8, 64)
    staged = summary(layers=2, sequence=64, batch_per_npu=2, global_batch=64, parallel={"pipeline": 2})
    assert (staged.micro_batches, staged.samples_per_step) == (8, 64)


def test_a_global_batch_that_does_not_divide_is_refused_with_the_nearest():
    with pytest.raises(SynclineError) as caught:
        summary(layers=1, sequence=64, batch_per_npu=2, global_batch=100)
    (found,) = caught.value.diagnostics
    assert found["key"] == "workload.global_batch"
    assert "multiples of 16: a micro-batch of 2 on 8 data-parallel ranks" in found["allowed"]
    assert "`global_batch: 96`" in found["help"]
    assert summary(layers=1, sequence=64, batch_per_npu=2, global_batch=96).micro_batches == 6
    with pytest.raises(SynclineError, match="given twice"):
        summary(layers=1, sequence=64, global_batch=64, micro_batches=8)


def test_custom_layers_have_rates_if_they_give_their_samples():
    layer = {"name": "a", "forward": {"products": [{"m": 8, "k": 100, "n": 100}]}, "weight_grad": "1ms"}
    value = {
        "workload": {"layers": [layer], "batch_per_npu": 8},
        "compute": {"model": "roofline", "peak": "1TFLOP/s", "memory": "1TB/s"},
        "fabric": {"shape": "Ring(4)", "rate": "1GB/s"},
    }
    found = syncline.simulate(value).summary
    assert found.samples_per_step == 32
    assert found.model_tflop_per_s_per_npu == pytest.approx(3 * 2 * 8 * 100 * 100 / found.step_time_s / 1e12)
    del value["workload"]["batch_per_npu"]
    found = syncline.simulate(value).summary
    assert (found.samples_per_s, found.mfu, found.parameters) == (None, None, 0)
    assert "mfu" not in found.as_dict()


def test_rates_are_in_the_summary_and_on_the_screen(tmp_path):
    result = syncline.simulate(job(layers=2, sequence=128, batch_per_npu=1))
    result.save(tmp_path / "run")
    written = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    for key in ("mfu", "mfu_unmasked", "hfu", "tokens_per_s", "samples_per_s", "model_tflop_per_s_per_npu"):
        assert written[key] == getattr(result.summary, key)
    assert "MFU" in str(result)


def test_fp8_speeds_up_only_linear_layers():
    """Linear layers of blocks run at twice the rate; the projection and attention keep their rate."""
    sizes = {"layers": 2, "hidden": 1024, "heads": 16, "sequence": 256, "batch_per_npu": 1, "optimizer": "none"}

    def compute(precision):
        value = job(**sizes, precision=precision)
        value["compute"]["peak"] = {"bf16": "100TFLOP/s", "fp8": "200TFLOP/s"}
        view = json.loads(load(value).call(_core.show, "workload"))
        return view["classes"][0]["compute_s"]

    linear = 3 * 2 * 256 * 2 * 12 * 1024**2
    assert compute("bf16") - compute("fp8") == pytest.approx(linear / 100e12 - linear / 200e12, rel=1e-6)
    with pytest.raises(SynclineError, match="no rate for this data type"):
        compute("fp16")


def test_input_gradients_of_the_first_layer_are_not_counted():
    """The first layer of an MLP needs no input gradient: it has 4 operations per weight, other layers have 6."""
    value = job(batch_per_npu=4)
    value["workload"] = {"model": "mlp", "sizes": [100, 200, 50], "batch_per_npu": 4, "optimizer": "none"}
    found = syncline.simulate(value).summary
    assert found.mfu * PEAK * found.step_time_s == pytest.approx(4 * (4 * 100 * 200 + 6 * 200 * 50))
    assert found.hfu == pytest.approx(found.mfu)

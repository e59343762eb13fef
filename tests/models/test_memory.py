"""What a rank holds: activations of a block by Korthikanti et al. 2022, states by Rajbhandari et al. 2020."""

import json
from fractions import Fraction

import pytest

from syncline import _core
from syncline.config.load import load
from syncline.errors import SynclineError
from syncline.models import layers


def scenario(ranks=8, micro_batches=1, capacity=None, layers=2, **parallel):
    compute = {"model": "roofline", "peak": "100TFLOP/s", "memory": "1TB/s"}
    return {
        "workload": {
            "model": "decoder",
            "layers": layers,
            "hidden": H,
            "heads": A,
            "sequence": S,
            "batch_per_npu": B,
            "micro_batches": micro_batches,
            "parallel": parallel,
        },
        "compute": compute if capacity is None else {**compute, "memory_capacity": capacity},
        "fabric": {"shape": f"Switch({ranks})", "rate": "100GB/s", "latency": "1us"},
    }


H, A, S, B = 1024, 16, 512, 4


def memory(**parallel):
    view = json.loads(load(scenario(**parallel)).call(_core.show, "workload"))
    return view["memory"]


def of_blocks(**parallel):
    """Activations of a block, from the difference that one more makes."""
    two, three = (memory(layers=number, **parallel)[0]["activations_bytes"] for number in (2, 3))
    return three - two


@pytest.mark.parametrize("t", [1, 2, 8])
def test_activations_of_a_block_are_those_of_korthikanti(t):
    sbh, scores = S * B * H, Fraction(5 * A * S, H)
    # Equations 1 and 2; 4; table 2 with selective recomputation, without and with sequence parallelism, and full.
    assert of_blocks(model=t) == sbh * (10 + (24 + scores) / t)
    assert of_blocks(model=t, sequence=True) == sbh * (34 + scores) / t
    assert of_blocks(model=t, recompute="selective") == sbh * (10 + Fraction(24, t))
    assert of_blocks(model=t, recompute="selective", sequence=True) == Fraction(34 * sbh, t)
    assert of_blocks(model=t, recompute="full") == 2 * sbh
    assert of_blocks(model=t, recompute="full", sequence=True) == Fraction(2 * sbh, t)
    assert of_blocks(model=t, recompute="full", divided_checkpoints=True) == Fraction(2 * sbh, t)


def test_one_block_at_a_time_is_computed_again():
    sbh, scores = S * B * H, Fraction(5 * A * S, H)
    # Embedding's dropout, the last norm, the projection, and logits in fp32 (Korthikanti et al. 2022, 4.3).
    ends = sbh * 5 + 4 * S * B * 50_257
    whole = sbh * (34 + scores)
    assert memory(model=1)[0]["activations_bytes"] == ends + 2 * whole
    assert memory(model=1, recompute="full")[0]["activations_bytes"] == ends + 2 * 2 * sbh + whole - 2 * sbh
    assert memory(model=1, recompute="selective")[0]["activations_bytes"] == ends + 2 * 34 * sbh + scores * sbh


def test_kinds_of_models_keep_what_they_have():
    def kept(**sizes):
        built = layers("decoder", layers=1, hidden=64, heads=4, sequence=8, positions=8, **sizes)
        return {x.name.split(".")[-1]: x.kept.memory("bf16") for x in built if x.block}

    plain = kept()
    tokens = 8 * 64
    assert plain["softmax"] == 5 * 4 * 8 * 8
    without = kept(dropout=False)
    assert (without["softmax"], without["norm2"], without["sum"]) == (2 * 4 * 8 * 8, 2 * tokens, 0)
    grouped = kept(kv_heads=1)
    assert (plain["scores"], grouped["scores"]) == (4 * tokens, 2 * (tokens + tokens // 4))
    assert (plain["context"], grouped["context"]) == (2 * tokens, 2 * tokens // 4)
    assert kept(gated=True)["activation"] == 2 * plain["activation"]
    side_by_side = kept(block="parallel", norms=2)
    assert (side_by_side["qkv"], side_by_side["mlp1"]) == (4 * tokens, 0)
    assert kept(block="parallel", norms=1)["qkv"] == 2 * tokens


@pytest.mark.parametrize("zero", range(4))
def test_states_are_two_two_and_twelve_bytes_a_parameter(zero):
    found = memory(model=1, zero=zero)[0]
    sizes = {"layers": 2, "hidden": H, "heads": A, "sequence": S}
    parameters = sum(layer.parameters for layer in layers("decoder", **sizes))
    divided = [8 if zero > at else 1 for at in (2, 1, 0)]
    expected = [bytes_ * parameters / by for bytes_, by in zip((2, 2, 12), divided, strict=True)]
    keys = ("parameters_bytes", "gradients_bytes", "optimizer_bytes")
    # A share is rounded up, layer by layer.
    assert [found[key] for key in keys] == [pytest.approx(each, rel=1e-5) for each in expected]
    assert (found["gathered_bytes"] > 0) == (zero == 3)


def test_stages_hold_what_is_under_way_and_a_table_that_they_share():
    found = memory(layers=4, pipeline=4, model=1, data=2, micro_batches=8)
    assert [each["live"] for each in found] == [4, 3, 2, 1]
    table = 2 * 50_257 * H
    block = found[1]["parameters_bytes"]
    assert found[0]["parameters_bytes"] == table + 2 * 1024 * H + block
    assert found[3]["parameters_bytes"] == table + 2 * 2 * H + block


def refused(value):
    loaded = load(value)
    with pytest.raises(SynclineError) as caught:
        loaded.call(_core.simulate)
    return caught.value


def test_a_job_that_does_not_fit_is_refused_with_what_would():
    problem = refused(scenario(capacity="1.5GB"))
    assert problem.exit_status == 1
    (found,) = problem.diagnostics
    assert found["code"] == "SL0308"
    assert found["message"] == "a rank needs 1.98 GB, and an NPU has 1.5 GB"
    assert found["found"].startswith("parameters 155.4 MB, gradients 155.4 MB, optimiser states 932.5 MB, activations")
    changes = "`zero: 1` (1.16 GB); or `batch_per_npu: 1` (1.43 GB); or `model: 2` (1.02 GB)"
    assert found["help"] == f"it fits with {changes}"
    assert not [each for each in load(scenario(capacity="1.5GB", zero=1)).check() if each["severity"] == "error"]
    assert not load(scenario()).resolved.get("npu_memory")


def test_an_accelerator_says_how_much_memory_it_has():
    value = scenario()
    value["compute"] = {"model": "roofline", "accelerator": "V100-SXM2-16GB"}
    value["workload"] |= {"data_type": "fp16"}
    assert load(value).resolved["npu_memory"] == "16GB"
    value["workload"] |= {"layers": 96}
    (found,) = refused(value).diagnostics
    assert found["message"].endswith("an NPU has 16 GB")
    value["compute"]["memory_capacity"] = "1TB"
    assert load(value).resolved["npu_memory"] == "1TB"


def test_layers_of_ones_own_may_say_what_they_keep():
    layer = {"name": "a", "forward": "1ms", "weight_grad": "1ms", "parameters": 1000, "kept": "5MB"}
    value = {
        "workload": {"layers": [layer], "data_type": "fp16", "optimizer": "adam"},
        "compute": {"model": "given", "memory_capacity": "5MB"},
        "fabric": {"shape": "Ring(4)", "rate": "1GB/s"},
    }
    assert refused(value).diagnostics[0]["found"].endswith("optimiser states 12 kB, activations 5 MB")
    del layer["kept"]
    assert not load(value).check()
    value["compute"]["memory_capacity"] = "10kB"
    assert refused(value).diagnostics[0]["notes"] == ["activations are not counted: not every layer says what it keeps"]

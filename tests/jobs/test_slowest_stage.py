"""The slowest stage of a pipeline: why it is slow, and which layers of chunks balance the stages."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from syncline.estimate import machine
from syncline.estimate.job import Job
from syncline.jobs import TrainingJob, estimate
from syncline.jobs.slowest_stage import slowest_stage
from syncline.models.hugging_face.architecture import architecture

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


def job(config=None, **changes):
    model = architecture({**LLAMA_8B, **(config or {})}, "a model")
    given = {"pipeline": 8, "data": 4, "zero": 1, "shard_group": 4, "sequence": 4096, "micro_batches": 32, **changes}
    return TrainingJob("a model", model, machine("H100"), Job.model_validate(given), "megatron")


def layouts(layers, chunks):
    """All ways to divide layers among chunks."""
    for bars in combinations(range(layers + chunks - 1), chunks - 1):
        ends = (-1, *bars, layers + chunks - 1)
        yield [after - before - 1 for before, after in pairwise(ends)]


def test_a_long_output_layer_is_named_and_balanced():
    found = slowest_stage(estimate(job()))
    assert found is not None and found.stage == 7
    assert found.said.startswith("Stage 7, the last one, sets the pace of the pipeline: a micro-batch takes it 71")
    assert "because its output layer and loss take 24" in found.said and "as long as 2.1 layers" in found.said
    assert found.balanced is not None
    assert "With parallel.chunk_layers=[4, 5, 5, 4, 4, 4, 4, 2], the step would take 2" in found.said
    again = estimate(job(chunk_layers=list(found.balanced.chunk_layers)))
    assert again.step_s == found.balanced.estimate.step_s < 0.85 * found.found.step_s


@pytest.mark.parametrize("chunks", [1, 2])
def test_the_balanced_layers_are_nearly_the_best_of_all(chunks):
    pipeline = 4 if chunks == 1 else 2
    given = {"pipeline": pipeline, "virtual_stages": chunks, "micro_batches": 8}
    small = job({"num_hidden_layers": 12}, **given)
    found = slowest_stage(estimate(small))
    assert found is not None and found.balanced is not None
    best = min(estimate(replace(small, job=small.job.changed(chunk_layers=layers))).step_s for layers in layouts(12, 4))
    assert best <= found.balanced.estimate.step_s < 1.02 * best


def test_a_stage_with_more_layers_is_named():
    found = slowest_stage(estimate(job({"vocab_size": 1024}, chunk_layers=[4, 4, 4, 6, 4, 4, 3, 3])))
    assert found is not None and found.stage == 3
    assert "because it has 6 layers, and the others 3.71 on average." in found.said


def test_longer_layers_are_named():
    """The layers of the last stage alone have experts, as large as a dense layer each, of which a token takes two."""
    config = {
        **LLAMA_8B,
        "model_type": "deepseek_v3",
        "vocab_size": 1024,
        "first_k_dense_replace": 28,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_shared_experts": 0,
        "moe_intermediate_size": 14336,
        "n_group": 1,
        "topk_group": 1,
        "q_lora_rank": None,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }
    found = slowest_stage(estimate(job(config)))
    assert found is not None and found.stage == 7
    assert "because its layers take" in found.said and "each, and those of the others" in found.said


def test_stages_that_differ_little_have_no_slowest_one():
    assert slowest_stage(estimate(job(pipeline=1, data=8, shard_group=8))) is None
    assert slowest_stage(estimate(job({"vocab_size": 1024}))) is None
    # Six of eight stages have four layers: the others are short, and none is long.
    found = estimate(job({"vocab_size": 1024, "num_hidden_layers": 30}, chunk_layers=[3, 4, 4, 4, 4, 4, 4, 3]))
    assert max(found.stages_s) > 1.03 * min(found.stages_s) and slowest_stage(found) is None


def test_a_layer_that_is_too_long_to_be_moved_is_not():
    """Two stages of one layer each: without its layer, the last one is faster, and the first one twice as slow."""
    found = slowest_stage(
        estimate(job({"num_hidden_layers": 2, "vocab_size": 16384}, pipeline=2, data=8, shard_group=8))
    )
    assert found is not None and found.balanced is None
    assert found.said.endswith("Moving single layers to other chunks would not shorten the step by 1 %.")


@pytest.mark.parametrize(("schedule", "stage"), [("gpipe", 3), ("zb-h1", 3), ("zb-v", 0), ("dualpipe-v", 0)])
def test_the_stage_with_the_output_layer_depends_on_the_schedule(schedule, stage):
    chunks = 2 if schedule in ("zb-v", "dualpipe-v") else 1
    found = slowest_stage(estimate(job(schedule=schedule, pipeline=4, virtual_stages=chunks)))
    assert found is not None and found.stage == stage and "its output layer and loss" in found.said
    assert found.balanced is not None and found.balanced.estimate.step_s < found.found.step_s

"""A step in detail: against the estimated step, the estimate's memory, and sums by hand."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from syncline.design.parallel import Request, search
from syncline.estimate import Job, machine
from syncline.jobs import TrainingJob, estimate
from syncline.jobs.charts.step import exposed_by_tier, lines
from syncline.jobs.detail import detail
from syncline.models.hugging_face.architecture import architecture

LLAMA_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def jobs(config=LLAMA_70B, gpus=512, batch=512, every=11, **changes):
    model = architecture(config, "a model")
    request = Request(model, machine("H100"), gpus, 8192, batch, keep=300, variants=True, **changes)
    return [
        TrainingJob("a model", model, request.machine, each.how, "megatron") for each in search(request).best[::every]
    ]


def one(**changes):
    model = architecture(LLAMA_70B, "a model")
    given = {"tensor": 8, "sequence_parallel": True, "pipeline": 4, "data": 2, "zero": 1, "shard_group": 2}
    job = Job.model_validate({"sequence": 4096, "micro_batches": 16, **given, **changes})
    return TrainingJob("a model", model, machine("H100"), job, "megatron")


@pytest.mark.parametrize(("gpus", "batch"), [(64, 128), (512, 512), (1024, 1024)])
def test_executed_pass_by_pass_a_step_takes_what_the_estimate_says(gpus, batch):
    """1F1B and interleaved pipelines: the rounds that an estimate skips take the time of others."""
    for job in jobs(gpus=gpus, batch=batch):
        found = detail(job)
        assert found.listed_s == pytest.approx(found.step_s, rel=1e-9)


@pytest.mark.parametrize("schedule", ["gpipe", "zb-h1", "zb-v", "dualpipe-v"])
def test_other_schedules_are_executed_too(schedule):
    for job in jobs(schedules=(schedule,), every=29):
        found = detail(job)
        assert found.listed_s == pytest.approx(found.step_s, rel=0.002)


@pytest.mark.parametrize(("gpus", "batch"), [(64, 128), (512, 512), (1024, 1024)])
def test_the_peak_of_memory_is_the_estimates(gpus, batch):
    for job in jobs(gpus=gpus, batch=batch):
        for stage, found in enumerate(detail(job).memory):
            kinds, _ = job.estimator.memory("megatron", stage)
            # Kinds are rounded to bytes one by one.
            assert abs(found.most - kinds["total"]) < 16
            assert found.peak.total == kinds["total"]


@pytest.mark.parametrize(
    "chunk_layers",
    [
        [10] * 8,
        [22, 20, 20, 18],
        [5, 15, 10, 10, 10, 10, 10, 10],
        [9, 10, 10, 10, 10, 11, 11, 9],
        [4, 20, 4, 12, 8, 12, 10, 10],
        [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 3],
    ],
)
def test_unequal_chunks_keep_what_micro_batches_have_come_to(chunk_layers):
    """The last stage may keep most while no loss is computed."""
    job = one(virtual_stages=len(chunk_layers) // 4, chunk_layers=chunk_layers)
    for stage, found in enumerate(detail(job).memory):
        assert abs(found.most - job.estimator.memory("megatron", stage)[0]["total"]) < 16


def test_gpipe_keeps_all_micro_batches():
    """Their activations, and in the last stage their logits."""
    job = one(schedule="gpipe")
    for stage, found in enumerate(detail(job).memory):
        assert abs(found.most - job.estimator.memory("megatron", stage)[0]["total"]) < 16


def test_memory_returns_to_what_stays():
    for stage in detail(one()).memory:
        first, last = stage.points[0], stage.points[-1]
        assert (first.activations, first.logits) == (0, 0)
        assert last.activations == pytest.approx(0, abs=16) and last.logits == 0


def test_turns_of_a_stage_do_not_overlap_and_all_are_there():
    found = detail(one(virtual_stages=5))
    assert len(found.memory) == 4
    for stage in range(4):
        own = [each for each in found.spans if each.stage == stage]
        passes = [each for each in own if each.kind in ("forward", "backward")]
        assert len(passes) == 2 * 5 * 16
        ordered = sorted(own, key=lambda each: (each.begin_s, each.end_s))
        assert all(a.end_s <= b.begin_s + 1e-12 for a, b in pairwise(ordered))


def test_a_micro_batch_goes_through_all_stages_and_back():
    spans = detail(one()).spans
    begin = {(each.kind, each.stage, each.micro_batch): each for each in spans}
    for batch in range(16):
        for stage in range(3):
            assert begin["forward", stage, batch].end_s <= begin["forward", stage + 1, batch].begin_s
            assert begin["backward", stage + 1, batch].end_s <= begin["backward", stage, batch].begin_s


@pytest.mark.parametrize(("config", "gpus"), [(LLAMA_70B, 512), (MIXTRAL, 64)])
def test_the_parts_of_the_bar_add_up_to_the_step(config, gpus):
    for job in jobs(config, gpus, gpus, every=43):
        found = estimate(job)
        rows = lines(found, detail(job))
        assert sum(seconds for _, _, seconds in rows) == pytest.approx(found.step_s)


def test_kernels_add_up_to_computing():
    """Of the stage that computes most: products, attention, what is between them, and its ends."""
    for job in jobs(every=43):
        found, inside = estimate(job), detail(job)
        names = ("products", "attention", "element_wise", "ends", "update")
        computing = sum(found.parts[name] for name in names)
        kernels = sum(each.times * each.each_s for each in inside.kernels)
        assert kernels == pytest.approx(computing, rel=1e-6)


def test_products_have_the_operations_of_their_sizes():
    """Two operations for each weight and token forward, and four backward (Narayanan et al. 2021, appendix)."""
    inside = detail(one())
    products = [
        each for each in inside.kernels if each.precision and not each.name.startswith(("attention", "output l"))
    ]
    flop = sum(each.times * each.flop for each in products)
    hidden, ffn = 8192, 28672
    weights = 20 * (hidden * hidden * 2 + hidden * 1024 * 2 + 3 * hidden * ffn) / 8
    assert flop == pytest.approx(6 * weights * 4096 * 16)


def test_collectives_have_the_sizes_and_the_groups_of_their_axes():
    inside = detail(one())
    tensor = [each for each in inside.communication if each.part == "tensor"]
    # Sequence parallelism: an all-gather and a reduce-scatter around attention and around the feed-forward block.
    assert {each.collective for each in tensor} == {"all-gather", "reduce-scatter"}
    assert all(each.bytes == 4096 * 8192 * 2 and (each.in_domain, each.domains) == (8, 1) for each in tensor)
    # One of each more in the stage with the output layer.
    assert all(each.times == 16 * (20 * 2 * 2 + 1) for each in tensor)
    messages = next(each for each in inside.communication if each.part == "messages")
    assert (messages.bytes, messages.times, messages.tier) == (4096 * 8192 * 2 / 8, 32, "network")
    assert all(each.tier == "network" for each in inside.communication if each.part == "exchange")


def test_a_ring_of_keys_and_values_is_no_all_gather():
    def names(method):
        inside = detail(one(context=2, data=1, shard_group=2, context_method=method))
        return {each.collective for each in inside.communication if each.part == "context"}

    assert names("ring") == {"ring exchange"}
    assert names("all_gather") == {"all-gather", "reduce-scatter"}


@pytest.mark.parametrize("config", [LLAMA_70B, MIXTRAL], ids=["dense", "experts"])
def test_kernels_have_names_of_their_own(config):
    for job in jobs(config, every=43):
        names = [(each.name, each.which, each.precision) for each in detail(job).kernels]
        assert len(set(names)) == len(names)


def test_what_is_exposed_is_divided_among_tiers():
    for job in jobs(every=43):
        found = estimate(job)
        for part, by_tier in exposed_by_tier(found, detail(job)).items():
            assert sum(by_tier.values()) == pytest.approx(found.parts[part])
            assert set(by_tier) <= {"NVLink", "network"}


def test_the_same_job_gives_the_same_detail():
    assert json.loads(detail(one()).model_dump_json()) == json.loads(detail(one()).model_dump_json())

"""What makes a job fit: each change does, and nothing smaller of its kind does."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.estimate import Job, Overlap, estimator, machine, shipped
from syncline.estimate.fitting import changes_that_fit
from syncline.models.architecture import Decoder

LLAMA = Decoder(hidden=8192, layers=80, heads=64, kv_heads=8, ffn=28672, gated=True, vocab=128256)
ALL = Overlap(tensor=True, gradients=True, parameters=True, pipeline=True)
CONSTANTS = shipped()["megatron"].constants.model_dump_json()
H100 = machine("H100")
CAPACITY = int(H100.memory_bytes)


def job(**changes):
    given = {
        "tensor": 4,
        "sequence_parallel": True,
        "pipeline": 4,
        "data": 4,
        "zero": 1,
        "shard_group": 4,
        "micro_batch": 2,
        "micro_batches": 16,
        "sequence": 8192,
        "overlap": ALL,
        **changes,
    }
    return Job.model_validate(given)


def needed(made, model=LLAMA):
    return estimator(model, made, H100).memory("megatron")[0]["total"]


def found(made, capacity=CAPACITY, **more):
    return changes_that_fit(LLAMA, made, H100, "megatron", CONSTANTS, capacity, **more)


def test_each_change_fits_and_has_the_step_of_its_own_estimate():
    made = job()
    assert needed(made) > CAPACITY
    changes = found(made, most=20)
    assert changes
    for each in changes:
        assert needed(each.job) == each.memory_bytes <= CAPACITY
        assert estimator(LLAMA, each.job, H100).seconds(CONSTANTS) == each.step_s
        assert (each.job.ranks, each.job.global_batch, each.job.sequence) == (made.ranks, made.global_batch, 8192)
    assert [each.step_s for each in changes] == sorted(each.step_s for each in changes)


def test_a_block_has_as_few_layers_as_fit():
    """Of one kind of change, the smallest: one layer fewer does not fit."""
    (block,) = [each for each in found(job(), most=20) if each.job.recompute_method == "block"]
    layers = block.job.recompute_layers
    assert block.said == f"recompute the first {layers} layers of each chunk"
    assert needed(block.job.changed(recompute_layers=layers - 1)) > CAPACITY


def test_changes_go_together_where_one_is_not_enough():
    made = job(tensor=2, pipeline=2, data=4, shard_group=4, micro_batches=8)
    changes = found(made)
    assert changes
    assert all("and" in each.said for each in changes)
    assert all(needed(each.job) <= CAPACITY for each in changes)


def test_states_are_divided_and_have_fewer_bits():
    """Eight copies of a small model: what is duplicated is what does not fit."""
    model = LLAMA.model_copy(update={"layers": 24})
    made = job(pipeline=1, tensor=8, data=8, shard_group=8, zero=0, micro_batch=1, micro_batches=8, recompute="full")
    shorter = {
        "ZeRO-1 (optimizer states)": {"zero": 1},
        "ZeRO-3 (parameters too)": {"zero": 3},
        "moments in 16 bits": {"moment_bytes": 2},
        "moments in 8 bits": {"moment_bytes": 1},
        "gradients in 16 bits": {"gradient_bytes": 2},
    }
    for expected, values in shorter.items():
        capacity = needed(made.changed(**values), model)
        changes = changes_that_fit(model, made, H100, "megatron", CONSTANTS, capacity, most=50)
        assert expected in {each.said for each in changes}
        assert not any("recompute" in each.said for each in changes)


def test_of_one_kind_of_change_the_smallest_is_named():
    """Twice as many tensor-parallel ranks suffice, so that nothing says four or eight times as many."""
    made = job(tensor=1, sequence_parallel=False, data=16, shard_group=16, micro_batches=4, micro_batch=1)
    enough = needed(made.changed(tensor=2, sequence_parallel=True, data=8, shard_group=8, micro_batches=8))
    said = [each.said for each in found(made, enough, most=50)]
    assert [each for each in said if each.startswith("tensor parallelism")] == [
        "tensor parallelism 2 with sequence parallelism"
    ]


def test_nothing_helps_a_model_that_is_too_large():
    made = job(tensor=1, sequence_parallel=False, pipeline=1, data=1, shard_group=1, micro_batches=1, micro_batch=1)
    assert found(made) == []


def test_a_search_that_finds_nothing_says_what_would_fit():
    from syncline.design.parallel import Request, search

    with pytest.raises(SynclineError) as raised:
        search(Request(LLAMA, H100, 8, 8192, 512))
    notes = raised.value.diagnostics[0]["notes"]
    more = next(each for each in notes if "accelerators: " in each)
    gpus = int(more.split(" ")[0])
    again = search(Request(LLAMA, H100, gpus, 8192, 512))
    assert f"{gpus} accelerators: {again.best[0].how.axes}," in more
    with pytest.raises(SynclineError):
        search(Request(LLAMA, H100, gpus // 2, 8192, 512))


def test_activations_of_as_few_layers_as_fit_go_to_the_host():
    (made,) = [each for each in found(job(), most=20) if each.job.offload.layers]
    layers = made.job.offload.layers
    assert made.said == f"offload activations of the first {layers} layers of each chunk to the host"
    assert made.host_bytes > 0
    assert needed(made.job.changed(offload={"layers": layers - 1})) > CAPACITY


def test_the_recipe_of_a_measured_run_offloads_about_as_many_layers_as_it_must():
    """Megatron-Bridge's recipe of Llama 3 70B in 8 bits on 64 GB200: 40 of 80 layers."""
    gb200 = machine("GB200")
    made = Job(
        sequence=8192,
        micro_batch=2,
        micro_batches=2,
        data=64,
        shard_group=64,
        zero=3,
        precision="fp8",
        gradient_bytes=2,
    )
    constants = shipped()["megatron"].constants.model_dump_json()
    changes = changes_that_fit(LLAMA, made, gb200, "megatron", constants, int(gb200.memory_bytes), most=20)
    (layers,) = [each.job.offload.layers for each in changes if each.job.offload.layers]
    assert abs(layers - 40) <= 6


def test_the_hosts_memory_must_hold_what_it_gets():
    small = machine("H100", host_memory_bytes=1e9)
    changes = changes_that_fit(LLAMA, job(), small, "megatron", CONSTANTS, CAPACITY, most=20)
    assert changes
    assert not any(each.job.offload for each in changes)

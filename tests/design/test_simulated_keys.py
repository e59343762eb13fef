"""Every key of a job file counts in its simulation: the simulated step changes as the estimate or a calculation by hand
says, or the job is refused with the key and a remedy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from syncline.design.parallel.simulation import SimulatedJob, simulated_job
from syncline.input.dump import dump
from syncline.jobs import Estimate, estimate
from syncline.jobs.blocks import blocks
from tests.conftest import Cli
from tests.estimate.scheduler import run
from tests.jobs.test_estimate import CASES, DENSE, EXPERTS, changed, read

Changes = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """What a key does in simulations."""

    rule: Literal["alike", "memory", "hidden", "scheduled", "refused"] = "alike"
    """``alike``: the simulated step changes by as many seconds as the estimate. ``memory``: neither changes, as the key
    changes memory alone. ``hidden``: a collective hides behind computing, so that the simulated step becomes shorter by
    about as much as in the estimate, or by more, up to the whole collective. ``scheduled``: the simulated step is that
    of a list scheduler. ``refused``: the simulation is refused."""
    cases: tuple[tuple[dict[str, Any], Changes], ...] = ()
    """Jobs and changes; without any, those for estimates, in a job without a pipeline in which nothing overlaps."""
    within: float = 0.01
    """For ``alike``: the most by which the changes may differ, as a part of them."""
    beside: float = 1e-6
    """And as a part of the step."""


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """A job without a pipeline in which nothing overlaps: simulation and estimate are sums of the same times."""
    return changed(values, parallel__pipeline=1, parallel__virtual_stages=1, overlap={})


FLAT, FLAT_EXPERTS = flat(DENSE), flat(EXPERTS)
STAGES = changed(DENSE, overlap={"pipeline": True}, cluster__gpus=32, batch__global_batch=32)
"""Four stages of five chunks, and a single copy but for ranks of one sequence: gradients cost little."""
ONE_CHUNK = changed(STAGES, parallel__virtual_stages=1)
EXPOSED = changed(DENSE, overlap={})
"""A pipeline whose messages are exposed."""
# Each layer of experts reduces its gradients alone in a simulation, and all together in an estimate: latencies differ.
APART = Row(beside=0.018)
ROWS: dict[str, Row] = {
    "JobFile.model": Row(),
    "JobFile.cluster": Row(),
    "JobFile.framework": Row(),
    "JobFile.constants": Row(),
    "JobFile.parallel": Row(),
    "JobFile.batch": Row(),
    "JobFile.precision": Row(),
    "JobFile.gradients": Row(),
    "JobFile.moments": Row(),
    "JobFile.recompute": Row(),
    "JobFile.recompute_method": Row(),
    "JobFile.recompute_modules": Row(),
    "JobFile.attention": Row(),
    "JobFile.rope_fusion": Row(),
    "JobFile.graphs": Row(),
    "JobFile.dispatcher": Row(),
    "JobFile.routing": Row(),
    "JobFile.dispatch_multiprocessors": Row(),
    "JobFile.fused_experts": Row(),
    "JobFile.low_precision_output_layer": Row(),
    "JobFile.fp8_attention": Row(),
    "JobFile.low_precision_parameters": Row(),
    "JobFile.first_layers_bf16": Row(),
    "JobFile.last_layers_bf16": Row(),
    "JobFile.expert_load": Row(),
    "JobFile.vocab_multiple": Row(),
    "JobFile.lora": Row(),
    "JobFile.lora_targets": Row(),
    "JobFile.lora_experts": APART,
    "JobFile.offload": Row(),
    "JobCluster.accelerator": Row(),
    "JobCluster.gpus": Row(),
    "JobCluster.nic_rate": Row(),
    "JobCluster.domain": Row(),
    "JobCluster.nccl": Row(),
    "JobCluster.host_memory_rate": Row(),
    "JobOffload.optimizer": Row(),
    "Overlap.optimizer": Row(),
    "JobParallel.tensor": Row(),
    "JobParallel.sequence_parallel": Row(),
    "JobParallel.context": Row(),
    "JobParallel.context_method": Row(),
    "JobParallel.zero": Row(),
    "JobParallel.shard_group": Row(),
    "JobBatch.sequence": Row(),
    "JobBatch.micro_batch": Row(),
    "JobBatch.global_batch": Row(),
    "Decoder.hidden": Row(),
    "Decoder.layers": Row(),
    "Decoder.heads": Row(),
    "Decoder.kv_heads": Row(),
    "Decoder.head_dim": Row(),
    "Decoder.ffn": Row(),
    "Decoder.gated": Row(),
    "Decoder.vocab": Row(),
    "Decoder.tied": Row(),
    "Decoder.positions": Row(),
    "Decoder.rope_scaling": Row(),
    "Decoder.dropout": Row(),
    "Decoder.latent": Row(),
    "Decoder.window": Row(),
    "Decoder.prediction_layers": Row(),
    "Latent.query_rank": Row(),
    "Latent.kv_rank": Row(),
    "Latent.nope_dim": Row(),
    "Latent.rope_dim": Row(),
    "Latent.value_dim": Row(),
    "Window.tokens": Row(),
    "Window.full_every": Row(),
    "Decoder.experts": APART,
    "ExpertSizes.count": APART,
    "ExpertSizes.top_k": APART,
    "ExpertSizes.ffn": APART,
    "ExpertSizes.shared_ffn": APART,
    "ExpertSizes.dense_layers": APART,
    "ExpertSizes.groups": APART,
    "ExpertSizes.top_groups": APART,
    "ExpertSizes.every": APART,
    "JobParallel.expert": APART,
    "JobParallel.expert_tensor": APART,
    "JobCluster.memory": Row("memory"),
    "JobCluster.host_memory": Row("memory"),
    "JobOffload.modules": Row(),
    # Copies to the host hide behind layers, but for these.
    "JobCluster.host_rate": Row(cases=((changed(EXPOSED, offload__layers=4), {"cluster__host_rate": "1GB/s"}),)),
    "JobOffload.layers": Row(cases=((EXPOSED, {"offload__layers": 4}),)),
    # Groups of layers change memory; which layers are computed again changes the step, too.
    "JobFile.recompute_layers": Row(cases=(CASES["JobFile.recompute_layers"][0],), within=0.02),
    "JobFile.overlap": Row("hidden", ((FLAT, {"overlap": {"gradients": True, "parameters": True}}),)),
    "Overlap.gradients": Row("hidden", ((FLAT, {"overlap__gradients": True}),)),
    "Overlap.parameters": Row("hidden", ((FLAT, {"overlap__parameters": True}),)),
    "Overlap.pipeline": Row(cases=((EXPOSED, {"overlap__pipeline": True}),), within=0.05),
    "Overlap.tensor": Row(cases=((FLAT, {"overlap__tensor": True}), (EXPOSED, {"overlap__tensor": True}))),
    "Overlap.experts": Row(
        cases=(
            (FLAT_EXPERTS, {"overlap__experts": True}),
            (changed(EXPERTS, overlap={}), {"overlap__experts": True}),
            (changed(FLAT_EXPERTS, dispatcher="fused"), {"overlap__experts": True}),
        )
    ),
    "JobParallel.pipeline": Row("scheduled", ((ONE_CHUNK, {"parallel__pipeline": 2}),)),
    "JobParallel.virtual_stages": Row("scheduled", ((STAGES, {"parallel__virtual_stages": 1}),)),
    "JobParallel.split": Row(
        "scheduled",
        ((STAGES, {"parallel__split": "ends"}), (ONE_CHUNK, {"parallel__split": "cost"})),
    ),
    "JobParallel.chunk_layers": Row("scheduled", ((ONE_CHUNK, {"parallel__chunk_layers": [19, 21, 21, 19]}),)),
    "JobParallel.schedule": Row("scheduled", ((ONE_CHUNK, {"parallel__schedule": "gpipe"}),)),
}
REFUSED: list[tuple[dict[str, Any], Changes, str, Changes]] = [
    *(
        (changed(ONE_CHUNK, parallel__virtual_stages=chunks), {"parallel__schedule": each}, "parallel.schedule", remedy)
        for each, chunks, remedy in (
            ("zb-h1", 1, {"parallel__schedule": "1f1b"}),
            ("dualpipe", 1, {"parallel__schedule": "1f1b"}),
            ("zb-v", 2, {"parallel__schedule": "1f1b"}),
            ("dualpipe-v", 2, {"parallel__schedule": "1f1b"}),
        )
    ),
    (
        changed(EXPERTS, parallel__schedule="gpipe"),
        {"overlap__experts": True},
        "overlap.experts",
        {"parallel__schedule": "1f1b"},
    ),
    (
        changed(FLAT, parallel__tensor=2, parallel__context=1, batch__global_batch=12),
        {"cluster__gpus": 12},
        "cluster.gpus",
        {"cluster__domain": 4},
    ),
]
"""A job, the change with which it is refused, the key that is named, and the remedy that is advised."""


def both(values: dict[str, Any]) -> tuple[Estimate, SimulatedJob]:
    found = estimate(read(values))
    return found, simulated_job(found.job)


def by_hand(found: Estimate, message_s: float) -> float:
    """The step of a pipeline by a list scheduler, in picoseconds: chunks with their times, and messages."""
    job = found.job.job
    chunks = blocks(found.job).chunks
    forward = [round(sum(each.dense.forward_s for each in chunk) * 1e12) for chunk in chunks]
    backward = [round(sum(each.dense.input_s + each.dense.weight_s for each in chunk) * 1e12) for chunk in chunks]
    step, _ = run(
        "gpipe" if job.schedule == "gpipe" else "1f1b",
        job.pipeline,
        job.micro_batches,
        lambda kind, chunk: forward[chunk] if kind == "F" else backward[chunk],
        round(message_s * 1e12),
        chunks_of_stage=job.virtual_stages,
    )
    return float(step) / 1e12


@pytest.mark.parametrize("key", ROWS)
def test_every_key_changes_the_simulation_as_it_should(key):
    row = ROWS[key]
    for base, changes in row.cases or tuple((flat(base), changes) for base, changes in CASES[key]):
        (was, was_run), (now, now_run) = both(base), both(changed(base, **changes))
        assert was_run.step_s is not None and now_run.step_s is not None, (key, changes, was_run, now_run)
        estimated, simulated = now.step_s - was.step_s, now_run.step_s - was_run.step_s
        said = (key, changes, estimated, simulated)
        if row.rule == "alike":
            assert simulated == pytest.approx(estimated, rel=row.within, abs=row.beside * was.step_s), said
            # A key that changes an estimate changes a simulation.
            assert (simulated == 0) is (estimated == 0), said
        elif row.rule == "memory":
            assert estimated == simulated == 0, said
            of = [(each.memory_bytes, each.host_bytes, each.capacity, each.host_capacity) for each in (was, now)]
            assert of[0] != of[1], said
        elif row.rule == "hidden":
            assert -was.parts["exchange"] <= simulated <= 0.95 * estimated < 0, said
        else:
            # Messages hide but for those that fill and drain the pipeline; gradients and updates follow.
            exchanged = now.parts["exchange"] + now.parts["update"]
            assert (simulated == 0) is (abs(estimated) < 1e-12), said
            assert now_run.step_s == pytest.approx(by_hand(now, MESSAGE_S) + exchanged, rel=2e-3), said


MESSAGE_S = 8192 / 2 * 8192 * 2 / 4 / 45e9
"""A message: half of 8,192 tokens of 8,192 elements in 2 bytes, a quarter of it from each rank, at about 45 GB/s."""


def test_every_key_has_a_row():
    assert set(ROWS) == set(CASES)


@pytest.mark.parametrize(("base", "changes", "key", "remedy"), REFUSED, ids=str)
def test_what_cannot_be_simulated_names_the_key_and_a_remedy_that_works(base, changes, key, remedy):
    wrong = changed(base, **changes)
    _, run = both(wrong)
    assert run.step_s is None and run.problem is not None
    assert run.problem["key"] == key
    for path, value in remedy.items():
        assert f"{path.rpartition('__')[2]}: {value}" in run.problem["help"]
    if "virtual_stages" in json.dumps(wrong) and changes.get("parallel__schedule") in {"zb-v", "dualpipe-v"}:
        remedy = {**remedy, "parallel__virtual_stages": 2}
    _, run = both(changed(wrong, **remedy))
    assert run.step_s is not None, run


def test_a_step_that_is_too_long_names_the_batch(cli: Cli):
    cli.write("job.yaml", dump(changed(STAGES, batch__global_batch=1_000_000)))
    found = cli("estimate", "job.yaml", "--simulate")
    assert found.returncode == 2
    assert "batch.global_batch" in found.stderr and "larger micro_batch" in found.stderr

"""Job files: every key counts, what is impossible is named with its place, and estimates are those of the search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from syncline.config.model_file import read_architecture
from syncline.design.parallel import Request, search
from syncline.errors import SynclineError
from syncline.estimate import machine, shipped
from syncline.input.node import from_python
from syncline.input.source import Source
from syncline.jobs import estimate
from syncline.jobs.job_file import Framework, JobBatch, JobCluster, JobFile, JobOffload, JobParallel
from syncline.jobs.training_job import resolve
from syncline.models.architecture import Decoder, ExpertSizes, Latent, Window
from tests.conftest import Cli

LLAMA_70B = {
    "hidden": 8192,
    "layers": 80,
    "heads": 64,
    "kv_heads": 8,
    "ffn": 28672,
    "gated": True,
    "vocab": 128256,
}
CONFIG = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
}
CONSTANTS = (Path(__file__).parent / "constants.yaml").as_posix()
"""Constants of Megatron that were fitted to other runs than those of the package."""
ALL = {"tensor": True, "gradients": True, "parameters": True, "pipeline": True}
DENSE: dict[str, Any] = {
    "model": LLAMA_70B,
    "cluster": {"accelerator": "H100", "gpus": 512},
    "parallel": {
        "tensor": 4,
        "sequence_parallel": True,
        "pipeline": 4,
        "virtual_stages": 5,
        "context": 2,
        "zero": 1,
    },
    "batch": {"sequence": 8192, "micro_batch": 1, "global_batch": 512},
    "overlap": ALL,
}
EXPERTS: dict[str, Any] = {
    **DENSE,
    "model": {
        **LLAMA_70B,
        "hidden": 4096,
        "layers": 32,
        "heads": 32,
        "ffn": 14336,
        "experts": {"count": 8, "top_k": 2, "ffn": 14336},
    },
    "parallel": {"tensor": 2, "sequence_parallel": True, "pipeline": 4, "expert": 4, "zero": 1},
}


def changed(base, **changes):
    """A job with other values at dotted paths."""
    made = json.loads(json.dumps(base))
    for path, value in changes.items():
        *inner, last = path.split("__")
        at = made
        for key in inner:
            at = at.setdefault(key, {})
        at[last] = value
    return made


def read(values):
    return resolve(Source(from_python(values)))


def outcome(values):
    found = estimate(read(values))
    return found.step_s, found.memory_bytes, found.host_bytes, found.fits


def told(values):
    """What an estimate says, with the memory that there is."""
    return (*outcome(values), estimate(read(values)).capacity)


def test_an_estimate_is_that_of_the_search(tmp_path):
    """The fastest configuration of a search, written as a job file, has the same step and memory."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    best = search(Request(read_architecture(str(config)), machine("H100"), 512, 8192, 512, keep=1)).best[0]
    job = best.how
    parallel = {name: getattr(job, name) for name in JobParallel.model_fields}
    found = estimate(
        read(
            {
                **DENSE,
                "model": str(config),
                "parallel": parallel,
                "batch": {"sequence": 8192, "micro_batch": job.micro_batch, "global_batch": 512},
                "recompute": job.recompute,
            }
        )
    )
    assert found.job.job == job
    assert (found.step_s, found.memory_bytes) == (best.step_s, best.memory_bytes)


def test_a_step_is_the_sum_of_its_parts_and_memory_of_its_kinds():
    found = estimate(read(DENSE))
    assert sum(found.parts.values()) == pytest.approx(found.step_s, rel=1e-12)
    assert sum(found.memory.values()) == found.memory_bytes
    assert len(found.stages_s) == 4
    assert found.fits
    # 6 operations a weight and token, and half of the scores, by hand.
    layer = 8192 * (2 * 8192 + 2 * 1024 + 3 * 28672)
    flop = 6 * (80 * layer + 128256 * 8192) + 3 * 80 * 4 * 8192 * 4096
    assert found.mfu == pytest.approx(flop * 512 * 8192 / (found.step_s * 512 * 989.4e12), rel=1e-3)


@pytest.mark.parametrize(
    ("base", "changes", "axes"),
    [
        (DENSE, {}, "TP 4, PP 4, CP 2, DP 16, VPP 5"),
        (DENSE, {"parallel__context_method": "ulysses"}, "TP 4, PP 4, CP 2 by Ulysses, DP 16, VPP 5"),
        (EXPERTS, {"parallel__expert_tensor": 2}, "TP 2, PP 4, EP 4, ETP 2, DP 64"),
        (EXPERTS, {"parallel__expert": 1, "parallel__expert_tensor": 2}, "TP 2, PP 4, EP 1, ETP 2, DP 64"),
        (
            DENSE,
            {"parallel": {"tensor": 8, "zero": 3, "shard_group": 32}, "lora": 16},
            "TP 8, DP 64, ZeRO-3 in groups of 32, LoRA of rank 16",
        ),
    ],
)
def test_the_first_sentence_names_how_the_job_is_divided(base, changes, axes):
    assert read(changed(base, **changes)).job.axes == axes


GROUPED = changed(EXPERTS, dispatcher="fused", model__experts__groups=2)
CASES: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "JobFile.model": [(DENSE, {"model__layers": 64})],
    "JobFile.cluster": [(DENSE, {"cluster__gpus": 256})],
    "JobFile.framework": [(changed(DENSE, parallel__zero=2), {"framework": "torchtitan"})],
    "JobFile.constants": [(DENSE, {"constants": CONSTANTS})],
    "JobFile.parallel": [(DENSE, {"parallel__tensor": 8})],
    "JobFile.batch": [(DENSE, {"batch__global_batch": 1024})],
    "JobFile.precision": [(DENSE, {"precision": "fp8"})],
    "JobFile.gradients": [(DENSE, {"gradients": "bf16"})],
    "JobFile.moments": [(DENSE, {"moments": "bf16"}), (DENSE, {"moments": "8bit"})],
    "JobFile.recompute": [
        (DENSE, {"recompute": "full"}),
        (changed(DENSE, framework="torchtitan", parallel__zero=2), {"recompute": "operators"}),
    ],
    "JobFile.recompute_method": [
        (changed(DENSE, recompute="full"), {"recompute_method": "block"}),
        (
            changed(DENSE, recompute="full", recompute_layers=2, recompute_method="block"),
            {"recompute_method": "uniform"},
        ),
    ],
    "JobFile.recompute_layers": [
        (changed(DENSE, recompute="full", recompute_method="block"), {"recompute_layers": 3}),
        (changed(DENSE, recompute="full", recompute_method="uniform"), {"recompute_layers": 2}),
    ],
    "JobFile.recompute_modules": [
        (changed(DENSE, recompute="selective"), {"recompute_modules": [each]})
        for each in ("core_attention", "layernorm", "mlp")
    ]
    + [(changed(EXPERTS, recompute="selective"), {"recompute_modules": [each]}) for each in ("moe", "moe_act")],
    "JobFile.attention": [
        *((DENSE, {"attention": each}) for each in ("unfused", "flash-attention-2")),
        *(
            (changed(DENSE, framework="torchtitan", parallel__zero=2), {"attention": each})
            for each in ("triton", "cudnn")
        ),
    ],
    # Kernels are so short that the processor is late with them.
    "JobFile.graphs": [
        (changed(EXPERTS, batch__sequence=256), {"graphs": "partial"}),
        (changed(EXPERTS, batch__sequence=256), {"graphs": "full"}),
    ],
    "JobFile.dispatcher": [(EXPERTS, {"dispatcher": "fused"})],
    "JobFile.routing": [(changed(EXPERTS, dispatcher="fused"), {"routing": "consecutive"})],
    "JobFile.dispatch_multiprocessors": [
        (changed(EXPERTS, dispatcher="fused"), {"dispatch_multiprocessors": 4}),
    ],
    "JobFile.rope_fusion": [(DENSE, {"rope_fusion": False})],
    "JobFile.fused_experts": [
        (changed(EXPERTS, cluster__accelerator="B200", precision="mxfp8"), {"fused_experts": True}),
    ],
    "JobFile.low_precision_output_layer": [(changed(DENSE, precision="fp8"), {"low_precision_output_layer": True})],
    "JobFile.fp8_attention": [(changed(DENSE, precision="fp8"), {"fp8_attention": True})],
    "JobFile.low_precision_parameters": [(changed(DENSE, precision="fp8"), {"low_precision_parameters": True})],
    "JobFile.first_layers_bf16": [(changed(DENSE, precision="fp8"), {"first_layers_bf16": 1})],
    "JobFile.last_layers_bf16": [(changed(DENSE, precision="fp8"), {"last_layers_bf16": 3})],
    "JobFile.expert_load": [(EXPERTS, {"expert_load": 1.5})],
    "JobParallel.context_method": [(DENSE, {"parallel__context_method": each}) for each in ("all_gather", "ulysses")],
    "JobParallel.chunk_layers": [
        (DENSE, {"parallel__virtual_stages": 1, "parallel__chunk_layers": [19, 21, 21, 19]}),
    ],
    "JobFile.vocab_multiple": [(DENSE, {"vocab_multiple": 1 << 14})],
    "JobFile.lora_experts": [(changed(EXPERTS, lora=16), {"lora_experts": each}) for each in ("shared", "each")],
    "JobFile.lora": [(DENSE, {"lora": 16})],
    "JobFile.lora_targets": [(changed(DENSE, lora=16), {"lora_targets": each}) for each in ("attention", "qkv")],
    "JobFile.offload": [(DENSE, {"offload": {"optimizer": 1}})],
    "JobFile.overlap": [(DENSE, {"overlap": {}})],
    "JobCluster.accelerator": [(DENSE, {"cluster__accelerator": "H200"})],
    "JobCluster.gpus": [(DENSE, {"cluster__gpus": 256})],
    "JobCluster.nic_rate": [(DENSE, {"cluster__nic_rate": "100Gb/s"})],
    "JobCluster.host_rate": [(changed(DENSE, offload__layers=4), {"cluster__host_rate": "1GB/s"})],
    "JobCluster.host_memory": [(changed(DENSE, offload__optimizer=1), {"cluster__host_memory": "1GB"})],
    "JobCluster.host_memory_rate": [(changed(DENSE, offload__optimizer=1), {"cluster__host_memory_rate": "1GB/s"})],
    "JobOffload.layers": [(DENSE, {"offload__layers": 4})],
    "JobOffload.modules": [
        (DENSE, {"offload__modules": [each]})
        for each in ("attn_norm", "qkv_linear", "core_attention", "attn_proj", "mlp_norm")
    ]
    + [(EXPERTS, {"offload__modules": [each]}) for each in ("expert_fc1", "moe_act")],
    "JobOffload.optimizer": [(DENSE, {"offload__optimizer": 0.5})],
    "JobCluster.domain": [(DENSE, {"cluster__domain": 4})],
    "JobCluster.memory": [(DENSE, {"cluster__memory": "40GiB"})],
    "JobCluster.nccl": [(DENSE, {"cluster__nccl": "h200-sxm"})],
    "JobParallel.tensor": [(DENSE, {"parallel__tensor": 8})],
    "JobParallel.sequence_parallel": [(DENSE, {"parallel__sequence_parallel": False})],
    "JobParallel.pipeline": [(DENSE, {"parallel__pipeline": 8})],
    "JobParallel.virtual_stages": [(DENSE, {"parallel__virtual_stages": 1})],
    "JobParallel.schedule": [
        (changed(DENSE, parallel__virtual_stages=1), {"parallel__schedule": each})
        for each in ("gpipe", "zb-h1", "dualpipe")
    ]
    + [(changed(DENSE, parallel__virtual_stages=2), {"parallel__schedule": each}) for each in ("zb-v", "dualpipe-v")],
    "JobParallel.split": [(DENSE, {"parallel__split": "cost"}), (DENSE, {"parallel__split": "ends"})],
    "JobParallel.context": [(DENSE, {"parallel__context": 4})],
    "JobParallel.expert": [(EXPERTS, {"parallel__expert": 8})],
    "JobParallel.expert_tensor": [(EXPERTS, {"parallel__expert_tensor": 2})],
    "JobParallel.zero": [(DENSE, {"parallel__zero": 0})],
    "JobParallel.shard_group": [(DENSE, {"parallel__shard_group": 4})],
    "JobBatch.sequence": [(DENSE, {"batch__sequence": 4096})],
    "JobBatch.micro_batch": [(DENSE, {"batch__micro_batch": 2})],
    "JobBatch.global_batch": [(DENSE, {"batch__global_batch": 256})],
    "Overlap.tensor": [(DENSE, {"overlap__tensor": False})],
    "Overlap.gradients": [(DENSE, {"overlap__gradients": False})],
    "Overlap.parameters": [(DENSE, {"overlap__parameters": False})],
    "Overlap.pipeline": [(DENSE, {"overlap__pipeline": False})],
    "Overlap.optimizer": [(changed(DENSE, offload__optimizer=1), {"overlap__optimizer": True})],
    "Overlap.experts": [(EXPERTS, {"overlap__experts": True})],
    "Decoder.hidden": [(DENSE, {"model__hidden": 4096})],
    "Decoder.layers": [(DENSE, {"model__layers": 60})],
    "Decoder.heads": [(DENSE, {"model__heads": 32})],
    "Decoder.kv_heads": [(DENSE, {"model__kv_heads": 64})],
    "Decoder.head_dim": [(DENSE, {"model__head_dim": 64})],
    "Decoder.ffn": [(DENSE, {"model__ffn": 16384})],
    "Decoder.gated": [(DENSE, {"model__gated": False})],
    "Decoder.vocab": [(DENSE, {"model__vocab": 32000})],
    "Decoder.tied": [(changed(DENSE, parallel__pipeline=1, parallel__virtual_stages=1), {"model__tied": True})],
    "Decoder.positions": [(DENSE, {"model__positions": "learned"})],
    "Decoder.rope_scaling": [(DENSE, {"model__rope_scaling": "yarn"})],
    "Decoder.dropout": [(DENSE, {"model__dropout": True})],
    "Decoder.latent": [
        (
            DENSE,
            {"model__latent": {"query_rank": 1536, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}},
        )
    ],
    "Decoder.window": [(DENSE, {"model__window": {"tokens": 1024, "full_every": 0}})],
    "Decoder.experts": [(DENSE, {"model__experts": {"count": 8, "top_k": 2, "ffn": 14336}})],
    "Decoder.prediction_layers": [(DENSE, {"model__prediction_layers": 1})],
    "ExpertSizes.count": [(EXPERTS, {"model__experts__count": 16})],
    "ExpertSizes.top_k": [(EXPERTS, {"model__experts__top_k": 4})],
    "ExpertSizes.ffn": [(EXPERTS, {"model__experts__ffn": 7168})],
    "ExpertSizes.shared_ffn": [(EXPERTS, {"model__experts__shared_ffn": 7168})],
    "ExpertSizes.dense_layers": [(EXPERTS, {"model__experts__dense_layers": 8})],
    "ExpertSizes.groups": [(GROUPED, {"model__experts__groups": 4})],
    "ExpertSizes.top_groups": [(GROUPED, {"model__experts__top_groups": 2})],
    "ExpertSizes.every": [(EXPERTS, {"model__experts__every": 2})],
}
LATENT = changed(
    DENSE, model__latent={"query_rank": 1536, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}
)
for _key, _value in {"query_rank": 0, "kv_rank": 256, "nope_dim": 64, "rope_dim": 128, "value_dim": 64}.items():
    CASES[f"Latent.{_key}"] = [(LATENT, {f"model__latent__{_key}": _value})]
WINDOW = changed(DENSE, model__window={"tokens": 1024, "full_every": 0})
CASES["Window.tokens"] = [(WINDOW, {"model__window__tokens": 512})]
CASES["Window.full_every"] = [(WINDOW, {"model__window__full_every": 2})]


@pytest.mark.parametrize("key", CASES)
def test_every_key_changes_the_estimate(key):
    for base, changes in CASES[key]:
        assert told(changed(base, **changes)) != told(base), (key, changes)


def test_every_key_has_a_case():
    from syncline.estimate import Overlap

    models = (JobFile, JobCluster, JobParallel, JobBatch, JobOffload, Overlap, Decoder, Latent, Window, ExpertSizes)
    keys = {f"{model.__name__}.{name}" for model in models for name in model.model_fields}
    assert keys - {"JobFile.schema_", "JobFile.name"} == set(CASES)


def test_frameworks_are_those_with_constants():
    assert set(get_args(Framework)) == {each for found in shipped().values() for each in found.frameworks}


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"cluster__gpus": 500}, "cluster.gpus", '"nearest": "512"'),
        ({"batch__global_batch": 500}, "batch.global_batch", "496"),
        ({"batch__sequence": 8191}, "batch.sequence", "8192"),
        ({"parallel__tensor": 3, "cluster__gpus": 384, "batch__sequence": 8190}, "parallel.tensor", "divisors of 64"),
        ({"parallel__tensor": 3, "parallel__sequence_parallel": True}, "parallel.tensor", "divisors of 64"),
        ({"parallel__pipeline": 3}, "cluster.gpus", "or write pipeline: 2"),
        ({"model__layers": 1001}, "model.layers", "at most 1000"),
        ({"model__head_dim": 1 << 40}, "model.head_dim", "at most 1048576"),
        ({"model__hidden": 1 << 20, "model__ffn": 1 << 24}, "model", "too many parameters"),
        ({"model__heads": 63}, "model.heads", '"nearest": "64"'),
        ({"model__kv_heads": 7}, "model.kv_heads", '"nearest": "8"'),
        ({"batch__sequence": 1 << 20, "batch__micro_batch": 2048}, "batch.micro_batch", "at most 1024"),
        ({"parallel__pipeline": 64, "parallel__virtual_stages": 2}, "parallel.pipeline", "write pipeline: 32"),
        # A number of accelerators that 96 stages divide would be no remedy.
        ({"parallel__pipeline": 96, "parallel__virtual_stages": 1}, "parallel.pipeline", '"nearest": "64"'),
        ({"parallel__pipeline": 48, "parallel__virtual_stages": 3}, "parallel.pipeline", '"nearest": "16"'),
        (
            {"parallel__pipeline": 2, "parallel__virtual_stages": 90},
            "parallel.virtual_stages",
            "write virtual_stages: 41",
        ),
        ({"cluster__accelerator": "H101"}, "cluster.accelerator", "H100"),
        ({"cluster__accelerator": "A100", "precision": "fp8"}, "precision", "does not compute in fp8"),
        ({"cluster__accelerator": "A100", "framework": "nanotron"}, "framework", "megatron"),
        ({"cluster__nic_rate": "0Gb/s"}, "cluster.nic_rate", "above 0"),
        ({"cluster__memory": "0B"}, "cluster.memory", "above 0"),
        ({"cluster__nccl": "h100"}, "cluster.nccl", "h100-sxm"),
        ({"parallel__expert": 2}, "parallel.expert", "no experts"),
        ({"parallel__expert_tensor": 2}, "parallel.expert_tensor", "no experts"),
        ({"dispatcher": "fused"}, "dispatcher", "no experts"),
        ({"low_precision_parameters": True}, "low_precision_parameters", "write precision: fp8, mxfp8 or nvfp4"),
        ({"first_layers_bf16": 1}, "first_layers_bf16", "write precision: fp8, mxfp8 or nvfp4"),
        ({"precision": "fp8", "last_layers_bf16": 81}, "last_layers_bf16", "write last_layers_bf16: 80"),
        (
            {"precision": "fp8", "fp8_attention": True, "attention": "flash-attention-2"},
            "fp8_attention",
            "attention: flash-attention-2",
        ),
        ({"attention": "triton"}, "attention", "Megatron has no Triton attention"),
        ({"framework": "torchtitan", "parallel__zero": 1}, "parallel.zero", "write zero: 3"),
        ({"batch__global_batch": 160}, "batch.global_batch", "write global_batch: 192"),
        ({"dispatch_multiprocessors": 32}, "dispatch_multiprocessors", "needs dispatcher: fused"),
        ({"fused_experts": True}, "fused_experts", "no experts"),
        ({**EXPERTS, "fused_experts": True}, "fused_experts", "write precision: mxfp8"),
        ({"routing": "consecutive"}, "routing", "needs dispatcher: fused"),
        ({"model__positions": "alibi", "rope_fusion": False}, "rope_fusion", "leave out rope_fusion"),
        ({"model__positions": "alibi", "model__rope_scaling": "yarn"}, "model.rope_scaling", "leave out"),
        ({"overlap__experts": True}, "overlap.experts", "no experts"),
        ({"parallel__schedule": "zb-v"}, "parallel.virtual_stages", "write virtual_stages: 2"),
        ({"parallel__schedule": "zbv"}, "parallel.schedule", "zb-v"),
        (
            {"parallel__schedule": "dualpipe", "parallel__virtual_stages": 1, "batch__global_batch": 64},
            "batch.global_batch",
            "`write global_batch: 128`|128",
        ),
        ({"parallel__shard_group": 3}, "parallel.shard_group", "divisor of 32"),
        ({"model__experts": {"count": 4, "top_k": 8, "ffn": 8}}, "model.experts.top_k", "at most 4"),
        ({"parallel__tensr": 3}, "parallel.tensr", "tensor"),
        ({"model__hiden": 3}, "model.hiden", "hidden"),
        ({"recompute": "ful"}, "recompute", "full"),
        ({"lora_targets": "attention"}, "lora_targets", "needs lora"),
        ({"lora_experts": "shared"}, "lora_experts", "write lora: 16"),
        ({"lora": 16, "lora_experts": "shared"}, "lora_experts", "no experts"),
        ({"recompute_method": "block"}, "recompute_method", "write recompute: full"),
        ({"recompute": "full", "recompute_method": "block", "recompute_layers": 5}, "recompute_layers", "1 to 4"),
        ({"recompute": "selective", "recompute_modules": ["moe"]}, "recompute_modules", "no experts"),
        ({"offload": {"layers": 5}}, "offload.layers", "0 to 4"),
        ({"offload": {"optimizer": 1.5}}, "offload.optimizer", "at most 1"),
        ({"offload": {"modules": ["moe_act"]}}, "offload.modules", "no experts"),
    ],
)
def test_what_cannot_run_is_named_with_its_place(tmp_path, changes, key, said):
    from syncline.input.dump import dump
    from syncline.jobs import read_job

    file = tmp_path / "job.yaml"
    file.write_text(dump(changed(DENSE, **changes)))
    with pytest.raises(SynclineError) as found:
        read_job(str(file))
    first = found.value.diagnostics[0]
    assert first["key"] == key
    assert any(each in json.dumps(first) for each in said.split("|"))
    assert first["place"]["file"] == str(file)
    assert key.rpartition(".")[2] in first["place"]["text"]
    assert found.value.exit_status == 2


def test_a_machine_of_nccl_without_the_collectives_of_a_job_is_refused():
    """Only all-reduces were measured on Alps; without an error, the step would be no number."""
    with pytest.raises(SynclineError) as found:
        estimate(read(changed(DENSE, cluster__nccl="gh200-alps")))
    (problem,) = found.value.diagnostics
    assert problem["key"] == "cluster.nccl" and "it lacks all_gather, reduce_scatter" in problem["message"]


def test_the_command_prints_parts_and_memory(cli: Cli):
    from syncline.input.dump import dump

    cli.write("job.yaml", dump(DENSE))
    found = cli("estimate", "job.yaml")
    assert found.returncode == 0, found.stderr
    for each in ("512 H100-SXM5-80GB", "It fits", "matrix products", "activations", "Error bar: half of"):
        assert each in found.stdout, each
    parsed = json.loads(cli("estimate", "job.yaml", "--json").stdout)["estimate"]
    assert (parsed["step_s"], parsed["memory_bytes"]) == outcome(DENSE)[:2]
    small = json.loads(cli("estimate", "job.yaml", "--json", "--set", "parallel.tensor=2").stdout)["estimate"]
    assert small["job"]["tensor"] == 2
    assert small["job"]["data"] == 32


def test_a_job_is_simulated_beside_its_estimate(cli: Cli):
    from syncline.input.dump import dump

    cli.write("job.yaml", dump(DENSE))
    found = cli("estimate", "job.yaml", "--simulate")
    assert found.returncode == 0 and "\nsimulated: " in found.stdout
    told = json.loads(cli("estimate", "job.yaml", "--simulate", "--json").stdout)
    assert told["simulated"]["step_s"] == pytest.approx(told["estimate"]["step_s"], rel=0.05)
    assert told["simulated"]["not_simulated"] is None
    one = cli(
        "estimate", "job.yaml", "--simulate", "--set", "parallel.schedule=zb-h1", "--set", "parallel.virtual_stages=1"
    )
    assert one.returncode == 2
    for said in ("the schedule zb-h1 cannot be simulated", "parallel.schedule", "gpipe, 1f1b"):
        assert said in one.stderr, one.stderr


def test_interleaved_stages_take_as_many_micro_batches_at_a_time_as_there_are_stages(cli: Cli):
    from syncline.input.dump import dump

    # 4 stages, and 16 replicas: 8 micro-batches are 128 sequences, and 10 are 160.
    cli.write("job.yaml", dump(changed(DENSE, batch__global_batch=160)))
    for simulated in ((), ("--simulate",)):
        found = cli("estimate", "job.yaml", *simulated)
        assert found.returncode == 2
        for said in ("groups of 4, as many", "(10 micro-batches)", "128 or 192 sequences (8 or 12"):
            assert said in found.stderr, found.stderr
    assert "\nsimulated: " in cli("estimate", "job.yaml", "--simulate", "--set", "batch.global_batch=192").stdout


def test_a_job_that_does_not_fit_says_so(cli: Cli):
    from syncline.input.dump import dump

    cli.write("job.yaml", dump(changed(DENSE, parallel__pipeline=1, parallel__virtual_stages=1, parallel__zero=0)))
    found = cli("estimate", "job.yaml")
    assert found.returncode == 1
    assert "It does not fit" in found.stdout
    assert "what would make it fit" in found.stdout
    told = json.loads(cli("estimate", "job.yaml", "--json").stdout)
    assert told["exit_status"] == 1
    assert all(each["memory_bytes"] <= told["estimate"]["capacity_bytes"] for each in told["estimate"]["changes"])


def test_the_path_of_a_model_is_relative_to_the_job_file(cli: Cli):
    from syncline.input.dump import dump

    cli.write("jobs/llama/config.json", json.dumps(CONFIG))
    cli.write("jobs/job.yaml", dump({**DENSE, "model": "llama/config.json"}))
    assert cli("estimate", "jobs/job.yaml").stdout == cli("estimate", "jobs/job.yaml").stdout
    parsed = json.loads(cli("estimate", "jobs/job.yaml", "--json").stdout)["estimate"]
    assert (parsed["step_s"], parsed["memory_bytes"]) == outcome(DENSE)[:2]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("config.json", json.dumps(CONFIG), "syncline design parallel config.json"),
        ("scenario.yaml", "workload: { collective: all_reduce, bytes: 1MiB }", "syncline simulate scenario.yaml"),
        ("train.sh", "python pretrain_gpt.py --num-layers 32", "syncline convert megatron train.sh"),
    ],
)
def test_other_files_are_told_where_they_belong(cli: Cli, file, text, said):
    cli.write(file, text)
    found = cli("estimate", file)
    assert found.returncode == 2
    assert said in found.stderr and found.stderr.count("error[") == 1


def test_a_job_file_is_no_scenario(cli: Cli):
    cli.write("job.yaml", "schema: syncline-job/1\nmodel: llama3-8b\n")
    found = cli("simulate", "job.yaml")
    assert found.returncode == 2
    assert "syncline estimate job.yaml" in found.stderr and found.stderr.count("error[") == 1


def test_the_schema_for_editors_is_up_to_date_and_takes_job_files():
    import jsonschema

    from syncline.jobs import schema
    from tests.conftest import ROOT

    assert (ROOT / schema.FILE).read_text("utf-8") == schema.text(), "run `make schema`"
    for values in (DENSE, EXPERTS, {**DENSE, "model": "llama3-70b"}):
        jsonschema.validate(values, schema.build())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**DENSE, "recompute": "ful"}, schema.build())


def test_models_have_names():
    assert outcome({**DENSE, "model": "llama3-70b"}) == outcome(DENSE)
    with pytest.raises(SynclineError) as found:
        read({**DENSE, "model": "llama-3-70b"})
    assert found.value.diagnostics[0]["nearest"] == "llama3-70b"

"""Jobs of NeMo: each key becomes a key, is listed, or is an error; arguments of Megatron-LM name the same job."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.errors import SynclineError
from syncline.estimate import model_text
from syncline.input.dump import dump
from syncline.input.yaml import read
from syncline.jobs import estimate, read_job
from syncline.jobs.converted import AS_ASKED, NOT_MODELLED, WITHOUT_EFFECT
from syncline.jobs.keys import read_keys
from syncline.jobs.megatron.conversion import convert_megatron
from syncline.jobs.nemo.conversion import FILE, convert_nemo
from tests.conftest import Cli
from tests.jobs.nemo_file import LLAMA_70B
from tests.jobs.settings import changed, flat, named_in, names_of

KEYS = read_keys(FILE)
BASE = read(LLAMA_70B, "base.yaml").to_python()
MEGATRON = (
    "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention "
    "--num-query-groups 8 --swiglu --position-embedding-type rope --hidden-dropout 0 --attention-dropout 0 "
    "--untie-embeddings-and-output-weights --seq-length 8192 --micro-batch-size 1 --global-batch-size 512 --bf16 "
    "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 5 "
    "--context-parallel-size 2 --sequence-parallel --tp-comm-overlap --use-distributed-optimizer "
    "--overlap-grad-reduce --overlap-param-gather --grad-reduce-in-bf16"
)


@pytest.fixture
def convert(tmp_path):
    def made(values, **more):
        file = tmp_path / "train.yaml"
        file.write_text(values if isinstance(values, str) else dump(values))
        return convert_nemo(str(file), **{"vocab": 128256, **more})

    return made


def test_it_is_the_job_that_arguments_of_megatron_name(convert):
    found = convert(LLAMA_70B).job
    other = convert_megatron([MEGATRON], gpus=512, vocab=128256).job
    assert found.job == other.job
    assert model_text(found.architecture) == model_text(other.architecture)
    assert estimate(found).step_s == estimate(other).step_s


def test_the_command_writes_a_file_that_is_estimated_at_once(cli: Cli):
    cli.write("train.yaml", LLAMA_70B)
    found = cli("convert", "nemo", "train.yaml", "--vocab", "128256", "-o", "job.yaml")
    assert found.returncode == 0, found.stderr
    assert "Not modelled, and left out: model.cross_entropy_loss_fusion: true" in found.stderr
    text = (cli.folder / "job.yaml").read_text()
    assert re.search(r"gpus: 512 +# trainer.num_nodes: 64, trainer.devices: 8", text)
    assert re.search(r"tensor: 4 +# model.tensor_model_parallel_size: 4", text)
    assert read_job(str(cli.folder / "job.yaml")).job.virtual_stages == 5
    assert json.loads(cli("estimate", "job.yaml", "--json").stdout)["estimate"]["fits"]
    missing = cli("convert", "nemo", "train.yaml", "-o", "b.yaml")
    assert missing.returncode == 2 and "--vocab" in missing.stderr


def test_every_key_is_in_one_class():
    names = [*KEYS.mapped, *KEYS.without_effect, *KEYS.not_modelled, *KEYS.refused]
    assert len(names) == len(set(names))


ALONE = {
    "model.pipeline_model_parallel_size": 1,
    "model.virtual_pipeline_model_parallel_size": None,
    "model.sequence_parallel": False,
}
CHANGED = {
    "model.apply_rope_fusion": {"model.apply_rope_fusion": False},
    "trainer.num_nodes": {"trainer.num_nodes": 128},
    "trainer.devices": {"trainer.devices": 4},
    "trainer.precision": {"trainer.precision": "16-mixed"},
    "model.micro_batch_size": {"model.micro_batch_size": 2},
    "model.global_batch_size": {"model.global_batch_size": 1024},
    "model.tensor_model_parallel_size": {"model.tensor_model_parallel_size": 8},
    "model.pipeline_model_parallel_size": {"model.pipeline_model_parallel_size": 8},
    "model.virtual_pipeline_model_parallel_size": {"model.virtual_pipeline_model_parallel_size": 10},
    "model.context_parallel_size": {"model.context_parallel_size": 4},
    "model.expert_model_parallel_size": {"model.num_moe_experts": 8, "model.expert_model_parallel_size": 4},
    "model.sequence_parallel": {"model.sequence_parallel": False},
    "model.encoder_seq_length": {"model.encoder_seq_length": 4096},
    "model.num_layers": {"model.num_layers": 40},
    "model.hidden_size": {"model.hidden_size": 4096},
    "model.ffn_hidden_size": {"model.ffn_hidden_size": 16384},
    "model.num_attention_heads": {"model.num_attention_heads": 32},
    "model.num_query_groups": {"model.num_query_groups": 16},
    "model.kv_channels": {"model.kv_channels": 64},
    "model.hidden_dropout": {"model.hidden_dropout": 0.1},
    "model.attention_dropout": {"model.attention_dropout": 0.1},
    "model.make_vocab_size_divisible_by": {"model.make_vocab_size_divisible_by": 1024},
    "model.override_vocab_size": {"model.override_vocab_size": 32000},
    "model.activation": {"model.activation": "squared-relu"},
    "model.position_embedding_type": {"model.position_embedding_type": "learned_absolute"},
    "model.share_embeddings_and_output_weights": {"model.share_embeddings_and_output_weights": True},
    "model.activations_checkpoint_granularity": {"model.activations_checkpoint_granularity": "selective"},
    "model.activations_checkpoint_method": {
        "model.activations_checkpoint_granularity": "full",
        "model.activations_checkpoint_method": "block",
        "model.activations_checkpoint_num_layers": 3,
    },
    "model.activations_checkpoint_num_layers": {
        "model.activations_checkpoint_granularity": "full",
        "model.activations_checkpoint_method": "uniform",
        "model.activations_checkpoint_num_layers": 2,
    },
    "model.fp8": {"model.fp8": True},
    "model.fp8_hybrid": {"model.fp8": True, "model.fp8_hybrid": True},
    "model.fp8_e4m3": {"model.fp8": True, "model.fp8_e4m3": True},
    "model.fp8_params": {"model.fp8": True, "model.fp8_params": True},
    "model.fp8_dot_product_attention": {"model.fp8": True, "model.fp8_dot_product_attention": True},
    "model.fp8_multi_head_attention": {"model.fp8": True, "model.fp8_multi_head_attention": True},
    "model.transformer_engine": {
        "model.transformer_engine": False,
        "model.mcore_gpt": False,
        "model.use_flash_attention": False,
    },
    "model.use_flash_attention": {
        "model.transformer_engine": False,
        "model.mcore_gpt": False,
        "model.use_flash_attention": False,
    },
    "model.ub_tp_comm_overlap": {"model.ub_tp_comm_overlap": False},
    "model.overlap_p2p_comm": {"model.overlap_p2p_comm": False},
    "model.optim.name": {"model.optim.name": "fused_adam"},
    "model.optim.overlap_grad_sync": {"model.optim.overlap_grad_sync": False},
    "model.optim.overlap_param_sync": {"model.optim.overlap_param_sync": False},
    "model.megatron_amp_O2": {"model.megatron_amp_O2": False},
    "model.async_grad_allreduce": {"model.optim.name": "fused_adam", **ALONE, "model.async_grad_allreduce": False},
    "model.optim.grad_sync_dtype": {"model.optim.grad_sync_dtype": "fp32"},
    "model.num_moe_experts": {"model.num_moe_experts": 8},
    "model.moe_router_topk": {"model.num_moe_experts": 8, "model.moe_router_topk": 1},
    "model.window_size": {"model.window_size": [4095, 0]},
    "model.tokenizer.type": {"model.tokenizer.type": "GPT2BPETokenizer"},
    "model.enable_cuda_graph": {"model.enable_cuda_graph": True},
    "model.moe_token_dispatcher_type": {"model.num_moe_experts": 8, "model.moe_token_dispatcher_type": "flex"},
    "model.fsdp": {"model.fsdp": True},
    "model.fsdp_sharding_strategy": {"model.fsdp": True, "model.fsdp_sharding_strategy": "grad"},
    "model.cpu_offloading": {"model.cpu_offloading": True, "model.cpu_offloading_num_layers": 2},
    "model.cpu_offloading_num_layers": {"model.cpu_offloading": True, "model.cpu_offloading_num_layers": 2},
    "model.peft.peft_scheme": {"model.peft.peft_scheme": "lora"},
    "model.peft.lora_tuning.adapter_dim": {
        "model.peft.peft_scheme": "lora",
        "model.peft.lora_tuning.adapter_dim": 8,
    },
    "model.peft.lora_tuning.target_modules": {
        "model.peft.peft_scheme": "lora",
        "model.peft.lora_tuning.target_modules": ["all"],
    },
    "model.data.train_ds.max_seq_length": {
        "model.encoder_seq_length": None,
        "model.data.seq_length": None,
        "model.data.train_ds.max_seq_length": 4096,
    },
}
SAME_JOB = {"model.fp8_hybrid", "model.fp8_e4m3"}
"""Formats of 8 bits take the same time."""


def outcome(convert, values, **more):
    try:
        found = convert(values, **more)
    except SynclineError as problem:
        return str(problem)
    return found.job.job, model_text(found.job.architecture), found.warnings


@pytest.mark.parametrize("name", KEYS.mapped)
def test_every_mapped_key_changes_the_job(convert, name):
    whole = changed(BASE, CHANGED[name])
    before = BASE
    for key in name.split("."):
        before = before.get(key) if isinstance(before, dict) else None
    bare = changed(BASE, {**CHANGED[name], name: before})
    more = {"vocab": None} if name in ("model.override_vocab_size", "model.tokenizer.type") else {}
    assert (outcome(convert, whole, **more) != outcome(convert, bare, **more)) == (name not in SAME_JOB)


def test_gradients_overlap_as_each_optimizer_of_nemo_does(convert):
    """``MegatronGPTModel`` for Megatron Core, Apex for its own optimizer, and ``MainParamsOptimizerWrapper`` else."""

    def overlaps(changes):
        return convert(changed(BASE, {"model.optim.overlap_grad_sync": None, **changes})).job.job.overlap.gradients

    assert not overlaps({})
    assert overlaps({"model.optim.name": "distributed_fused_adam"})
    alone = {**ALONE, "model.optim.name": "fused_adam"}
    assert overlaps(alone)
    assert not overlaps({**alone, "model.async_grad_allreduce": False})
    assert not overlaps({**alone, "model.gradient_accumulation_fusion": True})
    assert not overlaps({**alone, "model.megatron_amp_O2": False})
    assert not overlaps({**alone, "model.sequence_parallel": True})
    assert not overlaps({"model.optim.name": "fused_adam"})


def test_products_overlap_only_with_sequence_parallelism(convert):
    assert convert(BASE).job.job.overlap.tensor
    assert not convert(changed(BASE, {"model.sequence_parallel": False})).job.job.overlap.tensor
    assert not convert(changed(BASE, {"model.fsdp": True})).job.job.overlap.tensor


def test_fine_tuning_of_adapters_is_a_job_of_a_named_model(convert):
    """``PEFTConfig`` and ``LoraPEFTConfig``; facts: NeMo-Framework-Launcher, conf/peft/llama/squad.yaml."""
    tuning = {
        "trainer": {"devices": 8, "num_nodes": 1, "precision": "bf16"},
        "model": {
            "global_batch_size": 128,
            "micro_batch_size": 4,
            "megatron_amp_O2": False,
            "mcore_gpt": True,
            "peft": {"peft_scheme": "lora", "adapter_tuning": {"adapter_dim": 64}},
            "data": {"train_ds": {"micro_batch_size": "${peft.model.micro_batch_size}", "max_seq_length": 4096}},
            "optim": {"name": "fused_adam"},
        },
    }

    def made(changes):
        found = convert(changed(tuning, changes), model="llama2-7b", vocab=None).job
        return found.job.adapters, found.job.adapted

    assert made({}) == (32, "qkv")
    assert made({"model.peft.peft_scheme": None}) == (None, "all")
    words = "model.peft.lora_tuning.target_modules"
    assert made({words: ["attention"]}) == (32, "attention")
    assert made({words: ["attention_dense", "attention_qkv"]}) == (32, "attention")
    assert made({words: ["all"], "model.peft.lora_tuning.adapter_dim": 16}) == (16, "all")
    whole = convert(tuning, model="llama2-7b", vocab=None).job
    assert (whole.job.sequence, whole.job.micro_batches, whole.architecture.layers) == (4096, 4, 32)
    for changes, said in (({words: ["mlp_fc1"]}, "only these products"), ({"model.peft.peft_scheme": "ia3"}, "LoRA")):
        with pytest.raises(SynclineError, match=said):
            made(changes)


def test_names_of_positions_may_have_capitals(convert):
    assert convert(changed(BASE, {"model.position_embedding_type": "ALiBi"})).job.architecture.positions == "alibi"


def test_parameters_of_32_bits_are_said(convert):
    assert not convert(BASE).warnings
    for value in (False, None):
        assert "32 bits" in convert(changed(BASE, {"model.megatron_amp_O2": value})).warnings[0]


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(sorted(each for each in (*KEYS.without_effect, *KEYS.not_modelled) if "." in each)),
        st.one_of(st.booleans(), st.integers(1, 9), st.sampled_from(["a", "b c"])),
        max_size=10,
    )
)
def test_no_key_is_dropped(tmp_path_factory, more):
    file = tmp_path_factory.mktemp("nemo") / "train.yaml"
    names = {f"{name}x" if name.endswith(".") else name: value for name, value in more.items()}
    values = changed(BASE, {name: value for name, value in names.items() if not _within(name)})
    file.write_text(dump(values))
    found = convert_nemo(str(file), vocab=128256)
    assert named_in(found) == sorted(dict(flat(values)))
    loud = {name for name in names if name in KEYS.not_modelled and not _within(name) and names[name] is not False}
    assert loud <= set(names_of(found.left_out[NOT_MODELLED]))
    assert not loud & set(names_of(found.left_out[WITHOUT_EFFECT]))


def _within(name):
    """Whether the base has keys below this name, or a value above it."""
    return any(each.startswith(f"{name}.") or name.startswith(f"{each}.") for each, _ in flat(BASE))


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"model.tensor_model_paralel_size": 8}, "model.tensor_model_paralel_size", "tensor_model_parallel_size"),
        ({"model.own": 8}, "model.own", "--ignore model.own"),
        ({"model.mcore_customization_config.x": 1}, "model.mcore_customization_config.x", "layers of its own"),
        ({"model.activation": "swigl"}, "model.activation", "swiglu"),
        ({"trainer.precision": 64}, "trainer.precision", "bf16"),
        ({"model.optim.name": "sgd"}, "model.optim.name", "fused_adam"),
        ({"model.num_layers": "${later}"}, "model.num_layers", "filled in when the job starts"),
        ({"model.context_parallel_size": 3}, "cluster.gpus", "trainer.num_nodes"),
        ({"model.tensor_model_parallel_size": 3}, "parallel.tensor", "tensor_model_parallel_size"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(convert, changes, key, said):
    with pytest.raises(SynclineError) as found:
        convert(changed(BASE, changes))
    first = found.value.diagnostics[0]
    assert first["key"].startswith(key) and said in json.dumps(first), first
    assert first["place"]["line"] > 0
    assert found.value.exit_status == 2


def test_references_have_the_values_of_what_they_name(convert):
    made = convert(changed(BASE, {"model.micro_batch_size": "${model.num_moe_experts}", "model.num_moe_experts": 2}))
    assert made.job.job.micro_batch == 2
    made = convert(changed(BASE, {"model.ffn_hidden_size": "${multiply:4, ${.hidden_size}}"}))
    assert made.job.architecture.ffn == 4 * 8192
    made = convert(changed(BASE, {"model.hidden_size": "${training.model.ffn_hidden_size}"}))
    assert made.job.architecture.hidden == 28672
    assert convert(changed(BASE, {"own": 1}), ignored=["own"]).left_out[AS_ASKED] == ("own: 1",)

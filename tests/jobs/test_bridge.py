"""Jobs of Megatron-Bridge: each key becomes a key, is listed, or is an error; Megatron-LM names the same job."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.errors import SynclineError
from syncline.estimate import model_text
from syncline.input.dump import dump
from syncline.jobs import estimate, read_job
from syncline.jobs.bridge.conversion import convert_bridge
from syncline.jobs.bridge.mapping import keys
from syncline.jobs.bridge.mapping.precision import RECIPES
from syncline.jobs.converted import NOT_MODELLED, WITHOUT_EFFECT
from syncline.jobs.megatron.conversion import convert_megatron
from syncline.models.architectures import named
from tests.conftest import ROOT, Cli
from tests.jobs.settings import changed, flat, named_in, names_of

BASE = {
    "_target_": "megatron.bridge.training.config.ConfigContainer",
    "model": {
        "_target_": "megatron.bridge.models.llama.llama_provider.LlamaModelProvider",
        "num_layers": 32,
        "hidden_size": 4096,
        "ffn_hidden_size": 14336,
        "num_attention_heads": 32,
        "num_query_groups": 8,
        "kv_channels": None,
        "seq_length": 8192,
        "vocab_size": 128256,
        "should_pad_vocab": True,
        "make_vocab_size_divisible_by": 128,
        "gated_linear_unit": True,
        "activation_func": {"_target_": "torch.nn.functional.silu", "_partial_": True},
        "normalization": "RMSNorm",
        "add_bias_linear": False,
        "position_embedding_type": "rope",
        "rotary_base": 500000,
        "share_embeddings_and_output_weights": False,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "tensor_model_parallel_size": 2,
        "pipeline_model_parallel_size": 2,
        "virtual_pipeline_model_parallel_size": 4,
        "context_parallel_size": 2,
        "sequence_parallel": True,
        "recompute_granularity": None,
        "num_moe_experts": None,
        "cross_entropy_loss_fusion": True,
        "bf16": True,
    },
    "train": {"_target_": "x", "micro_batch_size": 1, "global_batch_size": 128, "train_iters": 10},
    "ddp": {
        "use_distributed_optimizer": True,
        "overlap_grad_reduce": True,
        "overlap_param_gather": True,
        "grad_reduce_in_fp32": True,
        "average_in_collective": True,
    },
    "optimizer": {"optimizer": "adam", "lr": 1e-4, "use_distributed_optimizer": True},
    "scheduler": {"lr_warmup_iters": 10},
    "dataset": {"sequence_length": 8192, "num_workers": 8},
    "logger": {"log_interval": 1},
    "mixed_precision": "bf16_with_fp8_current_scaling_mixed",
    "comm_overlap": {"tp_comm_overlap": True},
}
MEGATRON = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --swiglu --position-embedding-type rope --hidden-dropout 0 --attention-dropout 0 "
    "--untie-embeddings-and-output-weights --seq-length 8192 --micro-batch-size 1 --global-batch-size 128 --bf16 "
    "--fp8-format hybrid --fp8-recipe tensorwise --fp8-param-gather --first-last-layers-bf16 "
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
    "--num-virtual-stages-per-pipeline-rank 4 --context-parallel-size 2 --sequence-parallel --tp-comm-overlap "
    "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --vocab-size 128256"
)


@pytest.fixture
def convert(tmp_path):
    def made(values, **more):
        file = tmp_path / "run_config.yaml"
        file.write_text(dump(values))
        return convert_bridge(str(file), **{"gpus": 64, **more})

    return made


def test_it_is_the_job_that_arguments_of_megatron_name(convert):
    found = convert(BASE).job
    other = convert_megatron([MEGATRON], gpus=64).job
    assert found.job == other.job
    assert model_text(found.architecture) == model_text(other.architecture)
    assert estimate(found).step_s == estimate(other).step_s


def test_the_command_writes_a_file_that_is_estimated_at_once(cli: Cli):
    cli.write("run_config.yaml", dump(BASE))
    found = cli("convert", "bridge", "run_config.yaml", "--gpus", "64", "-o", "job.yaml")
    assert found.returncode == 0, found.stderr
    assert "model.cross_entropy_loss_fusion: true" in found.stderr
    text = (cli.folder / "job.yaml").read_text()
    assert re.search(r"precision: fp8 +# mixed_precision: bf16_with_fp8_current_scaling_mixed", text)
    assert read_job(str(cli.folder / "job.yaml")).job.tensor == 2
    assert json.loads(cli("estimate", "job.yaml", "--json").stdout)["estimate"]["fits"]
    assert "--gpus N" in cli("convert", "bridge", "run_config.yaml", "-o", "b.yaml").stderr


def test_overrides_of_a_recipe_need_the_model(convert):
    override = {
        "model": {"tensor_model_parallel_size": 8, "num_layers": 80, "seq_length": 4096},
        "train": {"micro_batch_size": 1, "global_batch_size": 64},
        "mixed_precision": "bf16_mixed",
    }
    found = convert(override, model="llama3-70b").job
    assert found.architecture == named("llama3-70b")
    assert found.job.tensor == 8
    with pytest.raises(SynclineError, match="missing"):
        convert(override)


def test_a_file_of_overrides_has_the_defaults_of_recipes(convert):
    """``_pretrain_common``, ``_sft_common`` and ``_peft_common`` of ``recipes/common.py``."""
    override = {"model": {"seq_length": 4096}, "train": {"micro_batch_size": 1, "global_batch_size": 64}}

    def made(changes):
        found = convert(changed(override, changes), model="llama3-8b").job.job
        return found.precision, found.gradient_bytes, found.zero, found.overlap.gradients, found.overlap.parameters

    assert made({}) == ("bf16", 4, 1, True, True)
    assert made({"peft.dim": 8}) == ("bf16", 4, 1, False, False)
    assert made({"checkpoint.pretrained_checkpoint": "a"}) == ("bf16", 4, 1, False, False)
    assert made({"mixed_precision": "bf16_with_fp8_current_scaling_mixed"})[0] == "fp8"
    assert made({"ddp.use_megatron_fsdp": True})[2] == 3
    assert made({"ddp.overlap_grad_reduce": False, "ddp.overlap_param_gather": False})[3:] == (False, False)
    said = convert(override, model="llama3-8b").warnings
    assert "tensor_model_parallel_size" in said[0] and "count as 1" in said[0]
    assert (
        "tensor_model_parallel_size"
        not in convert(changed(override, {"model.tensor_model_parallel_size": 2}), model="llama3-8b").warnings[0]
    )


def test_overrides_may_divide_the_experts_of_a_named_model(convert):
    """Experts are in the recipe, and so in the model that ``--model`` names, but not in the file."""
    override = {
        "model": {
            "seq_length": 4096,
            "pipeline_model_parallel_size": 8,
            "expert_model_parallel_size": 8,
            "moe_token_dispatcher_type": "flex",
            "moe_flex_dispatcher_backend": "deepep",
            "overlap_moe_expert_parallel_comm": True,
        },
        "train": {"micro_batch_size": 1, "global_batch_size": 64},
    }
    job = convert(override, model="deepseek-v3").job.job
    assert (job.expert, job.expert_tensor, job.dispatcher, job.overlap.experts) == (8, 1, "fused", True)
    with pytest.raises(SynclineError, match="no experts"):
        convert(override, model="llama3-70b")


def test_the_file_finds_the_model_from_its_own_folder(cli: Cli):
    cli.write("model/config.json", (ROOT / "examples/llama-3-70b/config.json").read_text())
    cli.write("jobs/x", "")
    override = {"model": {"seq_length": 4096}, "train": {"micro_batch_size": 1, "global_batch_size": 64}}
    cli.write("bridge.yaml", dump(override))
    for out in ("here.yaml", "jobs/there.yaml"):
        found = cli("convert", "bridge", "bridge.yaml", "--gpus", "64", "--model", "model/config.json", "-o", out)
        assert found.returncode == 0, found.stderr
        assert cli("estimate", out, "--json").returncode in (0, 1)
    assert "model: model/config.json " in (cli.folder / "here.yaml").read_text()


def test_every_key_is_in_one_class():
    known = keys()
    names = [*known.mapped, *known.without_effect, *known.not_modelled, *known.refused]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_of_precision_sets_the_type_of_linear_layers(convert, recipe):
    found = convert(changed(BASE, {"mixed_precision": recipe}), accelerator="B200").job.job
    wanted = {"nvfp4": "nvfp4", "mxfp8": "mxfp8"}
    assert found.precision == next((each for name, each in wanted.items() if name in recipe), None) or (
        found.precision == ("fp8" if "fp8" in recipe else recipe[:4])
    )


def test_overlap_of_the_container_replaces_that_of_its_parts(convert):
    assert convert(BASE).job.job.overlap.gradients
    assert not convert(changed(BASE, {"comm_overlap.overlap_grad_reduce": False})).job.job.overlap.gradients
    assert convert(changed(BASE, {"comm_overlap": {}, "model.tp_comm_overlap": True})).job.job.overlap.tensor
    assert not convert(changed(BASE, {"comm_overlap": {}})).job.job.overlap.tensor


def test_the_overlap_of_the_container_has_defaults_of_its_own(convert):
    """``CommOverlapConfig.setup``: a distributed optimizer overlaps, whatever ``ddp`` says, and so do chunks."""
    quiet = {"ddp.overlap_grad_reduce": False, "ddp.overlap_param_gather": False, "model.overlap_p2p_comm": False}
    found = convert(changed(BASE, quiet)).job.job.overlap
    assert (found.tensor, found.gradients, found.parameters, found.pipeline) == (True, True, True, True)
    one = {"optimizer.use_distributed_optimizer": False, "ddp.use_distributed_optimizer": False}
    alone = convert(changed(BASE, {**quiet, **one})).job.job.overlap
    assert (alone.gradients, alone.parameters) == (False, False)
    without = convert(changed(BASE, {**quiet, "comm_overlap": None})).job.job.overlap
    assert (without.tensor, without.gradients, without.parameters, without.pipeline) == (False, False, False, False)
    assert not convert(changed(BASE, {"model.sequence_parallel": False})).job.job.overlap.tensor
    assert not convert(changed(BASE, {"comm_overlap": None})).job.job.overlap.pipeline
    assert convert(changed(BASE, {"comm_overlap": None, "model.overlap_p2p_comm": True})).job.job.overlap.pipeline


def test_a_mixed_precision_replaces_what_model_and_ddp_say(convert):
    """``MixedPrecisionConfig.setup`` writes its fields over those of model, optimizer and ``ddp``."""

    def found(changes):
        made = convert(changed(BASE, changes)).job.job
        return made.precision, made.gradient_bytes

    assert found({"ddp.grad_reduce_in_fp32": False}) == ("fp8", 4)
    assert found({"mixed_precision": "bf16-mixed", "model.fp8": "hybrid"}) == ("bf16", 4)
    assert found({"mixed_precision": "fp16_mixed", "model.bf16": None}) == ("fp16", 2)
    section = {"bf16": True, "grad_reduce_in_fp32": False}
    assert found({"mixed_precision": section}) == ("bf16", 2)
    assert found({"mixed_precision": {"bf16": True}, "ddp.grad_reduce_in_fp32": False}) == ("bf16", 4)
    assert found({"mixed_precision": {"bf16": True, "fp8": "hybrid"}}) == ("fp8", 4)
    assert found({"mixed_precision": None}) == ("bf16", 4)
    assert found({"mixed_precision": None, "ddp.grad_reduce_in_fp32": None}) == ("bf16", 2)


def test_attention_of_8_bits_is_that_of_the_mixed_precision(convert):
    """``MixedPrecisionConfig.setup`` writes its own value over that of ``model``; recipes by name have none."""

    def fp8_attention(changes):
        return convert(changed(BASE, changes)).job.job.fp8_attention

    section = {"bf16": True, "fp8": "hybrid", "fp8_recipe": "tensorwise"}
    assert fp8_attention({"mixed_precision": {**section, "fp8_dot_product_attention": True}})
    assert not fp8_attention({"mixed_precision": section, "model.fp8_dot_product_attention": True})
    assert not fp8_attention({"model.fp8_dot_product_attention": True})
    plain = {"mixed_precision": None, "model.fp8": "hybrid", "model.fp8_multi_head_attention": True}
    assert fp8_attention(plain) and not fp8_attention({**plain, "model.fp8_recipe": "tensorwise"})
    with pytest.raises(SynclineError, match="no FP8 attention"):
        fp8_attention({**plain, "model.fp8_recipe": "blockwise"})


def test_parameters_of_8_bits_are_those_of_the_mixed_precision(convert):
    """Recipes of tensors and MX have them (``mixed_precision.py``), those of blocks do not; a section says so."""

    def low_precision(changes, accelerator="B200"):
        return convert(changed(BASE, changes), accelerator=accelerator).job.job.low_precision_parameters

    for recipe, wanted in (
        ("bf16_mixed", False),
        ("bf16_with_fp8_delayed_scaling_mixed", True),
        ("fp16_with_fp8_current_scaling_mixed", True),
        ("bf16_with_fp8_subchannel_scaling_mixed", False),
        ("bf16-with-mxfp8-mixed", True),
        ("bf16_with_nvfp4_mixed", True),
        ("nanov2_bf16_with_fp8_current_scaling_mixed", True),
    ):
        assert low_precision({"mixed_precision": recipe}) is wanted, recipe
    eight = {"bf16": True, "fp8": "hybrid"}
    assert not low_precision({"mixed_precision": eight})
    assert low_precision({"mixed_precision": {**eight, "fp8_param_gather": True}})
    # The class sets `fp8_param_gather` last, and with it `fp8_param`.
    assert not low_precision({"mixed_precision": {**eight, "fp8_param": True}})
    assert not low_precision({"mixed_precision": eight, "ddp.fp8_param_gather": True, "model.fp8_param": True})
    plain = {"mixed_precision": None, "model.fp8": "hybrid"}
    assert low_precision({**plain, "ddp.fp8_param_gather": True}) and low_precision({**plain, "model.fp8_param": True})
    assert not low_precision(plain)


def test_layers_at_both_ends_are_those_of_the_mixed_precision(convert):
    """Recipes say how many (``mixed_precision.py``); a section has none by default, ``model`` alone one at each end."""

    def in_bf16(changes):
        made = convert(changed(BASE, changes), accelerator="B200").job.job
        return made.first_layers_bf16, made.last_layers_bf16

    for recipe, wanted in (
        ("bf16_with_fp8_delayed_scaling_mixed", (0, 0)),
        ("fp16-with-fp8-current-scaling-mixed", (1, 1)),
        ("nemotron_h_bf16_with_fp8_current_scaling_mixed", (2, 2)),
        ("nemotron_3_super_bf16_with_nvfp4_mixed", (0, 14)),
        ("bf16_with_mxfp8_mixed", (0, 0)),
    ):
        assert in_bf16({"mixed_precision": recipe}) == wanted, recipe
    eight = {"bf16": True, "fp8": "hybrid"}
    both = {**eight, "first_last_layers_bf16": True}
    assert in_bf16({"mixed_precision": both}) == (0, 0)
    assert in_bf16({"mixed_precision": {**both, "num_layers_at_end_in_bf16": 4}}) == (0, 4)
    assert in_bf16({"mixed_precision": eight, "model.first_last_layers_bf16": True}) == (0, 0)
    model = {"mixed_precision": None, "model.fp8": "hybrid", "model.fp8_recipe": "mxfp8"}
    assert in_bf16({**model, "model.first_last_layers_bf16": True}) == (1, 1)
    assert in_bf16({**model, "model.num_layers_at_start_in_bf16": 3}) == (0, 0)


def test_only_the_vocabulary_of_a_tokenizer_is_padded(convert):
    """``_validate_and_set_vocab_size``: a model's own number is divided by two ranks; 128,257 are padded to 128,512."""

    def vocab(changes):
        made = convert(changed(BASE, changes)).job
        multiple = made.job.vocab_multiple * made.job.tensor
        return -(-made.architecture.vocab // multiple) * multiple

    own = {"model.vocab_size": 128257, "model.tensor_model_parallel_size": 2}
    assert vocab({**own, "model.should_pad_vocab": True}) == 128512
    assert vocab({**own, "model.should_pad_vocab": None}) == 128258
    tokenizer = {"model.vocab_size": None, "model.should_pad_vocab": None, "tokenizer.vocab_size": 128257}
    assert vocab(tokenizer) == 128512


def test_types_and_enumerations_are_read_as_files_write_them(convert):
    def dtype(name):
        return {"_target_": f"torch.{name}", "_call_": False}

    optimizer = {"optimizer.use_precision_aware_optimizer": True}
    assert convert(changed(BASE, optimizer)).job.job.moment_bytes == 4
    half = {**optimizer, "optimizer.exp_avg_dtype": dtype("bfloat16"), "optimizer.exp_avg_sq_dtype": dtype("bfloat16")}
    assert convert(changed(BASE, half)).job.job.moment_bytes == 2
    assert convert(changed(BASE, {**optimizer, "optimizer.exp_avg_dtype": "torch.uint8"})).job.job.moment_bytes == 1
    backend = "megatron.core.transformer.enums.AttnBackend"
    for number, wanted in ((1, True), (2, True), (3, False), (4, False), (5, True)):
        member = {"_target_": backend, "_call_": True, "_args_": [number]}
        assert convert(changed(BASE, {"model.attention_backend": member})).job.job.fused_attention == wanted
    assert not convert(changed(BASE, {"model.attention_backend": "unfused"})).job.job.fused_attention


def test_rotations_are_fused_unless_a_file_says_otherwise(convert):
    for value, wanted in ((None, True), (True, True), (False, False)):
        assert convert(changed(BASE, {"model.apply_rope_fusion": value})).job.job.rope_fusion == wanted


def test_sharding_is_switched_on_by_dist_or_ddp(convert):
    whole = {"ddp.data_parallel_sharding_strategy": "optim_grads_params", "model.pipeline_model_parallel_size": 1}
    whole["model.virtual_pipeline_model_parallel_size"] = None
    for key in ("dist.use_megatron_fsdp", "ddp.use_megatron_fsdp"):
        found = convert(changed(BASE, {**whole, key: True})).job.job
        assert (found.zero, found.gradient_bytes) == (3, 4)
        values = changed(BASE, {**whole, key: True})
        values["ddp"].update({"megatron_fsdp_main_grads_dtype": None})
        assert convert(values).job.job.gradient_bytes == 2
    assert convert(changed(BASE, {**whole, "dist.use_torch_fsdp2": True})).job.job.zero == 3


def test_experts_share_an_adapter_or_have_one_each(convert):
    """``LoRA`` of ``peft/lora.py``: beside ``linear_fc1`` and ``linear_fc2`` of experts, too, and shared by default."""

    def adapters(peft, **changes):
        values = {"model.num_moe_experts": 8, "model.moe_ffn_hidden_size": 4096, "peft": {"dim": 8, **peft}, **changes}
        return convert(changed(BASE, values)).job.job.expert_adapters

    assert adapters({}) == "shared"
    assert adapters({"share_expert_adapters": True}) == "shared"
    assert adapters({"share_expert_adapters": False}) == "each"
    assert adapters({"target_modules": ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"]}) == "shared"
    assert adapters({"target_modules": ["linear_qkv", "linear_proj"]}) == "none"
    assert adapters({}, **{"model.num_moe_experts": None, "model.moe_ffn_hidden_size": None}) == "none"


def test_types_of_gradients_and_adapters_are_mapped(convert):
    assert convert(BASE).job.job.gradient_bytes == 4
    assert convert(changed(BASE, {"peft": {"dim": 16, "alpha": 32}})).job.job.adapters == 16
    assert convert(changed(BASE, {"peft": {"alpha": 32}})).job.job.adapters == 32
    attention = {"dim": 8, "target_modules": ["linear_proj", "linear_qkv"]}
    assert convert(changed(BASE, {"peft": attention})).job.job.adapted == "attention"
    with pytest.raises(SynclineError, match="adapters of only these modules"):
        convert(changed(BASE, {"peft": {"dim": 8, "target_modules": ["linear_fc1"]}}))


def test_layers_modules_and_states_of_the_optimizer_are_offloaded(convert):
    def offload(changes):
        found = convert(changed(BASE, changes)).job.job.offload
        return found.layers, found.modules, found.optimizer

    assert offload({}) == (0, [], 0.0)
    assert offload({"model.cpu_offloading": True, "model.cpu_offloading_num_layers": 3}) == (3, [], 0.0)
    assert offload({"model.cpu_offloading": False, "model.cpu_offloading_num_layers": 3}) == (0, [], 0.0)
    weights = {"model.cpu_offloading": True, "model.cpu_offloading_activations": False}
    assert offload({**weights, "model.cpu_offloading_num_layers": 3}) == (0, [], 0.0)
    fine = {"model.fine_grained_activation_offloading": True, "model.offload_modules": ["core_attn", "mlp_norm"]}
    assert offload(fine) == (0, ["core_attention", "mlp_norm"], 0.0)
    states = {"optimizer.optimizer_cpu_offload": True}
    assert offload(states) == (0, [], 0.0)
    assert offload({**states, "optimizer.optimizer_offload_fraction": 0.5}) == (0, [], 0.5)


def test_a_layout_as_lists_of_words_is_one_of_letters(convert):
    layout = [["embedding", *["decoder"] * 16], [*["decoder"] * 16, "loss"]]
    found = convert(
        changed(
            BASE, {"model.pipeline_model_parallel_layout": layout, "model.virtual_pipeline_model_parallel_size": None}
        )
    ).job.job
    assert (found.split, found.virtual_stages) == ("even", 1)


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from(
            sorted(
                each
                for each in (*keys().without_effect, *keys().not_modelled)
                if each.count(".") == 1 and not each.endswith(".") and not each.startswith("mixed_precision")
            )
        ),
        st.one_of(st.booleans(), st.integers(1, 9), st.sampled_from(["a", "b c"])),
        max_size=12,
    )
)
def test_no_key_is_dropped(tmp_path_factory, more):
    file = tmp_path_factory.mktemp("bridge") / "run_config.yaml"
    values = changed(BASE, more)
    file.write_text(dump(values))
    found = convert_bridge(str(file), gpus=64)
    assert named_in(found) == sorted(dict(flat(values)))
    loud = {name for name in more if name in keys().not_modelled and more[name] is not False}
    assert loud <= set(names_of(found.left_out[NOT_MODELLED]))
    assert not loud & set(names_of(found.left_out[WITHOUT_EFFECT]))


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"model.tensor_model_paralel_size": 8}, "model.tensor_model_paralel_size", "tensor_model_parallel_size"),
        ({"model.own": 8}, "model.own", "--ignore model.own"),
        ({"model.is_hybrid_model": True}, "model.is_hybrid_model", "state-space layers"),
        ({"mixed_precision": "bf16_mix"}, "mixed_precision", "bf16_mixed"),
        ({"optimizer.optimizer": "muon"}, "optimizer.optimizer", "adam"),
        ({"model.context_parallel_size": 3}, "cluster.gpus", "--gpus 64"),
        ({"model.tensor_model_parallel_size": 3}, "parallel.tensor", "tensor_model_parallel_size"),
        ({"train.global_batch_size": 100}, "batch.global_batch", "train.global_batch_size"),
    ],
)
def test_what_cannot_be_used_is_named(convert, changes, key, said):
    with pytest.raises(SynclineError) as found:
        convert(changed(BASE, changes))
    first = found.value.diagnostics[0]
    assert first["key"].startswith(key) and said in json.dumps(first), first
    assert found.value.exit_status == 2


def test_only_a_vocabulary_of_the_tokenizer_is_padded_if_nothing_says_so(convert):
    def multiple(**values: object) -> int:
        return convert(changed(BASE, values)).job.job.vocab_multiple

    without = {"model.should_pad_vocab": None}
    assert multiple(**without) == 1
    assert multiple(**without, **{"model.vocab_size": None, "tokenizer.vocab_size": 128000}) == 128
    assert multiple(**{"model.should_pad_vocab": False, "model.vocab_size": None, "tokenizer.vocab_size": 9}) == 128
    assert multiple(**{"model.make_vocab_size_divisible_by": 64}) == 64

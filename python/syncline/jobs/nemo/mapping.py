"""Which setting of Megatron-LM each key of NeMo's YAML file is.

Defaults and rules are those of NeMo 1 (``MegatronGPTModel`` and ``NLPDDPStrategy``), which trains with Megatron Core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.jobs.megatron.renamed import Renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.settings import Setting, Settings

SAME: Mapping[str, str] = {
    "model.micro_batch_size": "micro-batch-size",
    "model.global_batch_size": "global-batch-size",
    "model.tensor_model_parallel_size": "tensor-model-parallel-size",
    "model.pipeline_model_parallel_size": "pipeline-model-parallel-size",
    "model.virtual_pipeline_model_parallel_size": "virtual-pipeline-model-parallel-size",
    "model.context_parallel_size": "context-parallel-size",
    "model.expert_model_parallel_size": "expert-model-parallel-size",
    "model.sequence_parallel": "sequence-parallel",
    "model.encoder_seq_length": "seq-length",
    "model.num_layers": "num-layers",
    "model.hidden_size": "hidden-size",
    "model.ffn_hidden_size": "ffn-hidden-size",
    "model.num_attention_heads": "num-attention-heads",
    "model.kv_channels": "kv-channels",
    "model.hidden_dropout": "hidden-dropout",
    "model.attention_dropout": "attention-dropout",
    "model.make_vocab_size_divisible_by": "make-vocab-size-divisible-by",
    "model.override_vocab_size": "vocab-size",
    "model.activations_checkpoint_granularity": "recompute-granularity",
    "model.activations_checkpoint_method": "recompute-method",
    "model.activations_checkpoint_num_layers": "recompute-num-layers",
    "model.ub_tp_comm_overlap": "tp-comm-overlap",
    "model.optim.overlap_param_sync": "overlap-param-gather",
    "model.num_moe_experts": "num-experts",
    "model.moe_router_topk": "moe-router-topk",
    "model.window_size": "window-size",
    "model.tokenizer.type": "tokenizer-type",
    "model.moe_token_dispatcher_type": "moe-token-dispatcher-type",
    "model.enable_cuda_graph": "enable-cuda-graph",
    "model.cpu_offloading_num_layers": "cpu-offloading-num-layers",
}
"""Keys whose values are those of an argument of Megatron-LM."""
_ZERO = (
    "model.activations_checkpoint_num_layers",
    "model.override_vocab_size",
    "model.cpu_offloading_num_layers",
)
"""Keys of which 0 means that they are absent."""
GATED = ("swiglu", "fast-swiglu", "geglu", "fast-geglu", "reglu", "fast-reglu")
PLAIN = ("gelu", "approx-gelu", "openai-gelu", "relu", "squared-relu", "silu", "swish", "tanh")
"""Activations with a gate, and without."""
OPTIMIZERS: Mapping[str, bool] = {
    "distributed_fused_adam": True,
    "mcore_distributed_optim": True,
    "fused_adam": False,
    "adam": False,
    "adamw": False,
    "megatron_fused_adam": False,
}
"""Optimizers, and whether they divide their states among data-parallel ranks."""


def megatron(settings: Settings) -> dict[str, Setting]:
    """The settings as those of Megatron-LM by the names of its arguments; notes problems."""
    renamed = Renamed(settings)
    put, default = renamed.put, renamed.default
    for key, name in SAME.items():
        settings.used.add(key)
        if settings.has(key) and not settings.found[key].off and (key not in _ZERO or settings.found[key].value != 0):
            put(name, key, value=settings.found[key].value)
    length = "model.data.train_ds.max_seq_length"
    settings.used.add(length)
    if settings.has(length) and "seq-length" not in renamed.found:
        put("seq-length", length, value=settings.found[length].value)
    for key in ("model.hidden_dropout", "model.attention_dropout"):
        if not settings.has(key):
            default(SAME[key], "default of NeMo: 0.1", value=0.1)
    if not settings.flag("model.cpu_offloading"):
        renamed.found.pop("cpu-offloading-num-layers", None)
    groups = settings.whole("model.num_query_groups")
    if groups is not None:
        put("group-query-attention", "model.num_query_groups")
        put("num-query-groups", "model.num_query_groups", value=groups)
    activation = settings.word("model.activation", *GATED, *PLAIN, default="gelu") or "gelu"
    if activation in GATED:
        put("swiglu" if "swiglu" in activation else "gated-linear-unit", "model.activation")
    shared = settings.raw("model.share_embeddings_and_output_weights")
    if shared is False:
        put("untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights")
    positions = "model.position_embedding_type"
    if settings.word(positions) is not None:
        put("position-embedding-type", positions, value=str(settings.raw(positions)).lower())
    elif settings.has(positions):
        settings.bad(positions, "rope, learned_absolute, alibi")
    fusion = "model.apply_rope_fusion"
    if settings.has(fusion) and not settings.flag(fusion):
        put("no-rope-fusion", fusion)
    _precision(renamed)
    _optimizer(renamed)
    _overlap(renamed)
    overlaps = settings.flag("model.overlap_p2p_comm")
    if settings.has("model.overlap_p2p_comm") and not overlaps:
        put("no-overlap-p2p-communication", "model.overlap_p2p_comm")
    elif not overlaps:
        default("no-overlap-p2p-communication", "default of NeMo: no overlap_p2p_comm")
    engine, flash = settings.flag("model.transformer_engine"), settings.flag("model.use_flash_attention")
    if flash:
        put("use-flash-attn", "model.use_flash_attention")
    elif not engine and not settings.flag("model.mcore_gpt"):
        default("transformer-impl", "default of NeMo without Transformer Engine", value="local")
    return renamed.found


def _precision(renamed: Renamed) -> None:
    settings, put = renamed.given, renamed.put
    name = "trainer.precision"
    kind = str(settings.raw(name) or "32").removesuffix("-mixed").removesuffix("-true")
    if kind in ("bf16", "16", "fp16"):
        put("bf16" if kind == "bf16" else "fp16", name)
    elif settings.has(name):
        settings.bad(name, "bf16, bf16-mixed, 16, 16-mixed")
        put("bf16", name)
    eight = settings.flag("model.fp8")
    hybrid, e4m3 = settings.flag("model.fp8_hybrid"), settings.flag("model.fp8_e4m3")
    if eight:
        put("fp8-format", "model.fp8", value="hybrid" if hybrid or not e4m3 else "e4m3")
    if settings.flag("model.fp8_params") and eight:
        put("fp8-param-gather", "model.fp8_params")
    for name in ("fp8_dot_product_attention", "fp8_multi_head_attention"):
        if settings.flag(f"model.{name}"):
            put(name.replace("_", "-"), f"model.{name}")


def _optimizer(renamed: Renamed) -> None:
    settings, put = renamed.given, renamed.put
    name = settings.word("model.optim.name", *OPTIMIZERS, default="fused_adam")
    if settings.flag("model.fsdp"):
        strategy = settings.word("model.fsdp_sharding_strategy", "full", "grad", default="full")
        put("use-megatron-fsdp", "model.fsdp")
        put(
            "data-parallel-sharding-strategy",
            "model.fsdp_sharding_strategy" if settings.has("model.fsdp_sharding_strategy") else "model.fsdp",
            value="optim_grads_params" if strategy == "full" else "optim_grads",
        )
    elif name is not None and OPTIMIZERS[name]:
        put("use-distributed-optimizer", "model.optim.name")
    settings.raw("model.fsdp_sharding_strategy")
    kind = settings.raw("model.optim.grad_sync_dtype")
    if kind in ("bf16", "bfloat16"):
        put("grad-reduce-in-bf16", "model.optim.grad_sync_dtype")
    elif kind not in (None, "fp32", "float32", 32):
        settings.bad("model.optim.grad_sync_dtype", "bf16, fp32")
    elif kind is not None:
        put("accumulate-allreduce-grads-in-fp32", "model.optim.grad_sync_dtype")


def _overlap(renamed: Renamed) -> None:
    """Overlap of gradients has a default for each optimizer, and products need sequence parallelism."""
    settings = renamed.given
    name, optimizer = "model.optim.overlap_grad_sync", settings.word("model.optim.name", default="fused_adam")
    divided = OPTIMIZERS.get(optimizer or "", False) or settings.flag("model.fsdp")
    sequence = (
        settings.flag("model.sequence_parallel") and (settings.whole("model.tensor_model_parallel_size") or 1) > 1
    )
    if divided:
        if settings.raw(name) is None and optimizer == "distributed_fused_adam":
            renamed.default("overlap-grad-reduce", "default of Apex: distributed_fused_adam overlaps")
        elif settings.flag(name):
            renamed.put("overlap-grad-reduce", name)
    else:
        # One gradient after another, unless a pipeline, sequence parallelism or a fusion forbids it.
        settings.used.add(name)
        key = "model.async_grad_allreduce"
        alone = (settings.whole("model.pipeline_model_parallel_size") or 1) == 1 and not sequence
        wanted = settings.raw(key) is None or settings.flag(key)
        if alone and wanted and _is(settings, "model.megatron_amp_O2") and not _is(settings, _FUSED):
            renamed.default("overlap-grad-reduce", "default of NeMo: async_grad_allreduce")
    if not sequence or settings.flag("model.fsdp"):
        renamed.found.pop("tp-comm-overlap", None)


def _is(settings: Settings, name: str) -> bool:
    """Whether a switch is on that stays in the list of what is not modelled."""
    return settings.has(name) and settings.found[name].value is True


_FUSED = "model.gradient_accumulation_fusion"
RANK = 32
"""Rank of adapters that ``peft.lora_tuning`` does not say."""
_TARGETS: Mapping[str, frozenset[str]] = {
    "attention_qkv": frozenset(("qkv",)),
    "attention_dense": frozenset(("dense",)),
    "attention": frozenset(("qkv", "dense")),
    "mlp_fc1": frozenset(("fc1",)),
    "mlp_fc2": frozenset(("fc2",)),
    "mlp": frozenset(("fc1", "fc2")),
    "all": frozenset(("qkv", "dense", "fc1", "fc2")),
}
"""Words of ``target_modules``, and the products that they name."""
TARGETS: Mapping[frozenset[str], str] = {
    _TARGETS["all"]: "all",
    _TARGETS["attention"]: "attention",
    _TARGETS["attention_qkv"]: "qkv",
}
"""Products that adapters are beside, and their names in job files."""


def adapted(given: Settings, settings: Settings) -> None:
    """Sets the adapters of ``peft``; by default, those of queries, keys and values."""
    key = "model.peft.peft_scheme"
    scheme = given.word(key)
    rank, targets = "model.peft.lora_tuning.adapter_dim", "model.peft.lora_tuning.target_modules"
    given.used.update((rank, targets))
    if scheme in (None, "null", "none"):
        return
    if scheme != "lora":
        given.problem(key, "only LoRA adapters can be estimated", allowed="lora, null")
        return
    said = given.said(rank) or f"default of NeMo: {RANK}"
    settings.put("lora", given.whole(rank, RANK), note=said)
    words = given.raw(targets) or ["attention_qkv"]
    chosen = [_TARGETS.get(str(each)) for each in (words if isinstance(words, list) else [words])]
    known = frozenset().union(*(each for each in chosen if each is not None))
    if None in chosen or known not in TARGETS:
        given.problem(
            targets,
            "adapters of only these products cannot be estimated",
            allowed="all, attention, attention_qkv",
        )
        return
    note = given.said(targets) or "default of NeMo: attention_qkv"
    settings.put("lora_targets", TARGETS[known], note=note)
    if given.whole("model.num_moe_experts") and known & {"fc1", "fc2"}:
        settings.warnings.append("adapters of experts cannot be estimated")


SPELLED: Mapping[str, str] = {
    **{argument: key for key, argument in SAME.items()},
    "bf16": "trainer.precision: bf16",
}
"""How settings of Megatron-LM are written in NeMo's file, for what is missing."""

"""Which setting of Megatron-LM each key of Megatron-Bridge's YAML file is.

Keys of ``model`` are fields of Megatron Core's ``TransformerConfig``: arguments of Megatron-LM with underscores, but
for those here. Defaults are those of ``GPTModelProvider``, ``DistributedDataParallelConfig`` and ``CommOverlapConfig``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from syncline.jobs.keys import Keys, read_keys
from syncline.jobs.megatron.arguments import arguments
from syncline.jobs.megatron.renamed import Renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.settings import Setting, Settings

FILE = "bridge-keys.yaml"
RECIPES: Mapping[str, tuple[str, str | None]] = {
    "bf16_mixed": ("bf16", None),
    "fp16_mixed": ("fp16", None),
    "bf16_with_fp8_delayed_scaling_mixed": ("bf16", "delayed"),
    "bf16_with_fp8_current_scaling_mixed": ("bf16", "tensorwise"),
    "bf16_with_fp8_subchannel_scaling_mixed": ("bf16", "blockwise"),
    "bf16_with_mxfp8_mixed": ("bf16", "mxfp8"),
    "bf16_with_nvfp4_mixed": ("bf16", "nvfp4"),
}
"""Names of ``mixed_precision``: the type between linear layers, and the recipe of linear layers."""
_UNLIKE = {
    "model.num_moe_experts": "num-experts",
    "model.fp8": "fp8-format",
    "model.fp4": "fp4-format",
    "train.micro_batch_size": "micro-batch-size",
    "train.global_batch_size": "global-batch-size",
    "ddp.use_megatron_fsdp": "use-megatron-fsdp",
    "ddp.use_custom_fsdp": "use-custom-fsdp",
    "ddp.data_parallel_sharding_strategy": "data-parallel-sharding-strategy",
    "ddp.num_distributed_optimizer_instances": "num-distributed-optimizer-instances",
    "optimizer.optimizer": "optimizer",
    "optimizer.optimizer_cpu_offload": "optimizer-cpu-offload",
    "optimizer.optimizer_offload_fraction": "optimizer-offload-fraction",
    "optimizer.overlap_cpu_optimizer_d2h_h2d": "overlap-cpu-optimizer-d2h-h2d",
}
"""Keys of other names than the argument's."""
_SPECIAL = frozenset(
    ("model.num_query_groups", "model.bf16", "model.fp16", "model.tokenizer_type", "model.group_query_attention")
)


@cache
def keys() -> Keys:
    """All keys: those of the file, and arguments of Megatron-LM below ``model``."""
    own, known = read_keys(FILE), arguments()

    def below(names: Any) -> list[str]:
        listed = {f"model.{name.replace('-', '_')}" for name in names}
        return sorted(listed - own.all)

    return Keys(
        mapped=[*own.mapped, *below(known.mapped)],
        without_effect=[*own.without_effect, *below(known.without_effect)],
        not_modelled=[*own.not_modelled, *below(known.not_modelled)],
        refused={name: known.refused[name[6:].replace("_", "-")] for name in below(known.refused)},
    )


def megatron(settings: Settings) -> dict[str, Setting]:
    """The settings as those of Megatron-LM by the names of its arguments; notes problems."""
    renamed = Renamed(settings)
    put, found = renamed.put, renamed.found
    names = {**{f"model.{name.replace('-', '_')}": name for name in arguments().mapped}, **_UNLIKE}
    for key, name in names.items():
        if key in _SPECIAL or not settings.has(key):
            continue
        settings.used.add(key)
        if not settings.found[key].off:
            put(name, key, value=settings.found[key].value)
    _offload(renamed)
    heads, groups = settings.whole("model.num_attention_heads"), settings.whole("model.num_query_groups")
    if groups is not None and groups != heads:
        put("group-query-attention", "model.num_query_groups")
        put("num-query-groups", "model.num_query_groups", value=groups)
    if settings.raw("model.share_embeddings_and_output_weights") is False:
        put("untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights")
    for key in ("dataset.seq_length", "dataset.sequence_length"):
        if settings.has(key) and "seq-length" not in found:
            put("seq-length", key, value=settings.raw(key))
        settings.used.add(key)
    if "vocab-size" not in found and (size := settings.whole("tokenizer.vocab_size")) is not None:
        put("vocab-size", "tokenizer.vocab_size", value=size)
    settings.used.add("tokenizer.vocab_size")
    if settings.has("model.should_pad_vocab") and not settings.flag("model.should_pad_vocab"):
        put("no-pad-vocab-size", "model.should_pad_vocab")
    _layout(renamed)
    _precision(renamed)
    _exchange(renamed)
    _overlap(renamed)
    return found


def _offload(renamed: Renamed) -> None:
    """Layers need their switch, and a part of the optimizer is 0 by default (``OptimizerConfig``)."""
    settings, found = renamed.given, renamed.found
    kept = settings.has("model.cpu_offloading_activations") and not settings.flag("model.cpu_offloading_activations")
    if not settings.flag("model.cpu_offloading") or kept:
        found.pop("cpu-offloading-num-layers", None)
    if "optimizer-cpu-offload" in found and "optimizer-offload-fraction" not in found:
        renamed.default("optimizer-offload-fraction", "default of Megatron-Bridge", value=0.0)


def _layout(renamed: Renamed) -> None:
    """A layout as lists of words is one of letters."""
    settings = renamed.given
    key, name = "model.pipeline_model_parallel_layout", "pipeline-model-parallel-layout"
    value = settings.found[key].value if settings.has(key) else None
    letters = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
    if isinstance(value, list) and all(isinstance(each, list) and set(each) <= set(letters) for each in value):
        text = "|".join("".join(letters[each] for each in part) for part in value)
        renamed.put(name, key, value=text)


def _precision(renamed: Renamed) -> None:
    settings, put = renamed.given, renamed.put
    recipe = settings.word("mixed_precision", *RECIPES) if settings.has("mixed_precision") else None
    if recipe is not None:
        half, narrow = RECIPES[recipe]
        put(half, "mixed_precision")
        if narrow == "nvfp4":
            put("fp4-format", "mixed_precision", value="e2m1")
        elif narrow is not None:
            put("fp8-format", "mixed_precision", value="hybrid")
            put("fp8-recipe", "mixed_precision", value=narrow)
    # The mixed precision of the container replaces that of the model.
    above = recipe is not None or any(settings.flag(f"mixed_precision.{name}") for name in ("bf16", "fp16"))
    for name in ("bf16", "fp16"):
        key = f"mixed_precision.{name}" if above else f"model.{name}"
        settings.used.add(f"model.{name}")
        if recipe is None and settings.flag(key):
            put(name, key)
    if settings.word("mixed_precision.fp8") is not None:
        put("fp8-format", "mixed_precision.fp8", value=settings.found["mixed_precision.fp8"].value)
        kind = settings.word("mixed_precision.fp8_recipe", default="tensorwise")
        said = "mixed_precision.fp8_recipe" if settings.has("mixed_precision.fp8_recipe") else "mixed_precision.fp8"
        put("fp8-recipe", said, value=kind)
    if settings.word("mixed_precision.fp4") is not None:
        put("fp4-format", "mixed_precision.fp4", value=settings.found["mixed_precision.fp4"].value)
    settings.raw("mixed_precision.fp8_recipe")


def _exchange(renamed: Renamed) -> None:
    settings, put = renamed.given, renamed.put
    for key in ("ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"):
        if settings.flag(key):
            put("use-distributed-optimizer", key)
    wide = [
        key
        for key in ("mixed_precision.grad_reduce_in_fp32", "ddp.grad_reduce_in_fp32")
        if settings.raw(key) is not None
    ]
    if wide:
        on = settings.flag(wide[0])
        put("accumulate-allreduce-grads-in-fp32" if on else "grad-reduce-in-bf16", wide[0])


def _overlap(renamed: Renamed) -> None:
    """``comm_overlap`` replaces what ``model`` and ``ddp`` say."""
    settings, put = renamed.given, renamed.put
    for name, below in (
        ("tp_comm_overlap", "model.tp_comm_overlap"),
        ("overlap_grad_reduce", "ddp.overlap_grad_reduce"),
        ("overlap_param_gather", "ddp.overlap_param_gather"),
        ("overlap_moe_expert_parallel_comm", "model.overlap_moe_expert_parallel_comm"),
    ):
        above = f"comm_overlap.{name}"
        key = above if settings.raw(above) is not None else below
        argument = name.replace("_", "-")
        settings.used.add(below)
        renamed.found.pop(argument, None)
        if settings.flag(key):
            put(argument, key)
    above, below = "comm_overlap.overlap_p2p_comm", "model.overlap_p2p_comm"
    key = above if settings.raw(above) is not None else below
    settings.used.add(below)
    if settings.has(key) and not settings.flag(key):
        put("no-overlap-p2p-communication", key)


def adapted(given: Settings, settings: Settings) -> None:
    """Sets the products that have adapters, by the modules that ``peft`` names; without any, all."""
    key = "peft.target_modules"
    modules = frozenset(map(str, given.raw(key) or ()))
    if not modules:
        return
    if (found := TARGETS.get(modules)) is None:
        given.problem(
            key,
            "estimates do not have adapters of these modules alone",
            allowed="; ".join(", ".join(sorted(each)) for each in TARGETS),
        )
        return
    settings.put("lora_targets", found, note=given.said(key))


TARGETS: Mapping[frozenset[str], str] = {
    frozenset(("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")): "all",
    frozenset(("linear_qkv", "linear_proj")): "attention",
    frozenset(("linear_qkv",)): "qkv",
}
"""Modules of Megatron Core that adapters are beside, and their names in job files."""
SPELLED: Mapping[str, str] = {
    **{name: f"model.{name.replace('-', '_')}" for name in arguments().mapped},
    **{argument: key for key, argument in _UNLIKE.items()},
    "bf16": "mixed_precision: bf16_mixed",
}
"""How settings of Megatron-LM are written in Megatron-Bridge's file, for what is missing."""

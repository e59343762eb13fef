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
from syncline.jobs.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.settings import Settings

FILE = "bridge-keys.yaml"
_HALVES = ("bf16", "fp16")
_FP8_RECIPES: Mapping[str, str | None] = {
    "mixed": None,
    "with_fp8_delayed_scaling_mixed": "delayed",
    "with_fp8_current_scaling_mixed": "tensorwise",
    "with_fp8_subchannel_scaling_mixed": "blockwise",
    "with_mxfp8_mixed": "mxfp8",
}
RECIPES: Mapping[str, tuple[str, str | None]] = {
    **{f"{half}_{name}": (half, recipe) for half in _HALVES for name, recipe in _FP8_RECIPES.items()},
    "bf16_with_nvfp4_mixed": ("bf16", "nvfp4"),
    "nemotron_h_bf16_with_fp8_current_scaling_mixed": ("bf16", "tensorwise"),
    "nanov2_bf16_with_fp8_current_scaling_mixed": ("bf16", "blockwise"),
    "nemotron_3_super_bf16_with_nvfp4_mixed": ("bf16", "nvfp4"),
}
"""Names of ``mixed_precision``: the type between linear layers, and the recipe of linear layers. Their words may have
hyphens between them."""
_BF16_PARAMETERS = tuple(f"{half}_with_fp8_subchannel_scaling_mixed" for half in _HALVES)
"""Recipes of 8 bits that keep and gather parameters of 16 bits; those of 4 bits do not."""
_WIDTHS = ("fp8", "fp4")
_BF16_KEYS = ("first_last_layers_bf16", "num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16")
"""Layers at both ends that stay in BF16: whether, and how many."""
_BF16_LAYERS: Mapping[str, tuple[int, int]] = {
    **{f"{half}_with_fp8_current_scaling_mixed": (1, 1) for half in _HALVES},
    **dict.fromkeys(
        ("nemotron_h_bf16_with_fp8_current_scaling_mixed", "nanov2_bf16_with_fp8_current_scaling_mixed"), (2, 2)
    ),
    "nemotron_3_super_bf16_with_nvfp4_mixed": (0, 14),
}
"""How many of these layers a recipe has. Their class has none at either end by default, where Megatron Core has one."""
_FP8_ATTENTION = ("fp8_dot_product_attention", "fp8_multi_head_attention")
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
    "dist.use_torch_fsdp2": "use-torch-fsdp2",
    "optimizer.optimizer": "optimizer",
    "optimizer.optimizer_cpu_offload": "optimizer-cpu-offload",
    "optimizer.optimizer_offload_fraction": "optimizer-offload-fraction",
    "optimizer.overlap_cpu_optimizer_d2h_h2d": "overlap-cpu-optimizer-d2h-h2d",
}
"""Keys of other names than the argument's."""
_TYPES: Mapping[str, str] = {
    "ddp.megatron_fsdp_main_grads_dtype": "megatron-fsdp-main-grads-dtype",
    "ddp.megatron_fsdp_grad_comm_dtype": "megatron-fsdp-grad-comm-dtype",
    "optimizer.main_grads_dtype": "main-grads-dtype",
    "optimizer.exp_avg_dtype": "exp-avg-dtype",
    "optimizer.exp_avg_sq_dtype": "exp-avg-sq-dtype",
}
"""Keys whose values are types of PyTorch, which files write as ``_target_: torch.float32``."""
_WORDS: Mapping[str, str] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "uint8": "fp8"}
"""Types of PyTorch, and how arguments of Megatron-LM write them."""
BACKENDS = ("flash", "fused", "unfused", "local", "auto")
"""Names of ``AttnBackend`` of Megatron Core, whose numbers from 1 files write."""
_SPECIAL = frozenset(
    (
        "model.num_query_groups",
        "model.bf16",
        "model.fp16",
        "model.tokenizer_type",
        "model.group_query_attention",
        "model.attention_backend",
        "model.fp8",
        "model.fp8_recipe",
        "model.fp4",
        "model.fp8_dot_product_attention",
        "model.fp8_multi_head_attention",
        "model.fp8_param",
        "model.fp8_param_gather",
        *(f"model.{name}" for name in _BF16_KEYS),
        "ddp.use_megatron_fsdp",
    )
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


def recipe(found: Mapping[str, Setting]) -> dict[str, Setting]:
    """What recipes set and a file of overrides does not say, by the functions of ``recipes/common.py``.

    Those that fine-tune have a checkpoint, or adapters, and do not overlap.
    """
    tunes = any(name.startswith("peft.") and not each.off for name, each in found.items())
    tunes = tunes or ("checkpoint.pretrained_checkpoint" in found and not found["checkpoint.pretrained_checkpoint"].off)
    values: dict[str, Any] = {"optimizer.use_distributed_optimizer": True}
    if not any(name.partition(".")[0] == "mixed_precision" for name in found):
        values["mixed_precision"] = "bf16_mixed"
    if not tunes:
        values["ddp.overlap_grad_reduce"] = values["ddp.overlap_param_gather"] = True
        values["ddp.data_parallel_sharding_strategy"] = "optim_grads_params"
    return {
        name: Setting(value, f"default of recipes: {name}", None) for name, value in values.items() if name not in found
    }


DEGREES = (
    "model.tensor_model_parallel_size",
    "model.pipeline_model_parallel_size",
    "model.context_parallel_size",
    "model.expert_model_parallel_size",
)
"""Keys that count as 1 where a file of overrides does not have them, whatever its recipe says."""


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
    _vocabulary(renamed)
    _layout(renamed)
    _backend(renamed)
    _sharding(renamed)
    _precision(renamed)
    _types(renamed)
    _overlap(renamed)
    return found


def _vocabulary(renamed: Renamed) -> None:
    """A vocabulary of the tokenizer is padded; one of the model if ``should_pad_vocab`` says so.

    Source: ``validate_and_set_vocab_size`` in ``vocab_utils.py``.
    """
    settings, found = renamed.given, renamed.found
    size, pads = settings.whole("tokenizer.vocab_size"), settings.flag("model.should_pad_vocab")
    if "vocab-size" in found and not pads:
        key = "model.should_pad_vocab" if settings.has("model.should_pad_vocab") else "model.vocab_size"
        renamed.put("no-pad-vocab-size", key)
    elif "vocab-size" not in found and size is not None:
        renamed.put("vocab-size", "tokenizer.vocab_size", value=size)


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


def _backend(renamed: Renamed) -> None:
    """A member of an enumeration is its number, or its name."""
    key, below = "model.attention_backend", "model.attention_backend._args_"
    if renamed.given.word(key) is not None:
        renamed.put("attention-backend", key, value=renamed.given.raw(key))
    number = renamed.given.raw(below)
    if isinstance(number, list) and number and number[0] in range(1, len(BACKENDS) + 1):
        renamed.put("attention-backend", below, value=BACKENDS[number[0] - 1])


def _precision(renamed: Renamed) -> None:
    """``mixed_precision`` replaces what ``model`` says."""
    settings, put = renamed.given, renamed.put
    said = settings.raw("mixed_precision")
    settings.used.update(("model.bf16", "model.fp16", "model.fp8", "model.fp4", "model.fp8_recipe"))
    settings.used.update(f"model.{name}" for name in (*_FP8_ATTENTION, *_BF16_KEYS))
    settings.used.update(
        f"{each}.{width}_param{end}" for each in ("model", "ddp") for width in _WIDTHS for end in ("", "_gather")
    )
    if said is not None:
        _recipe(renamed, str(said).replace("-", "_"))
        return
    above = any(name.startswith("mixed_precision.") for name in settings.found)
    before = "mixed_precision" if above else "model"
    for name in _HALVES:
        if settings.flag(f"{before}.{name}"):
            put(name, f"{before}.{name}")
    key, kind = f"{before}.fp8", f"{before}.fp8_recipe"
    if settings.word(key) is not None:
        put("fp8-format", key, value=settings.found[key].value)
        default = "tensorwise" if above else "delayed"
        put("fp8-recipe", kind if settings.has(kind) else key, value=settings.word(kind, default=default))
    if settings.word(f"{before}.fp4") is not None:
        put("fp4-format", f"{before}.fp4", value=settings.found[f"{before}.fp4"].value)
    for name in _FP8_ATTENTION:
        if settings.flag(f"{before}.{name}"):
            put(name.replace("_", "-"), f"{before}.{name}")
    _parameters(renamed, "mixed_precision" if above else "ddp")
    _bf16_layers(renamed, before, 0 if above else 1)
    settings.raw("mixed_precision.fp8_recipe")
    key = f"{'mixed_precision' if above else 'ddp'}.grad_reduce_in_fp32"
    _exchange(renamed, key, fp32=above if settings.raw(key) is None else settings.flag(key))


def _parameters(renamed: Renamed, before: str) -> None:
    """Parameters of 8 or 4 bits. ``fp8_param`` and ``fp8_param_gather`` are always equal; the latter is set last."""
    settings = renamed.given
    for width in _WIDTHS:
        names = [f"{before}.{width}_param_gather", *([] if before == "mixed_precision" else [f"model.{width}_param"])]
        settings.used.update((*names, f"{before}.{width}_param"))
        for name in names:
            if settings.flag(name):
                renamed.put(f"{width}-param-gather", name)
                break


def _bf16_layers(renamed: Renamed, before: str, each: int) -> None:
    """Layers at both ends that stay in BF16: ``each`` at each by default."""
    settings = renamed.given
    switch, *counts = (f"{before}.{name}" for name in _BF16_KEYS)
    if settings.flag(switch):
        renamed.put("first-last-layers-bf16", switch)
        for name, said in zip(_BF16_KEYS[1:], counts, strict=True):
            number = settings.whole(said, each, least=0)
            renamed.put(name.replace("_", "-"), said if settings.has(said) else switch, value=number)


def _recipe(renamed: Renamed, name: str) -> None:
    put, key = renamed.put, "mixed_precision"
    if name not in RECIPES:
        renamed.given.bad(key, ", ".join(RECIPES))
        return
    half, recipe = RECIPES[name]
    put(half, key)
    if recipe == "nvfp4":
        put("fp4-format", key, value="e2m1")
        put("fp4-param-gather", key)
    elif recipe is not None:
        put("fp8-format", key, value="hybrid")
        put("fp8-recipe", key, value=recipe)
        if name not in _BF16_PARAMETERS:
            put("fp8-param-gather", key)
    if name in _BF16_LAYERS:
        put("first-last-layers-bf16", key)
        for argument, number in zip(_BF16_KEYS[1:], _BF16_LAYERS[name], strict=True):
            put(argument.replace("_", "-"), key, value=number)
    _exchange(renamed, key, fp32=half == "bf16")


def _exchange(renamed: Renamed, key: str, *, fp32: bool) -> None:
    """The type of gradients, of which ``key`` decides."""
    renamed.given.used.add("ddp.grad_reduce_in_fp32")
    argument = "accumulate-allreduce-grads-in-fp32" if fp32 else "grad-reduce-in-bf16"
    if "use-megatron-fsdp" in renamed.found or (not fp32 and "fp16" in renamed.found):
        # Megatron-FSDP has types of its own, and training in these 16 bits has its gradients in them.
        return
    if renamed.given.raw(key) is None:
        renamed.default(argument, f"default of Megatron-Bridge: {key}: {str(fp32).lower()}")
    else:
        renamed.put(argument, key)


def _sharding(renamed: Renamed) -> None:
    settings, put = renamed.given, renamed.put
    for key in ("ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"):
        if settings.flag(key):
            put("use-distributed-optimizer", key)
    for key in ("dist.use_megatron_fsdp", "ddp.use_megatron_fsdp"):
        if settings.flag(key):
            # Files of before Megatron Core 0.17 do not have the types of its gradients.
            own = any(name.startswith("ddp.megatron_fsdp_main_grads_dtype") for name in settings.found)
            put("use-megatron-fsdp" if own else "use-custom-fsdp", key)


def _types(renamed: Renamed) -> None:
    settings = renamed.given
    if settings.flag("optimizer.use_precision_aware_optimizer"):
        renamed.put("use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer")
    for key, argument in _TYPES.items():
        for name in (key, f"{key}._target_"):
            text = settings.word(name)
            if text is not None:
                word = text.removeprefix("torch.")
                renamed.put(argument, name, value=_WORDS.get(word, word))
        settings.used.update((key, f"{key}._call_"))


def _overlap(renamed: Renamed) -> None:
    """``comm_overlap`` replaces what ``model`` and ``ddp`` say, with defaults of its own.

    With it, gradients and parameters overlap if the optimizer is distributed, and so does an interleaved pipeline.
    """
    settings, put = renamed.given, renamed.put
    whole = any(name.startswith("comm_overlap.") and not each.off for name, each in settings.found.items())
    shared = "use-distributed-optimizer" in renamed.found
    for name, below, on in (
        ("tp_comm_overlap", "model.tp_comm_overlap", False),
        ("overlap_grad_reduce", "ddp.overlap_grad_reduce", shared),
        ("overlap_param_gather", "ddp.overlap_param_gather", shared),
        ("overlap_moe_expert_parallel_comm", "model.overlap_moe_expert_parallel_comm", False),
    ):
        above, argument = f"comm_overlap.{name}", name.replace("_", "-")
        # Without a distributed optimizer it leaves what `ddp` says.
        replaced = whole and (shared or not below.startswith("ddp."))
        settings.used.add(below)
        renamed.found.pop(argument, None)
        if replaced and settings.raw(above) is None:
            if on:
                renamed.default(argument, "default of comm_overlap")
        elif settings.flag(above if replaced else below):
            put(argument, above if replaced else below)
        settings.used.add(above)
    if whole and ((settings.whole("model.tensor_model_parallel_size") or 1) < 2 or not settings.flag(_SEQUENCE)):
        renamed.found.pop("tp-comm-overlap", None)
    above, below = "comm_overlap.overlap_p2p_comm", "model.overlap_p2p_comm"
    key = above if whole else below
    settings.used.update((above, below))
    if settings.raw(key) is None and not whole:
        renamed.default("no-overlap-p2p-communication", "default of Megatron-Bridge without comm_overlap")
    elif settings.raw(key) is not None and not settings.flag(key):
        put("no-overlap-p2p-communication", key)


_SEQUENCE = "model.sequence_parallel"


def adapted(given: Settings, settings: Settings, *, experts: bool) -> None:
    """Sets the products that have adapters, by the modules that ``peft`` names; without any, all.

    Those of experts are among them (``peft/lora.py``), which share one unless ``share_expert_adapters`` is off.
    """
    key, shared = "peft.target_modules", "peft.share_expert_adapters"
    modules = frozenset(map(str, given.raw(key) or ()))
    if (experts or given.whole("model.num_moe_experts")) and (not modules or modules & {"linear_fc1", "linear_fc2"}):
        each = given.has(shared) and not given.flag(shared)
        note = given.said(shared) or "default of Megatron-Bridge: share_expert_adapters"
        settings.put("lora_experts", "each" if each else "shared", note=note)
    if not modules:
        return
    if (found := TARGETS.get(modules)) is None:
        given.problem(
            key,
            "adapters of only these modules cannot be estimated",
            allowed="; ".join(", ".join(sorted(each)) for each in TARGETS),
        )
        return
    settings.put("lora_targets", found, note=given.said(key))


RANK = 32
"""Rank of adapters that ``peft`` does not say."""
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

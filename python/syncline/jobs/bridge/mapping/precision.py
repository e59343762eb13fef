"""Data types, and the recipes of ``mixed_precision``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.megatron.renamed import Renamed

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
"""Recipes by the name in ``mixed_precision``: the type of activations, and the recipe of linear layers (None: the same
type). Files may write hyphens for underscores."""
_BF16_PARAMETERS = tuple(f"{half}_with_fp8_subchannel_scaling_mixed" for half in _HALVES)
"""FP8 recipes that keep and gather parameters in 16 bits."""
_WIDTHS = ("fp8", "fp4")
BF16_KEYS = ("first_last_layers_bf16", "num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16")
"""Keys of layers that stay in BF16: the switch, and how many at the start and at the end."""
_BF16_LAYERS: Mapping[str, tuple[int, int]] = {
    **{f"{half}_with_fp8_current_scaling_mixed": (1, 1) for half in _HALVES},
    **dict.fromkeys(
        ("nemotron_h_bf16_with_fp8_current_scaling_mixed", "nanov2_bf16_with_fp8_current_scaling_mixed"), (2, 2)
    ),
    "nemotron_3_super_bf16_with_nvfp4_mixed": (0, 14),
}
"""Layers at the start and at the end that stay in BF16, by recipe. Others have none; Megatron Core has one at each."""
_FP8_ATTENTION = ("fp8_dot_product_attention", "fp8_multi_head_attention")
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


def products(renamed: Renamed) -> None:
    """The types of linear layers, parameters and gradients: ``mixed_precision`` replaces what ``model`` says."""
    settings = renamed.given
    name = settings.raw("mixed_precision")
    settings.used.update(("model.bf16", "model.fp16", "model.fp8", "model.fp4", "model.fp8_recipe"))
    settings.used.update(f"model.{name}" for name in (*_FP8_ATTENTION, *BF16_KEYS))
    settings.used.update(
        f"{each}.{width}_param{end}" for each in ("model", "ddp") for width in _WIDTHS for end in ("", "_gather")
    )
    if name is not None:
        _recipe(renamed, str(name).replace("-", "_"))
    elif any(each.startswith("mixed_precision.") for each in settings.found):
        _linear_layers(renamed, "mixed_precision", default_recipe="tensorwise")
        _parameters(renamed, "mixed_precision")
        _bf16_layers(renamed, "mixed_precision", default=0)
        settings.raw("mixed_precision.fp8_recipe")
        _gradients(renamed, "mixed_precision", default_fp32=True)
    else:
        _linear_layers(renamed, "model", default_recipe="delayed")
        _parameters(renamed, "ddp")
        _bf16_layers(renamed, "model", default=1)
        settings.raw("mixed_precision.fp8_recipe")
        _gradients(renamed, "ddp", default_fp32=False)


def _linear_layers(renamed: Renamed, section: str, default_recipe: str) -> None:
    """The type of linear layers and attention, by the keys of a section."""
    settings, put = renamed.given, renamed.put
    for name in _HALVES:
        if settings.flag(f"{section}.{name}"):
            put(name, f"{section}.{name}")
    key, recipe = f"{section}.fp8", f"{section}.fp8_recipe"
    if settings.word(key) is not None:
        put("fp8-format", key, value=settings.found[key].value)
        put("fp8-recipe", recipe if settings.has(recipe) else key, value=settings.word(recipe, default=default_recipe))
    if settings.word(f"{section}.fp4") is not None:
        put("fp4-format", f"{section}.fp4", value=settings.found[f"{section}.fp4"].value)
    for name in _FP8_ATTENTION:
        if settings.flag(f"{section}.{name}"):
            put(name.replace("_", "-"), f"{section}.{name}")


def _recipe(renamed: Renamed, name: str) -> None:
    """All types, by the name of a recipe."""
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
        for argument, number in zip(BF16_KEYS[1:], _BF16_LAYERS[name], strict=True):
            put(argument.replace("_", "-"), key, value=number)
    _gradients_of(renamed, key, fp32=half == "bf16")


def _parameters(renamed: Renamed, section: str) -> None:
    """Parameters in FP8 or FP4. ``fp8_param`` and ``fp8_param_gather`` mean the same; the latter wins."""
    settings = renamed.given
    for width in _WIDTHS:
        names = [f"{section}.{width}_param_gather", *([] if section == "mixed_precision" else [f"model.{width}_param"])]
        settings.used.update((*names, f"{section}.{width}_param"))
        for name in names:
            if settings.flag(name):
                renamed.put(f"{width}-param-gather", name)
                break


def _bf16_layers(renamed: Renamed, section: str, default: int) -> None:
    """Layers at both ends that stay in BF16: by default, ``default`` at each."""
    settings = renamed.given
    switch, *counts = (f"{section}.{name}" for name in BF16_KEYS)
    if settings.flag(switch):
        renamed.put("first-last-layers-bf16", switch)
        for name, key in zip(BF16_KEYS[1:], counts, strict=True):
            number = settings.whole(key, default, least=0)
            renamed.put(name.replace("_", "-"), key if settings.has(key) else switch, value=number)


def _gradients(renamed: Renamed, section: str, *, default_fp32: bool) -> None:
    """The type of gradients, by a key of a section."""
    key = f"{section}.grad_reduce_in_fp32"
    fp32 = default_fp32 if renamed.given.raw(key) is None else renamed.given.flag(key)
    _gradients_of(renamed, key, fp32=fp32)


def _gradients_of(renamed: Renamed, key: str, *, fp32: bool) -> None:
    """The type of gradients, which ``key`` sets."""
    renamed.given.used.add("ddp.grad_reduce_in_fp32")
    argument = "accumulate-allreduce-grads-in-fp32" if fp32 else "grad-reduce-in-bf16"
    if "use-megatron-fsdp" in renamed.found or (not fp32 and "fp16" in renamed.found):
        # Megatron-FSDP has keys of its own for them, and gradients of FP16 training are in FP16.
        return
    if renamed.given.raw(key) is None:
        renamed.default(argument, f"default of Megatron-Bridge: {key}: {str(fp32).lower()}")
    else:
        renamed.put(argument, key)


def types(renamed: Renamed) -> None:
    """Types of gradients and of Adam's moments, which files write as types of PyTorch."""
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

"""Data types: of products, parameters, gradients and moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.settings import Settings


def products(settings: Settings) -> None:
    """The type of linear layers and that of gradients."""
    half, single = settings.flag("bf16"), settings.flag("fp16")
    eight, four = settings.word("fp8-format"), settings.word("fp4-format")
    recipe = settings.word("fp8-recipe", "delayed", "tensorwise", "blockwise", "mxfp8", default="delayed")
    if four is not None:
        settings.put("precision", "nvfp4", "fp4-format", "bf16", "fp16")
    elif eight is not None:
        settings.put("precision", "mxfp8" if recipe == "mxfp8" else "fp8", "fp8-format", "fp8-recipe", "bf16", "fp16")
    elif half or single:
        settings.put("precision", "bf16" if half else "fp16", "bf16", "fp16")
    else:
        settings.problem("bf16", "training in FP32 cannot be estimated", help=f"add {settings.name('bf16')}")
    _gradients(settings, single=single)


_FSDP_GRADIENTS = ("megatron-fsdp-main-grads-dtype", "megatron-fsdp-grad-comm-dtype")
"""Types of gradients in Megatron-FSDP: as they are summed, and as they are exchanged."""


def _gradients(settings: Settings, *, single: bool) -> None:
    bf16, fp32 = settings.flag("grad-reduce-in-bf16"), settings.flag("accumulate-allreduce-grads-in-fp32")
    main = settings.word("main-grads-dtype", "fp32", "bf16", default="fp32")
    types = [settings.word(name, "fp32", "bf16", "fp16", "auto", default="auto") for name in _FSDP_GRADIENTS]
    half = "fp16" if single else "bf16"
    if settings.flag("use-megatron-fsdp") and not fp32:
        summed = half if types[0] in (None, "auto") else types[0]
        note = "" if settings.has(_FSDP_GRADIENTS[0]) else "default of Megatron-FSDP: the type of parameters"
        settings.put("gradients", summed, _FSDP_GRADIENTS[0], note=note)
        if not settings.said(*_FSDP_GRADIENTS):
            settings.warnings.append(
                f"gradients are in {half}, as in Megatron-FSDP of Megatron Core 0.17; versions before had 32 bits"
            )
        if types[1] not in (None, "auto", summed):
            settings.warnings.append(
                f"{settings.said(_FSDP_GRADIENTS[1])}: gradients are exchanged in the type in which they are summed"
            )
    elif bf16:
        settings.put("gradients", "bf16", "grad-reduce-in-bf16")
    elif single and not fp32:
        settings.put("gradients", "fp16", note=f"default of {settings.software} with --fp16")
    elif main == "bf16" and not fp32:
        settings.put("gradients", "bf16", "main-grads-dtype")
    else:
        note = "" if fp32 else f"default of {settings.software} with --bf16"
        settings.put("gradients", "fp32", "accumulate-allreduce-grads-in-fp32", note=note)


def exceptions(settings: Settings) -> None:
    """Parts of the model whose precision is not that of other linear layers, and parameters kept in low precision."""
    if settings.flag("fp8-output-proj"):
        settings.put("low_precision_output_layer", settings.has("fp8-format"), "fp8-output-proj")
    _fp8_attention(settings)
    _low_precision_parameters(settings)
    _bf16_layers(settings)


def _fp8_attention(settings: Settings) -> None:
    """FP8 attention, which Transformer Engine has only in a recipe of FP8, MXFP8 or NVFP4.

    Megatron Core passes `fp8_multi_head_attention` only to the recipe of delayed scaling.
    """
    alone, whole = settings.flag("fp8-dot-product-attention"), settings.flag("fp8-multi-head-attention")
    if not (alone or whole):
        return
    names = [name for name in ("fp8-dot-product-attention", "fp8-multi-head-attention") if settings.has(name)]
    eight, four = settings.has("fp8-format"), settings.has("fp4-format")
    recipe = settings.word("fp8-recipe", "delayed", "tensorwise", "blockwise", "mxfp8", default="delayed")
    if eight and recipe == "blockwise":
        settings.problem(
            names[0],
            "Transformer Engine has no FP8 attention in the recipe blockwise",
            allowed="the recipes delayed, tensorwise and mxfp8",
            help=f"remove {settings.said(names[0])}",
        )
    counts = (eight or four) and (alone or recipe == "delayed")
    why = f"with the recipe {recipe}" if eight or four else "where linear layers have 16 bits"
    settings.put("fp8_attention", counts, *names, note="" if counts else f"without effect {why}")


_BF16_LAYERS = {"first_layers_bf16": "num-layers-at-start-in-bf16", "last_layers_bf16": "num-layers-at-end-in-bf16"}
"""Keys of layers that stay in BF16, and the arguments for their numbers."""


def _bf16_layers(settings: Settings) -> None:
    """Layers at both ends that stay in BF16, one at each by default; with delayed scaling, Megatron Core has none."""
    switch = "first-last-layers-bf16"
    if not settings.flag(switch):
        return
    eight = settings.has("fp8-format")
    if not eight and not settings.has("fp4-format"):
        settings.warnings.append(f"{settings.said(switch)} has no effect where linear layers are in 16 bits")
        return
    if eight and settings.word("fp8-recipe", default="delayed") == "delayed":
        settings.problem(
            switch,
            "the recipe delayed has all layers in FP8",
            allowed="the recipes tensorwise, blockwise and mxfp8",
            help=f"remove {settings.said(switch)}",
        )
    for key, name in _BF16_LAYERS.items():
        note = "" if settings.has(name) else f"default of {settings.software}"
        settings.put(key, settings.whole(name, 1, least=0), switch, name, note=note)


_DIVIDED = ("use-distributed-optimizer", "use-megatron-fsdp", "use-custom-fsdp")
"""Settings that divide optimizer states among ranks."""


def _low_precision_parameters(settings: Settings) -> None:
    """Parameters kept in the type of products alone, which must be FP8 or FP4, as they are.

    ``reuse-grad-buf-for-mxfp8-param-ag`` says no more: parameters of MXFP8 are gathered in the memory of gradients.
    """
    on = {
        width: [name for name in names if settings.flag(name)]
        for width, names in (("fp8", ("fp8-param-gather", "fp8-param")), ("fp4", ("fp4-param-gather",)))
    }
    for width, names in on.items():
        if not names:
            continue
        if not settings.has(f"{width}-format"):
            settings.problem(
                names[0],
                f"parameters in {width.upper()} need linear layers in {width.upper()}",
                help=f"add {settings.name(f'{width}-format')}, or remove {settings.said(names[0])}",
            )
        elif settings.flag("use-torch-fsdp2"):
            why = "without effect: FSDP2 gathers 16 bits, from version 2.0 of Transformer Engine on"
            settings.put("low_precision_parameters", False, *names, note=why)  # noqa: FBT003 - the value
        elif settings.spelled is None and not any(settings.flag(name) for name in _DIVIDED):
            settings.problem(
                names[0],
                "low-precision parameters need a distributed optimizer",
                help=f"add {settings.name(_DIVIDED[0])}, or remove {settings.said(names[0])}",
            )
        else:
            settings.put("low_precision_parameters", True, *names)  # noqa: FBT003 - the value


_MOMENTS: Mapping[str, str] = {"fp32": "fp32", "fp16": "bf16", "bf16": "bf16", "fp8": "8bit"}
"""Types of Adam's moments, and their names in job files."""


def moments(settings: Settings) -> None:
    """The type of Adam's moments."""
    types = [settings.word(name, *_MOMENTS, default="fp32") for name in ("exp-avg-dtype", "exp-avg-sq-dtype")]
    if settings.flag("use-precision-aware-optimizer"):
        names = ("exp-avg-dtype", "exp-avg-sq-dtype", "use-precision-aware-optimizer")
        settings.put("moments", _MOMENTS[types[0] or "fp32"], *names)
        if types[0] != types[1]:
            settings.warnings.append("both moments of Adam count with the type of the first one (`exp-avg-dtype`)")

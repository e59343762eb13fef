"""What saves memory: recomputation, and offload to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.input.problem import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.settings import Settings

_MODULES: Mapping[str, str] = {
    "core_attn": "core_attention",
    **{name: name for name in ("layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")},
}
"""Parts of layers that selective recomputation of Megatron Core recomputes, and their names in job files."""


def recompute(settings: Settings) -> None:
    """What the backward pass computes again."""
    old = settings.flag("checkpoint-activations") or settings.has("activations-checkpoint-method")
    granularity = settings.word("recompute-granularity", "full", "selective")
    selective = settings.flag("recompute-activations") or granularity == "selective"
    method = settings.word("recompute-method", "uniform", "block") or settings.word(
        "activations-checkpoint-method", "uniform", "block"
    )
    counts = [
        settings.whole(name)
        for name in ("recompute-num-layers", "activations-checkpoint-num-layers", "checkpoint-num-layers")
    ]
    count = next((each for each in counts if each is not None), None)
    modules = settings.raw("recompute-modules")
    names = (
        "recompute-granularity",
        "recompute-method",
        "recompute-num-layers",
        "checkpoint-activations",
        "activations-checkpoint-method",
        "activations-checkpoint-num-layers",
        "checkpoint-num-layers",
    )
    if granularity == "full" or old:
        settings.put("recompute", "full", *names)
        if method == "block" or (count or 1) > 1:
            settings.put("recompute_method", method or "uniform", *names)
            settings.put("recompute_layers", count or 1, *names)
    elif selective:
        settings.put("recompute", "selective", "recompute-activations", "recompute-granularity")
        given = [_MODULES.get(str(each), str(each)) for each in modules or ()]
        if unknown := [each for each in given if each not in _MODULES.values()]:
            settings.warnings.append(f"recomputation of {', '.join(unknown)} is not modelled")
        if known := [each for each in given if each in _MODULES.values()]:
            settings.put("recompute_modules", known, "recompute-modules")
    else:
        settings.put("recompute", "none")


_INPUTS: Mapping[str, tuple[str, ...]] = {
    "core_attn": ("core_attention",),
    "fused_group_mlp": ("expert_fc1", "moe_act"),
    **{name: (name,) for name in ("attn_norm", "qkv_linear", "attn_proj", "mlp_norm", "expert_fc1", "moe_act")},
}
"""Modules of Megatron Core whose inputs can be offloaded, and their names in job files."""


def offload(settings: Settings) -> None:
    """What lies in the host's memory."""
    layers, kept = (
        settings.whole("cpu-offloading-num-layers", 0, least=0),
        settings.flag("no-cpu-offloading-activations"),
    )
    if layers and not kept:
        settings.put("offload.layers", layers, "cpu-offloading-num-layers", "no-cpu-offloading-activations")
    modules = settings.raw("offload-modules")
    if settings.flag("fine-grained-activation-offloading"):
        words = [
            str(each) for each in (modules if isinstance(modules, (list, tuple)) else [modules] if modules else [])
        ]
        given = [part for each in words for part in each.replace(",", " ").split()]
        if unknown := [each for each in given if each not in _INPUTS]:
            settings.problem(
                "offload-modules",
                "not modules whose inputs can be offloaded",
                allowed=", ".join(_INPUTS),
                near=nearest(unknown[0], list(_INPUTS)),
            )
        elif not given:
            settings.problem(
                "fine-grained-activation-offloading", "no modules to offload", help="add --offload-modules expert_fc1"
            )
        else:
            chosen = list(dict.fromkeys(each for word in given for each in _INPUTS[word]))
            settings.put("offload.modules", chosen, "fine-grained-activation-offloading", "offload-modules")
    part = settings.number("optimizer-offload-fraction", 1.0)
    beside = settings.flag("overlap-cpu-optimizer-d2h-h2d")
    if settings.flag("optimizer-cpu-offload"):
        note = "" if settings.has("optimizer-offload-fraction") else f"default of {settings.software}"
        settings.put("offload.optimizer", part, "optimizer-cpu-offload", "optimizer-offload-fraction", note=note)
        if beside:
            settings.put("overlap.optimizer", beside, "overlap-cpu-optimizer-d2h-h2d")

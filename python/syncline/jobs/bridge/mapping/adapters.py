"""LoRA adapters: ``peft``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs.settings import Settings

RANK = 32
"""Default of ``peft.dim``, the rank of adapters."""
TARGETS: Mapping[frozenset[str], str] = {
    frozenset(("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")): "all",
    frozenset(("linear_qkv", "linear_proj")): "attention",
    frozenset(("linear_qkv",)): "qkv",
}
"""Modules of Megatron Core that have adapters, and what job files call such a set."""


def adapters(given: Settings, settings: Settings, *, experts: bool) -> None:
    """Sets the rank of adapters and the linear layers that have them: those that ``peft`` names, by default all.

    Linear layers of experts have them, too (``peft/lora.py``): one for all experts, unless ``share_expert_adapters`` is
    off.
    """
    rank = given.said("peft.dim") or f"default of Megatron-Bridge: {RANK}"
    settings.put("lora", given.whole("peft.dim", RANK), note=rank)
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

"""Experts: of which layers, how many, and what sends tokens to them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from syncline.models.architecture import LAYERS

if TYPE_CHECKING:
    from syncline.jobs.settings import Settings

NAMES = ("num-experts", "num-moe-experts")
"""Names of the number of experts."""


def model(settings: Settings, layers: int, ffn: int) -> None:
    """The keys under ``model.experts``, of a model with ``layers`` layers and dense blocks of ``ffn`` elements."""
    count = settings.whole(NAMES[0]) or settings.whole(NAMES[1])
    top_k, width = settings.whole("moe-router-topk", 2), settings.whole("moe-ffn-hidden-size", ffn)
    shared, frequency = settings.whole("moe-shared-expert-intermediate-size"), settings.raw("moe-layer-freq")
    groups, top_groups = settings.whole("moe-router-num-groups"), settings.whole("moe-router-group-topk")
    if count is None:
        return
    default = f"default of {settings.software}"
    settings.put("model.experts.count", count, *NAMES)
    settings.put(
        "model.experts.top_k", top_k, "moe-router-topk", note="" if settings.has("moe-router-topk") else default
    )
    said = settings.has("moe-ffn-hidden-size")
    settings.put("model.experts.ffn", width, "moe-ffn-hidden-size", note="" if said else "that of the dense MLP")
    if groups is not None and top_groups is not None:
        settings.put("model.experts.groups", groups, "moe-router-num-groups")
        settings.put("model.experts.top_groups", top_groups, "moe-router-group-topk")
    if shared:
        settings.put("model.experts.shared_ffn", shared, "moe-shared-expert-intermediate-size")
    if frequency is not None:
        found = _layers_with_experts(frequency, layers)
        if found is None:
            settings.bad("moe-layer-freq", "some dense layers and then layers with experts, such as [0]*3+[1]*58, or 1")
        else:
            for key, value in found.items():
                settings.put(f"model.experts.{key}", value, "moe-layer-freq")


def _layers_with_experts(frequency: Any, layers: int) -> dict[str, int] | None:
    """The keys ``every`` or ``dense_layers`` of a frequency; empty if all layers have experts; None if neither fits.

    A number ``n`` stands for every ``n``-th layer; a list has 1 for each layer with experts, and 0 for each other one.
    """
    if isinstance(frequency, str):
        try:
            frequency = _pattern(ast.parse(frequency.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError):
            return None
    if isinstance(frequency, int):
        if frequency < 1 or layers % frequency:
            return None
        return {} if frequency == 1 else {"every": frequency}
    if not isinstance(frequency, (list, tuple)) or any(each not in (0, 1) for each in frequency):
        return None
    dense = next((index for index, each in enumerate(frequency) if each), len(frequency))
    if len(frequency) != layers or not all(frequency[dense:]) or dense >= layers:
        return None
    return {"dense_layers": dense} if dense else {}


def _pattern(node: ast.expr) -> Any:
    """The value of numbers, lists, sums and products."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.List):
        return [_pattern(each) for each in node.elts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _pattern(node.left), _pattern(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int):
            if right < 0 or len(left) * right > LAYERS:
                raise ValueError
            return left * right
    raise ValueError


def dispatch(settings: Settings, *, experts: bool) -> None:
    """What sends tokens to experts, and how many the fullest rank gets; no effect without ``experts``."""
    kind = settings.word("moe-token-dispatcher-type", "alltoall", "allgather", "flex", "alltoall_seq")
    deep, backend = settings.flag("moe-enable-deepep"), settings.word("moe-flex-dispatcher-backend")
    if experts and (kind == "flex" or deep):
        names = ("moe-token-dispatcher-type", "moe-enable-deepep", "moe-flex-dispatcher-backend")
        settings.put("dispatcher", "fused", *names)
        old = "moe-hybridep-num-sms" if backend == "hybridep" else "moe-deepep-num-sms"
        for name in ("moe-flex-dispatcher-num-sms", old):
            if settings.has(name) and (count := settings.whole(name)) is not None:
                settings.put("dispatch_multiprocessors", count, name)
                break
    elif experts and kind is not None:
        settings.put("dispatcher", "all_to_all", "moe-token-dispatcher-type")
        if kind == "allgather":
            settings.warnings.append("the dispatcher allgather counts as an all-to-all")
    elif experts and (settings.whole("expert-model-parallel-size") or 1) > 1:
        settings.warnings.append("the dispatcher allgather, which is the default, counts as an all-to-all")
    if backend is not None and experts and kind != "flex" and not deep:
        settings.warnings.append(f"{settings.said('moe-flex-dispatcher-backend')} needs the dispatcher flex")
    settings.used.update(("moe-flex-dispatcher-num-sms", "moe-deepep-num-sms", "moe-hybridep-num-sms"))
    capacity, padded = settings.number("moe-expert-capacity-factor", 0), "moe-pad-expert-input-to-capacity"
    if settings.flag(padded) and capacity > 0 and experts:
        settings.put("expert_load", capacity, "moe-expert-capacity-factor", padded)

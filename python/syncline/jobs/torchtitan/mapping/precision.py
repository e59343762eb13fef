"""Data types."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.jobs.settings import Settings


def products(settings: Settings, *, experts: bool, shard: int) -> None:
    """The type of linear layers, of the parameters that FSDP gathers, and of gradients."""
    converters = settings.raw("model.converters") or []
    names = [str(each) for each in converters] if isinstance(converters, list) else []
    old = settings.flag("float8.enable_float8_linear")
    kind = settings.word("training.mixed_precision_param", "bfloat16", "float32", default="bfloat16")
    if kind == "float32":
        settings.problem("training.mixed_precision_param", "training in FP32 cannot be estimated", allowed="bfloat16")
    if any("mx" in each.split(".") for each in names):
        settings.put("precision", "mxfp8", "model.converters")
    elif old or any("float8" in each for each in names):
        settings.put("precision", "fp8", "model.converters", "float8.enable_float8_linear")
    else:
        note = settings.default_note("training.mixed_precision_param")
        settings.put("precision", "bf16", "training.mixed_precision_param", note=note)
    _exceptions(settings, names, experts=experts, old=old)
    _gathered_parameters(settings, shard)
    settings.put("gradients", "fp32", note="torchtitan reduces gradients in 32 bits")


def _exceptions(settings: Settings, converters: Sequence[str], *, experts: bool, old: bool) -> None:
    """Linear layers whose type is not that of the others: the output layer and experts."""
    kinds = [kind for kind in ("float8", "mx") if any(kind in each.split(".") for each in converters)]
    if old:
        kinds.append("float8")
    for kind, unless_given in (("float8", []), ("mx", ["output"])):
        name = f"quantize.linear.{kind}.filter_fqns"
        given = settings.raw(name)
        kept = given if isinstance(given, list) else unless_given
        if kind in kinds and "output" not in kept and not all("grouped_mm" in each for each in converters):
            default = settings.default_note(name)
            note = f"{default}: all linear layers" if default else ""
            settings.put("low_precision_output_layer", True, name, note=note)  # noqa: FBT003 - the value
    if kinds and experts and not any("grouped_mm" in each for each in converters):
        settings.warnings.append(
            "without a converter for grouped_mm, experts stay in 16 bits; estimates count them in the type above"
        )


def _gathered_parameters(settings: Settings, shard: int) -> None:
    """Parameters that FSDP gathers in FP8, which torchtitan offers only without a recipe of float8 (``float8.py``)."""
    before = "quantize.linear.float8."
    name, recipe = f"{before}enable_fsdp_float8_all_gather", f"{before}recipe_name"
    if not settings.flag(name):
        return
    eight = any(line.path == ("precision",) and line.value == "fp8" for line in settings.lines)
    if eight and settings.has(recipe) and not settings.found[recipe].off:
        said = settings.said(recipe)
        settings.problem(name, "torchtitan gathers FP8 only where float8 has no recipe", help=f"remove {said}")
    elif eight and shard > 1:
        settings.put("low_precision_parameters", True, name)  # noqa: FBT003 - the value
    else:
        why = "nothing is divided" if eight else "without float8"
        settings.put("low_precision_parameters", False, name, note=f"without effect: {why}")  # noqa: FBT003 - the value

"""Compilation, and what overlaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.jobs.settings import Settings

_COMPILE = ("compile.enable", "training.compile")
"""Whether PyTorch compiles the model, by the names of today and of older versions."""


def compiled(settings: Settings) -> list[str]:
    """The settings by which PyTorch compiles the model, as estimates assume; without any, adds a warning."""
    on = [name for name in _COMPILE if settings.has(name) and settings.found[name].value is True]
    components = [name for name in ("compile.components",) if settings.has(name)]
    parts = [settings.found[name].value for name in components]
    if on and all(not isinstance(each, list) or "model" in each for each in parts):
        return [*on, *components]
    settings.warnings.append(
        "the model is not compiled (compile.enable), but estimates assume that it is, as in the measured runs"
    )
    return []


def attention(settings: Settings) -> None:
    """The kernel of attention."""
    settings.put("attention", "fused", note="scaled_dot_product_attention")


def overlap(settings: Settings, *, exchanges: bool) -> None:
    """What overlaps; ``exchanges``: data-parallel ranks exchange gradients or parameters."""
    tensor = settings.flag("parallelism.enable_async_tensor_parallel")
    settings.put("overlap.tensor", tensor, "parallelism.enable_async_tensor_parallel")
    settings.put("overlap.gradients", exchanges, note="FSDP reduces gradients during the backward pass")
    settings.put("overlap.parameters", exchanges, note="FSDP gathers the next layer during a layer")
    settings.put("overlap.pipeline", value=False)

"""Offload of activations and of the optimizer to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.jobs.megatron.renamed import Renamed


def offload(renamed: Renamed) -> None:
    """Offload of layers, if its switch is on, and of the optimizer: by default, of none of it (``OptimizerConfig``)."""
    settings, found = renamed.given, renamed.found
    kept = settings.has("model.cpu_offloading_activations") and not settings.flag("model.cpu_offloading_activations")
    if not settings.flag("model.cpu_offloading") or kept:
        found.pop("cpu-offloading-num-layers", None)
    if "optimizer-cpu-offload" in found and "optimizer-offload-fraction" not in found:
        renamed.default("optimizer-offload-fraction", "default of Megatron-Bridge", value=0.0)

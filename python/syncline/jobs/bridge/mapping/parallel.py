"""Sharding of optimizer states and parameters, and layers of pipeline stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.jobs.megatron.renamed import Renamed


def sharding(renamed: Renamed) -> None:
    """Distributed optimizer, and FSDP of Megatron Core."""
    settings, put = renamed.given, renamed.put
    for key in ("ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"):
        if settings.flag(key):
            put("use-distributed-optimizer", key)
    for key in ("dist.use_megatron_fsdp", "ddp.use_megatron_fsdp"):
        if settings.flag(key):
            # Files from before Megatron Core 0.17 do not name the types of its gradients.
            own = any(name.startswith("ddp.megatron_fsdp_main_grads_dtype") for name in settings.found)
            put("use-megatron-fsdp" if own else "use-custom-fsdp", key)


def stages(renamed: Renamed) -> None:
    """The layout of a pipeline, which files write as lists of words and arguments as letters."""
    settings = renamed.given
    key, name = "model.pipeline_model_parallel_layout", "pipeline-model-parallel-layout"
    value = settings.found[key].value if settings.has(key) else None
    letters = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
    if isinstance(value, list) and all(isinstance(each, list) and set(each) <= set(letters) for each in value):
        text = "|".join("".join(letters[each] for each in part) for part in value)
        renamed.put(name, key, value=text)

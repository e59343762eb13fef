"""What recipes of Megatron-Bridge set, of which a file may be the overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.jobs.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping


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

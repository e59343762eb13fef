"""Recomputation and offload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline.jobs.settings import Settings


def recompute(settings: Settings) -> None:
    """What the backward pass computes again."""
    names = ("activation_checkpoint.mode", "activation_checkpoint.selective_ac_option")
    mode = settings.word(names[0], "none", "full", "selective", "memory_budget", default="selective")
    option: Any = settings.raw(names[1])
    option = "2" if option is None else str(option)
    note = settings.default_note(names[0])
    if mode in ("none", "full"):
        settings.put("recompute", mode, *names)
    elif mode == "selective" and option == "op":
        settings.put("recompute", "operators", *names, note=note)
    elif mode == "selective" and option == "1":
        settings.put("recompute", "full", *names, note=note)
    elif mode == "selective":
        settings.problem(
            names[1],
            f"estimates recompute every layer, or every second matrix product, but not every layer of {option}",
            allowed="op, 1",
            help='write mode = "full", or selective_ac_option = "op"',
        )
    else:
        settings.problem(
            names[0], "which operations a memory budget recomputes is not known", allowed="none, selective, full"
        )


def offload(settings: Settings) -> None:
    """Optimizer states in the host's memory."""
    if settings.flag("training.enable_cpu_offload"):
        settings.put("offload.optimizer", 1.0, "training.enable_cpu_offload")
        settings.warnings.append(
            "training.enable_cpu_offload: estimates keep sharded parameters and gradients on the accelerator"
        )

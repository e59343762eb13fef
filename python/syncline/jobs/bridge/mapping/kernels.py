"""The kernel of attention, and overlap of communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.jobs.megatron.renamed import Renamed

BACKENDS = ("flash", "fused", "unfused", "local", "auto")
"""Names of ``AttnBackend`` of Megatron Core, whose numbers from 1 files write."""
_SEQUENCE = "model.sequence_parallel"


def attention(renamed: Renamed) -> None:
    """The kernel of attention: a member of an enumeration, which files write as its number or its name."""
    key, below = "model.attention_backend", "model.attention_backend._args_"
    if renamed.given.word(key) is not None:
        renamed.put("attention-backend", key, value=renamed.given.raw(key))
    number = renamed.given.raw(below)
    if isinstance(number, list) and number and number[0] in range(1, len(BACKENDS) + 1):
        renamed.put("attention-backend", below, value=BACKENDS[number[0] - 1])


def overlap(renamed: Renamed) -> None:
    """``comm_overlap`` replaces what ``model`` and ``ddp`` say, with defaults of its own.

    With it, gradients and parameters overlap if the optimizer is distributed, and so does an interleaved pipeline.
    """
    settings, put = renamed.given, renamed.put
    whole = any(name.startswith("comm_overlap.") and not each.off for name, each in settings.found.items())
    shared = "use-distributed-optimizer" in renamed.found
    for name, below, on in (
        ("tp_comm_overlap", "model.tp_comm_overlap", False),
        ("overlap_grad_reduce", "ddp.overlap_grad_reduce", shared),
        ("overlap_param_gather", "ddp.overlap_param_gather", shared),
        ("overlap_moe_expert_parallel_comm", "model.overlap_moe_expert_parallel_comm", False),
    ):
        above, argument = f"comm_overlap.{name}", name.replace("_", "-")
        # Without a distributed optimizer it leaves what `ddp` says.
        replaced = whole and (shared or not below.startswith("ddp."))
        settings.used.add(below)
        renamed.found.pop(argument, None)
        if replaced and settings.raw(above) is None:
            if on:
                renamed.default(argument, "default of comm_overlap")
        elif settings.flag(above if replaced else below):
            put(argument, above if replaced else below)
        settings.used.add(above)
    if whole and ((settings.whole("model.tensor_model_parallel_size") or 1) < 2 or not settings.flag(_SEQUENCE)):
        renamed.found.pop("tp-comm-overlap", None)
    above, below = "comm_overlap.overlap_p2p_comm", "model.overlap_p2p_comm"
    key = above if whole else below
    settings.used.update((above, below))
    if settings.raw(key) is None and not whole:
        renamed.default("no-overlap-p2p-communication", "default of Megatron-Bridge without comm_overlap")
    elif settings.raw(key) is not None and not settings.flag(key):
        put("no-overlap-p2p-communication", key)

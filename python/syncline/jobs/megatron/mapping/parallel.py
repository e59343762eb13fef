"""The axes of parallelism, ZeRO and the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.jobs.megatron.mapping import stages
from syncline.models.architecture import LAYERS

if TYPE_CHECKING:
    from syncline.jobs.given import Given
    from syncline.jobs.settings import Settings


def axes(settings: Settings, tensor: int, *, experts: bool) -> None:
    """The axes, of which ``tensor`` is known; ``experts``: whether the model has some."""
    settings.put("parallel.tensor", tensor, "tensor-model-parallel-size", "model-parallel-size")
    # With one tensor-parallel rank there is nothing to divide.
    sequence = settings.flag("sequence-parallel") and tensor > 1
    if sequence:
        settings.put("parallel.sequence_parallel", sequence, "sequence-parallel")
    pipeline = settings.whole("pipeline-model-parallel-size", 1, most=LAYERS + 2) or 1
    settings.put("parallel.pipeline", pipeline, "pipeline-model-parallel-size")
    stages.stages(settings, pipeline)
    context = settings.whole("context-parallel-size", 1)
    settings.put("parallel.context", context, "context-parallel-size")
    _context_method(settings, context or 1)
    expert, inside = settings.whole("expert-model-parallel-size", 1), settings.whole("expert-tensor-parallel-size")
    if experts:
        settings.put("parallel.expert", expert, "expert-model-parallel-size")
        note = "" if inside else "default: that of tensor parallelism"
        settings.put("parallel.expert_tensor", inside or tensor, "expert-tensor-parallel-size", note=note)
    elif (expert or 1) > 1:
        settings.problem("expert-model-parallel-size", "the model has no experts", help="leave it out")


_CONTEXT_METHODS = {"p2p": "ring", "all_gather": "all_gather", "a2a": "ulysses", "a2a+p2p": "ring"}
"""Kinds of communication of context parallelism, and their names in job files."""


def _context_method(settings: Settings, context: int) -> None:
    name = "cp-comm-type"
    value = settings.raw(name)
    kinds = {str(each) for each in (value if isinstance(value, list) else [] if value is None else [value])}
    if not kinds:
        return
    if len(kinds) > 1 or not kinds <= set(_CONTEXT_METHODS):
        settings.bad(name, ", ".join(_CONTEXT_METHODS))
        return
    kind = kinds.pop()
    if kind == "a2a+p2p":
        settings.warnings.append("cp-comm-type a2a+p2p counts as a ring of all ranks")
    if context > 1:
        settings.put("parallel.context_method", _CONTEXT_METHODS[kind], name)


_SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
"""Strategies of Megatron-FSDP, and their stages of ZeRO."""


def zero(settings: Settings, given: Given, tensor: int) -> None:
    """The stage of ZeRO, and the ranks that share one copy."""
    megatron = [name for name in ("use-megatron-fsdp", "use-custom-fsdp") if settings.flag(name)]
    torch = settings.flag("use-torch-fsdp2")
    optimizer = settings.flag("use-distributed-optimizer")
    strategy = settings.word("data-parallel-sharding-strategy", *_SHARDING, default="no_shard") or "no_shard"
    groups = settings.whole("num-distributed-optimizer-instances", 1) or 1
    kept = settings.flag("torch-fsdp2-no-reshard-after-forward")
    if torch:
        names = ("use-torch-fsdp2", "torch-fsdp2-no-reshard-after-forward")
        settings.put("parallel.zero", 2 if kept else 3, *names)
    elif megatron:
        settings.put("parallel.zero", _SHARDING[strategy], *megatron, "data-parallel-sharding-strategy")
    else:
        settings.put("parallel.zero", int(optimizer), "use-distributed-optimizer")
    if groups > 1 and given.gpus is not None:
        pipeline = settings.whole("pipeline-model-parallel-size", 1, most=LAYERS + 2) or 1
        ranks = given.gpus // (tensor * pipeline)
        if ranks % groups:
            settings.problem(
                "num-distributed-optimizer-instances",
                f"{ranks} data-parallel ranks do not divide into this number of instances",
                allowed=f"a divisor of {ranks}",
            )
        else:
            settings.put("parallel.shard_group", ranks // groups, "num-distributed-optimizer-instances")


def batch(settings: Settings, given: Given, tensor: int) -> None:
    """The keys under ``batch``."""
    old = settings.has("encoder-seq-length") and not settings.has("seq-length")
    name = "encoder-seq-length" if old else "seq-length"
    settings.put("batch.sequence", settings.needed(name), name)
    settings.raw("encoder-seq-length")
    micro = settings.whole("micro-batch-size") or settings.whole("batch-size")
    if micro is None:
        settings.needed("micro-batch-size")
        micro = 1
    settings.put("batch.micro_batch", micro, "micro-batch-size", "batch-size")
    whole = settings.whole("global-batch-size")
    if whole is not None:
        settings.put("batch.global_batch", whole, "global-batch-size")
    elif given.gpus is not None:
        pipeline = settings.whole("pipeline-model-parallel-size", 1, most=LAYERS + 2) or 1
        context = settings.whole("context-parallel-size", 1) or 1
        replicas = max(given.gpus // (tensor * pipeline * context), 1)
        note = f"default of {settings.software}: one micro-batch of each of {replicas} replicas"
        settings.put("batch.global_batch", micro * replicas, note=note)

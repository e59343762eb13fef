"""What the values of a job file must have in common: mesh, batches, cluster, and keys that need another key."""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.input.problem import error, nearest, nearest_divisor
from syncline.input.units import bytes_per_s
from syncline.nccl import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.errors import Diagnostic
    from syncline.input.source import Source
    from syncline.jobs.job_file import JobFile, JobParallel
    from syncline.models.architecture import Decoder

_MOST_RATE = 1e15
"""Highest rate of a network, in bytes per second."""
_MOST_BYTES = 1e15
"""Most memory of an accelerator."""
_MOST_TOKENS = 1 << 30
"""Most tokens of a micro-batch."""
_FOLLOW_HEADS = ("cluster.gpus", "batch.sequence", "batch.global_batch")
"""Keys that are wrong wherever tensor parallelism is."""
_FOLLOW_STAGES = ("cluster.gpus", "batch.global_batch")
"""Keys that are wrong wherever pipeline parallelism is."""


def checked(source: Source, found: JobFile) -> Iterator[Diagnostic]:
    """Everything about a job file that is wrong whatever the model is."""
    for check in (_cluster, _mesh, _batch, _axes, _adapters, _dispatch):
        yield from check(source, found)


def replicas(found: JobFile) -> int:
    """Data-parallel ranks: what the other axes leave."""
    parallel = found.parallel
    return found.cluster.gpus // (parallel.tensor * parallel.pipeline * parallel.context)


def model_first(source: Source, found: JobFile, model: Decoder, problems: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """The problems of a mesh, with axes too large for the model in place of what only follows from these."""
    parallel = found.parallel
    most = (model.layers + model.prediction_layers + 2) // parallel.virtual_stages
    if parallel.pipeline > most > 0:
        others = parallel.tensor * parallel.context
        chunks = f" of {parallel.virtual_stages} chunks" if parallel.virtual_stages > 1 else ""
        able = [each for each in range(1, most + 1) if found.cluster.gpus % (others * each) == 0]
        yield _bad(
            source,
            "parallel.pipeline",
            "more stages than layers",
            found=parallel.pipeline,
            allowed=f"at most {most}{chunks}: layers, embedding and output layer",
            near=max(able, default=None),
        )
        problems = [each for each in problems if each.get("key") not in _FOLLOW_STAGES]
    if model.heads % parallel.tensor == 0:
        yield from problems
        return
    yield _bad(
        source,
        "parallel.tensor",
        "these ranks do not divide the attention heads evenly",
        found=found.parallel.tensor,
        allowed=f"divisors of {model.heads}",
        near=nearest_divisor(found.parallel.tensor, gcd(model.heads, model.ffn)),
    )
    yield from (each for each in problems if each.get("key") not in _FOLLOW_HEADS)


def without_experts(source: Source, found: JobFile) -> Iterator[Diagnostic]:
    """Keys that say something about experts, of a model that has none. The core names the axis ``expert``."""
    given = {
        "parallel.expert_tensor": found.parallel.expert_tensor > 1,
        "dispatcher": found.dispatcher != "all_to_all",
        "routing": found.routing != "random",
        "expert_load": found.expert_load != 1,
        "dispatch_multiprocessors": found.dispatch_multiprocessors is not None,
        "fused_experts": found.fused_experts,
        "overlap.experts": found.overlap.experts,
    }
    for key, wrong in given.items():
        if wrong:
            mark = source.mark(tuple(key.split(".")))
            help = f"leave out {key.rpartition('.')[2]}"
            yield error(Code.BAD_VALUE, "the model has no experts", mark=mark, key=key, help=help)


def without_rotations(source: Source) -> Diagnostic:
    """A switch for rotations, of a model that has none."""
    mark, help = source.mark(("rope_fusion",)), "leave out rope_fusion"
    return error(Code.BAD_VALUE, "the model rotates no positions", mark=mark, key="rope_fusion", help=help)


def _cluster(source: Source, found: JobFile) -> Iterator[Diagnostic]:
    cluster = found.cluster
    nccl = cluster.nccl
    if nccl is not None and not nccl.endswith((".yaml", ".yml")) and nccl not in names():
        allowed = f"{', '.join(names())}, or a file that ends in .yaml"
        near = nearest(nccl, names(), likeness=0.4)
        yield _bad(source, "cluster.nccl", "unknown machine", found=nccl, allowed=allowed, near=near)
    if cluster.nic_rate is not None and not 0 < bytes_per_s(cluster.nic_rate) <= _MOST_RATE:
        allowed = "a rate above 0, at most 1PB/s, such as 400Gb/s"
        message = "a network cannot have this rate"
        yield _bad(source, "cluster.nic_rate", message, found=cluster.nic_rate, allowed=allowed)
    if cluster.memory is not None and not 0 < _core.parse_quantity("bytes", cluster.memory) <= _MOST_BYTES:
        allowed = "a size above 0, at most 1PB, such as 80GiB"
        message = "an accelerator cannot have this much memory"
        yield _bad(source, "cluster.memory", message, found=cluster.memory, allowed=allowed)


def _mesh(source: Source, found: JobFile) -> Iterator[Diagnostic]:
    parallel, gpus = found.parallel, found.cluster.gpus
    parts = parallel.tensor * parallel.pipeline * parallel.context
    if gpus % parts:
        yield _bad(
            source,
            "cluster.gpus",
            f"the number of accelerators is not divisible by tensor x pipeline x context = {parts}",
            found=gpus,
            allowed=f"a multiple of {parts}",
            near=_multiple(gpus, parts),
            help=_other_axis(parallel, gpus),
        )
        return
    ranks, group = gpus // (parallel.tensor * parallel.pipeline), parallel.shard_group
    if group is not None and ranks % group:
        yield _bad(
            source,
            "parallel.shard_group",
            "the data-parallel and context-parallel ranks do not divide into groups of this size",
            found=group,
            allowed=f"a divisor of {ranks}",
            near=nearest_divisor(group, ranks),
        )


def _other_axis(parallel: JobParallel, gpus: int) -> str | None:
    """The one axis that another value of makes the accelerators divide; None if none does, or more than one."""
    axes = {"tensor": parallel.tensor, "pipeline": parallel.pipeline, "context": parallel.context}
    parts = prod(axes.values())
    able = {name: gpus * value // parts for name, value in axes.items() if gpus % (parts // value) == 0}
    if len(able) != 1:
        return None
    ((name, ranks),) = able.items()
    return f"or write {name}: {nearest_divisor(axes[name], ranks)}"


def _batch(source: Source, found: JobFile) -> Iterator[Diagnostic]:
    parallel, batch = found.parallel, found.batch
    parts = parallel.context * (parallel.tensor if parallel.sequence_parallel else 1)
    if batch.sequence % parts:
        by = "context x tensor" if parallel.sequence_parallel else "context"
        yield _bad(
            source,
            "batch.sequence",
            f"the tokens of a sequence are not divisible by {by} = {parts}",
            found=batch.sequence,
            allowed=f"a multiple of {parts}",
            near=_multiple(batch.sequence, parts),
        )
    if batch.sequence * batch.micro_batch > _MOST_TOKENS:
        yield _bad(
            source,
            "batch.micro_batch",
            "too many tokens in a micro-batch",
            found=batch.micro_batch,
            allowed=f"at most {max(1, _MOST_TOKENS // batch.sequence)}, for {_MOST_TOKENS} tokens",
        )
        return
    if found.cluster.gpus % (parallel.tensor * parallel.pipeline * parallel.context):
        return
    data = replicas(found)
    unit = data * batch.micro_batch
    if batch.global_batch % unit:
        yield _bad(
            source,
            "batch.global_batch",
            f"the batch is not divisible by data parallelism x micro_batch = {data} x {batch.micro_batch}",
            found=batch.global_batch,
            allowed=f"a multiple of {unit}",
            near=_multiple(batch.global_batch, unit),
        )
    elif parallel.schedule in ("dualpipe", "dualpipe-v"):
        yield from _both_ways(source, found, unit)


def _both_ways(source: Source, found: JobFile, unit: int) -> Iterator[Diagnostic]:
    """Schedules whose micro-batches meet need two for each stage; an even number, if they come from both ends."""
    parallel, each = found.parallel, 2 if found.parallel.schedule == "dualpipe" else 1
    least, batches = 2 * parallel.pipeline, found.batch.global_batch // unit
    if batches < least or batches % each:
        yield _bad(
            source,
            "batch.global_batch",
            f"the schedule {parallel.schedule} needs at least {least} micro-batches"
            f"{', an even number' if each == 2 else ''}, and has {batches}",
            found=found.batch.global_batch,
            allowed=f"a multiple of {each * unit} from {least * unit}",
            near=max(least * unit, _multiple(found.batch.global_batch, each * unit)),
        )


def _axes(source: Source, found: JobFile) -> Iterator[Diagnostic]:
    """Keys of an axis that need it, or that exclude each other."""
    parallel = found.parallel
    if parallel.context == 1 and parallel.context_method != "ring":
        message = "context_method needs ranks that divide a sequence"
        help = "leave out context_method, or write context: 2"
        yield _bad(source, "parallel.context_method", message, found=parallel.context_method, help=help)
    if parallel.chunk_layers and parallel.split != "even":
        message = "chunk_layers says how layers are divided, and so does split"
        help = "leave out split, or chunk_layers"
        yield _bad(source, "parallel.split", message, found=parallel.split, help=help)


def _adapters(source: Source, found: JobFile) -> Iterator[Diagnostic]:
    if found.lora is None and found.lora_targets != "all":
        help = "write lora: 16, or leave out lora_targets"
        yield _bad(source, "lora_targets", "lora_targets needs lora", found=found.lora_targets, help=help)


def _dispatch(source: Source, found: JobFile) -> Iterator[Diagnostic]:
    if found.dispatcher == "fused":
        return
    for key, default in (("dispatch_multiprocessors", None), ("routing", "random")):
        value = getattr(found, key)
        if value != default:
            help = f"write dispatcher: fused, or leave out {key}"
            yield _bad(source, key, f"{key} needs dispatcher: fused", found=value, help=help)


def _bad(
    source: Source,
    key: str,
    message: str,
    *,
    found: int | str,
    allowed: str | None = None,
    near: int | str | None = None,
    help: str | None = None,
) -> Diagnostic:
    return error(
        Code.BAD_VALUE,
        message,
        mark=source.mark(tuple(key.split("."))),
        key=key,
        found=str(found),
        allowed=allowed,
        nearest=None if near is None else str(near),
        help=help,
    )


def _multiple(value: int, unit: int) -> int:
    """The multiple of ``unit`` nearest to ``value``, and at least ``unit``."""
    return max(1, round(value / unit)) * unit

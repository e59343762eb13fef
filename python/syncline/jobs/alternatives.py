"""What would make a job faster: single changes of it, each estimated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from syncline.errors import SynclineError
from syncline.estimate.frameworks import unsupported
from syncline.estimate.switches import LEAST, switched
from syncline.jobs.estimation import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.estimate import Job
    from syncline.jobs.estimation import Estimate
    from syncline.jobs.training_job import TrainingJob

KEEP = 6
"""Most changes that are named."""


@dataclass(frozen=True)
class Faster:
    """A job with one key changed."""

    key: str
    """The key of the job file, such as ``parallel.tensor``."""
    value: Any
    """Its value."""
    estimate: Estimate
    """The step and memory then."""


def faster(found: Estimate) -> list[Faster]:
    """The single changes that shorten the step of a job and let it fit, the fastest one first; nothing if it does not.

    ``Estimate.changes`` are those that make a job fit.
    """
    if not found.fits:
        return []
    made = []
    for key, value, job in _neighbours(found.job):
        if any(unsupported(found.job.framework, job)):
            continue
        try:
            other = estimate(replace(found.job, job=job))
        except SynclineError:
            # The mesh does not divide the model.
            continue
        if other.fits and other.step_s < (1 - LEAST) * found.step_s:
            made.append(Faster(key, value, other))
    return sorted(made, key=lambda each: (each.estimate.step_s, each.key, str(each.value)))[:KEEP]


def _neighbours(job: TrainingJob) -> Iterator[tuple[str, Any, Job]]:
    """All single changes: axes and micro-batch doubled and halved, switches on and off."""
    how = job.job
    for name in ("tensor", "pipeline", "context", "expert"):
        for value in _near(getattr(how, name)):
            changed = _with_axis(how, name, value)
            if changed is not None and (name != "expert" or job.architecture.experts is not None):
                yield f"parallel.{name}", value, changed
    if how.pipeline > 1 and how.schedule == "1f1b":
        for value in (1, *(each for each in range(2, 13) if job.architecture.layers % (how.pipeline * each) == 0)):
            if value != how.virtual_stages:
                yield "parallel.virtual_stages", value, how.changed(virtual_stages=value)
    for value in _near(how.micro_batch):
        per_rank = how.micro_batch * how.micro_batches
        if per_rank % value == 0:
            yield "batch.micro_batch", value, how.changed(micro_batch=value, micro_batches=per_rank // value)
    switches: dict[str, tuple[Any, ...]] = {
        "recompute": ("none", "full"),
        "parallel.zero": (1, 3) if how.data * how.context > 1 else (),
        "parallel.sequence_parallel": (True,) if _divides_tokens(how) else (),
    }
    for key, values in switches.items():
        name = key.rpartition(".")[2]
        for value in values:
            if getattr(how, name) != value:
                yield key, value, how.changed(**{name: value})
    offload = how.offload.model_dump()
    if offload["layers"]:
        yield (
            "offload.layers",
            offload["layers"] // 2,
            how.changed(offload={**offload, "layers": offload["layers"] // 2}),
        )
    if offload["modules"]:
        yield "offload.modules", [], how.changed(offload={**offload, "modules": []})
    if offload["optimizer"]:
        yield "offload.optimizer", 0, how.changed(offload={**offload, "optimizer": 0.0})
    if how.gradient_bytes == 4:
        yield "gradients", "bf16", how.changed(gradient_bytes=2)
    able = job.machine.precisions
    if how.precision in ("bf16", "fp16") and "fp8" in able:
        yield "precision", "fp8", how.changed(precision="fp8")
    elif how.precision in ("fp8", "mxfp8", "nvfp4") and not how.fp8_attention and how.fused_attention:
        yield "fp8_attention", True, how.changed(fp8_attention=True)
    for name, on in how.overlap.model_dump().items():
        if not on and _communicates(how, name):
            yield f"overlap.{name}", True, how.changed(overlap={**how.overlap.model_dump(), name: True})
    if job.architecture.experts is not None:
        yield from switched(how)


def _divides_tokens(how: Job) -> bool:
    return how.tensor > 1 and how.sequence % (how.tensor * how.context) == 0


def _communicates(how: Job, name: str) -> bool:
    """Whether there is anything to overlap. Messages between stages overlap in interleaved pipelines alone."""
    return {
        "tensor": how.tensor > 1 and how.sequence_parallel,
        "gradients": how.data * how.context > 1,
        "parameters": how.data * how.context > 1 and how.zero > 0,
        "pipeline": how.virtual_stages > 1,
        "experts": False,  # of the settings of experts
        "optimizer": how.offload.optimizer > 0,
    }[name]


def _near(value: int) -> Iterator[int]:
    yield 2 * value
    if value > 1 and value % 2 == 0:
        yield value // 2


def _with_axis(how: Job, name: str, value: int) -> Job | None:
    """The job with another number of ranks along an axis, and the same batch; None if it does not divide."""
    if name == "expert":
        return how.changed(expert=value)
    inner = {"tensor": how.tensor, "pipeline": how.pipeline, "context": how.context, name: value}
    ranks = inner["tensor"] * inner["pipeline"] * inner["context"]
    parts = inner["context"] * (inner["tensor"] if how.sequence_parallel else 1)
    if how.ranks % ranks or how.sequence % parts:
        return None
    if inner["pipeline"] == 1 and (how.schedule != "1f1b" or how.virtual_stages > 1):
        return None
    data = how.ranks // ranks
    if how.global_batch % (data * how.micro_batch):
        return None
    # A copy that all ranks share goes on being shared by all.
    twice = 2 if how.schedule == "dualpipe" else 1
    now = twice * data * inner["context"]
    group = now if how.shard_group == twice * how.data * how.context else how.shard_group
    if now % group:
        return None
    batches = how.global_batch // (data * how.micro_batch)
    return how.changed(**inner, data=data, shard_group=group, micro_batches=batches)

"""Sequence length, micro-batches and the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.input.problem import divisors

if TYPE_CHECKING:
    from syncline.jobs.settings import Settings


def batch(settings: Settings, pipeline: int, replicas: int) -> None:
    """The batch of ``replicas`` data-parallel ranks, in micro-batches if there is a pipeline."""
    settings.put(
        "batch.sequence",
        settings.whole("training.seq_len", 2048),
        "training.seq_len",
        note=settings.default_note("training.seq_len"),
    )
    names = ("training.local_batch_size", "training.batch_size")
    local = settings.whole(names[0]) or settings.whole(names[1]) or 8
    note = settings.default_note(*names)
    micro = settings.whole("parallelism.pipeline_parallel_microbatch_size", 1) or 1
    # Versions before 0.1 say how many micro-batches there are.
    older = "parallelism.pipeline_parallel_microbatches"
    count = settings.whole(older)
    if pipeline > 1 and count is not None:
        settings.put("batch.micro_batch", max(local // count, 1), older, *names)
        if local % count:
            fit = ", ".join(map(str, divisors(local)))
            settings.problem(older, f"the batch of a rank, {local}, does not divide into micro-batches", allowed=fit)
    elif pipeline > 1:
        name = "parallelism.pipeline_parallel_microbatch_size"
        settings.put("batch.micro_batch", micro, name, note=settings.default_note(name))
        if local % micro:
            settings.problem(names[0], "the batch of a rank does not divide into micro-batches", allowed=f"n x {micro}")
    else:
        settings.put("batch.micro_batch", local, *names, note=note)
    whole = settings.whole("training.global_batch_size", -1, least=-1)
    if whole is not None and whole > 0:
        settings.put("batch.global_batch", whole, "training.global_batch_size")
    else:
        said = f"the batch of each of {replicas} data-parallel ranks"
        settings.put("batch.global_batch", local * replicas, *names, note=said)

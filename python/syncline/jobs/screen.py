"""An estimate on a terminal, and as a dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.estimate.error_bars import own_sentences, sentences
from syncline.estimate.screen import around, changes_table, exposed, many, memory_table, parts_table
from syncline.jobs.slowest_stage import slowest_stage
from syncline.quantity import memory, percent, scaled, time
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.jobs.alternatives import Faster
    from syncline.jobs.estimation import Estimate


def screen(found: Estimate, better: Sequence[Faster], width: int) -> RenderableType:
    """The estimate for a terminal of this width, and what would be better."""
    blocks: list[RenderableType] = []
    for said in (_head(found), _trust(found), _memory(found)):
        blocks += [Text(lines(said, width)), Text()]
    blocks += [
        parts_table("step", found.parts, found.step_s),
        Text(),
        memory_table(_fullest(found), found.memory, found.capacity),
    ]
    note = getattr(found.job.architecture, "note", None)
    note = None if note is None else f"Note: {note.rstrip('.')}."
    blocks += [Text(), *(_faster(better, found, width) if found.fits else _fitting(found, width))]
    derived = found.job.machine.derived
    derived = None if derived is None else f"Note: {derived}"
    on = found.job.machine
    nccl = f"Calibrated: {on.calibrated(found.job.job.ranks)}." if on.chosen_nccl else None
    slowest = slowest_stage(found)
    slow = None if slowest is None else slowest.said
    for more in (exposed(found.parts, found.step_s), slow, padded(found), note, derived, nccl):
        if more is not None:
            blocks += [Text(), Text(lines(more, width))]
    return Group(*blocks)


def padded(found: Estimate) -> str | None:
    """How far the vocabulary is padded; None if it is not."""
    vocab, unit = found.job.architecture.vocab, found.job.job.vocab_multiple
    multiple = unit * found.job.job.tensor
    if vocab % multiple == 0:
        return None
    size = -(-vocab // multiple) * multiple
    by = f"{unit} x tensor = {multiple:,}" if unit > 1 else f"tensor = {multiple}"
    return f"The vocabulary of {vocab:,} tokens is padded to {size:,}, a multiple of {by}."


def _faster(better: Sequence[Faster], found: Estimate, width: int) -> list[RenderableType]:
    """Single changes that would be faster, as a table."""
    if not better:
        said = "No single change of axes, micro-batch, recomputation or overlap shortens the step by 1 %."
        return [Text(lines(said, width))]
    changes = [(each.key, each.value, each.estimate.step_s, each.estimate.memory_bytes) for each in better]
    return [changes_table("a single change", changes, found.step_s)]


def _head(found: Estimate) -> str:
    job, on = found.job.job, found.job.machine
    of_peak = "" if job.precision in ("bf16", "fp16") else " of the peak in bf16"
    return (
        f"{found.job.name}, {scaled(found.job.architecture.weights(), '')} parameters, on {job.ranks:,} "
        f"{on.accelerator} ({job.axes}): {time(found.step_s)} a step of "
        f"{many(job.global_batch, 'sequence')} of {many(job.sequence, 'token')}"
        f"{around(found.errors, found.step_s)}: {found.tokens_per_s:,.0f} tokens/s "
        f"an accelerator{'' if found.mfu is None else f', MFU {percent(found.mfu)}{of_peak}'}."
    )


def _memory(found: Estimate) -> str:
    whole, needed = memory(found.capacity), memory(found.memory_bytes)
    host = host_sentence(found)
    if found.fits:
        return f"It fits: the fullest accelerator needs {needed} of {whole}.{host}"
    return f"It does not fit: the fullest accelerator needs {needed}, and has {whole}.{host}"


def host_sentence(found: Estimate) -> str:
    """What a rank has in the host's memory, as a further sentence; empty if it has nothing there."""
    if not found.host_bytes:
        return ""
    most = "" if found.host_capacity is None else f" of {memory(found.host_capacity)} for each accelerator"
    return f" It has {memory(found.host_bytes)} in the host's memory{most}."


def _trust(found: Estimate) -> str:
    return " ".join(trust(found))


def trust(found: Estimate) -> list[str]:
    """Explains the error bar of an estimate, in sentences."""
    job, on = found.job.job, found.job.machine
    file = found.job.constants_file
    if file is not None and on.own is None:
        return own_sentences(file, found.job.sets[found.job.constants], found.kind)
    size = {"gpus": job.ranks, "sequence": job.sequence}
    return sentences(found.errors, on.accelerator, found.kind, **size, kernels=on.own_kernels)


def _fitting(found: Estimate, width: int) -> list[RenderableType]:
    """What would make the job fit."""
    if not found.changes:
        return [Text(lines("No three changes of this job make it fit: use more accelerators, or larger ones.", width))]
    table = bare()
    for heading in ("what would make it fit", "step", "memory"):
        left = heading not in ("step", "memory")
        table.add_column(heading, justify="left" if left else "right", no_wrap=not left)
    for each in found.changes:
        table.add_row(each.said, time(each.step_s), memory(each.memory_bytes))
    return [table]


def _fullest(found: Estimate) -> str:
    if found.job.job.pipeline == 1:
        return "memory of a rank"
    return f"memory of a rank of stage {found.stage}"


def _slowest(found: Estimate) -> dict[str, Any] | None:
    """The slowest stage as plain data, and what would balance the pipeline; None where stages differ little."""
    slowest = slowest_stage(found)
    if slowest is None:
        return None
    layout = slowest.balanced
    balanced = None if layout is None else {"chunk_layers": list(layout.chunk_layers), "step_s": layout.estimate.step_s}
    return {"stage": slowest.stage, "slower_than_others": slowest.slower, "balanced": balanced}


def as_dict(found: Estimate, better: Sequence[Faster]) -> dict[str, Any]:
    """The estimate as plain data, and what would be better."""
    return {
        "name": found.job.name,
        "accelerator": found.job.machine.accelerator,
        "framework": found.job.framework,
        "calibrated": found.job.machine.calibrated(found.job.job.ranks),
        "job": found.job.job.model_dump(),
        "step_s": found.step_s,
        "parts_s": dict(found.parts),
        "stages_s": list(found.stages_s),
        "slowest_stage": _slowest(found),
        "tokens_per_s_per_accelerator": found.tokens_per_s,
        "mfu": found.mfu,
        "memory_bytes": found.memory_bytes,
        "memory": dict(found.memory),
        "fullest_stage": found.stage,
        "capacity_bytes": found.capacity,
        "host_memory_bytes": found.host_bytes,
        "host_capacity_bytes": found.host_capacity,
        "fits": found.fits,
        "changes": [
            {
                "change": each.said,
                "job": each.job.model_dump(),
                "step_s": each.step_s,
                "memory_bytes": each.memory_bytes,
                "host_memory_bytes": each.host_bytes,
            }
            for each in found.changes
        ],
        "errors": None if found.errors is None else found.errors.model_dump(),
        "faster": [
            {
                "key": each.key,
                "value": each.value,
                "step_s": each.estimate.step_s,
                "memory_bytes": each.estimate.memory_bytes,
            }
            for each in better
        ],
    }

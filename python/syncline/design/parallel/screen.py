"""The result of a search on a terminal, and as a dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.design.parallel.search_divisions import AXES
from syncline.design.parallel.search_divisions import axes as axes_of
from syncline.estimate import kind_of
from syncline.estimate.error_bars import sentences
from syncline.quantity import memory, percent, scaled, time
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from syncline.design.parallel.search_divisions import Division, Found

PARTS = {
    "products": "matrix products",
    "attention": "attention",
    "element_wise": "between products",
    "ends": "embedding, output layer, loss",
    "launch": "launching kernels",
    "tensor": "tensor-parallel collectives, not hidden",
    "context": "keys and values, not hidden",
    "expert": "tokens to experts",
    "bubble": "pipeline fills, drains, waits",
    "messages": "messages between stages, not hidden",
    "exchange": "gradients and parameters, not hidden",
    "update": "optimizer",
}
"""Parts of a step, in the order of the table."""
KINDS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "states of the optimizer",
    "activations": "activations",
    "logits": "logits",
    "working": "working memory of a layer",
    "gathered": "gathered parameters",
    "fragmentation": "lost by the allocator",
    "buffers": "buffers of NCCL",
    "context": "driver",
}
"""Kinds of memory, in the order of the table."""
WHY = {
    "tensor": "each layer's products wait for them",
    "context": "attention waits for the keys and values of other ranks",
    "expert": "in each layer, experts wait for their tokens, and the next layer for what comes back",
    "messages": "each stage waits for its neighbours",
    "exchange": "gradients are complete only when the backward pass ends, and the next step needs all parameters",
}
"""Parts of a step in which ranks wait for communication, and why computation does not hide it."""
_BAR = 24


def axes(division: Division) -> str:
    """The axes with more than one rank, such as ``TP 4, PP 8, DP 16``."""
    return axes_of(division.job)


def screen(found: Found, width: int) -> RenderableType:
    """The result for a terminal of this width."""
    best, request = found.best[0], found.request
    of_peak = "" if request.precision == "bf16" else " of the peak in bf16"
    model, batch = request.architecture, _many(request.global_batch, "sequence")
    head = (
        f"{model.source}, {scaled(model.weights(), '')} parameters, on {_many(request.gpus, 'accelerator')}: "
        f"{time(best.step_s)} a step of {batch} of {_many(request.sequence, 'token')}{_around(found)}: "
        f"{found.tokens_per_s(best):,.0f} tokens/s an accelerator, MFU {percent(found.mfu(best))}{of_peak}."
    )
    counts = (
        f"{found.fitting:,} of {found.possible:,} divisions fit into {memory(found.capacity)} of "
        f"{request.machine.accelerator}."
    )
    blocks: list[RenderableType] = [
        Text(lines(head, width)),
        Text(),
        Text(lines(_trust(found), width)),
        Text(),
        Text(lines(counts, width)),
        Text(),
        _ranking(found),
        Text(),
    ]
    blocks += [_parts(best), Text(), _memory(best, found.capacity)]
    note = model.note
    for said in (exposed(best), reason(found), None if note is None else f"Note: {note}"):
        if said is not None:
            blocks += [Text(), Text(lines(said, width))]
    return Group(*blocks)


def _around(found: Found) -> str:
    """The steps that the error bar of the fastest division holds."""
    if found.errors is None:
        return ""
    low, high = found.errors.around(found.best[0].step_s)
    return f", {_about(low)} {f'to {_about(high)}' if high is not None else 'or more'} by the error bar"


def _about(seconds: float) -> str:
    """A time with two digits."""
    return time(float(f"{seconds:.2g}"))


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _trust(found: Found) -> str:
    """How near such estimates are."""
    request = found.request
    accelerator, kind = request.machine.accelerator, kind_of(request.architecture)
    return " ".join(sentences(found.errors, accelerator, kind, gpus=request.gpus, sequence=request.sequence))


def _ranking(found: Found) -> RenderableType:
    table = bare(spare=("tokens/s", "MFU"))
    for heading in ("", "division", "micro-batch", "step", "tokens/s", "MFU", "memory"):
        table.add_column(heading, justify="left" if heading == "division" else "right", no_wrap=heading != "division")
    for place, each in enumerate(found.best, start=1):
        job = each.job
        table.add_row(
            str(place),
            axes(each),
            f"{job['micro_batch']} x {job['micro_batches']}",
            time(each.step_s),
            f"{found.tokens_per_s(each):,.0f}",
            percent(found.mfu(each)),
            memory(each.memory_bytes),
        )
    return table


def _parts(best: Division) -> RenderableType:
    table = bare()
    for heading in ("step of division 1", "time", "part", ""):
        table.add_column(heading, justify="right" if heading in ("time", "part") else "left", no_wrap=True)
    for name, title in PARTS.items():
        if (seconds := best.parts[name]) > 0:
            part = seconds / best.step_s
            table.add_row(title, time(seconds), percent(part), "█" * round(_BAR * part))
    return table


def _memory(best: Division, capacity: int) -> RenderableType:
    table = bare()
    part_of = f"part of {memory(capacity)}"
    for heading in ("memory of division 1", "size", part_of, ""):
        table.add_column(heading, justify="right" if heading in ("size", part_of) else "left", no_wrap=True)
    for name, title in KINDS.items():
        if nbytes := best.memory[name]:
            part = nbytes / capacity
            table.add_row(title, memory(nbytes), percent(part), "█" * round(_BAR * part))
    return table


def exposed(division: Division) -> str | None:
    """How much of a step ranks wait for communication, and for which most; None if they never do."""
    waits = {name: division.parts[name] for name in WHY}
    total, most = sum(waits.values()), max(waits, key=lambda each: waits[each])
    if total <= 0:
        return None
    said = f"Exposed communication takes {time(total)}, {percent(total / division.step_s)} of the step"
    title = PARTS[most].removesuffix(", not hidden")
    return f"{said}, most of it for {title} ({time(waits[most])}): {WHY[most]}."


def reason(found: Found) -> str | None:
    """Why the fastest division is faster than the best one that differs in its axes."""
    best = found.best[0]
    other = next((each for each in found.best if _plan(each) != _plan(best)), None)
    if other is None:
        return None
    less = {name: other.parts[name] - best.parts[name] for name in PARTS}
    name = max(less, key=lambda each: less[each])
    more = min(less, key=lambda each: less[each])
    said = (
        f"Compared with {axes(other)}, which takes {percent(other.step_s / best.step_s - 1)} longer, division 1 spends "
        f'{time(less[name])} less on "{PARTS[name]}"'
    )
    return f'{said}, and {time(-less[more])} more on "{PARTS[more]}".' if less[more] < 0 else f"{said}."


def _plan(division: Division) -> tuple[int, ...]:
    return tuple(division.job[name] for name in AXES)


def as_dict(found: Found) -> dict[str, Any]:
    """The result as plain data."""
    model = found.request.architecture
    return {
        "model": {"name": model.source, "parameters": model.weights(), "note": model.note},
        "possible": found.possible,
        "fitting": found.fitting,
        "capacity_bytes": found.capacity,
        "errors": None if found.errors is None else found.errors.model_dump(),
        "divisions": [
            {
                "job": dict(each.job),
                "step_s": each.step_s,
                "tokens_per_s_per_accelerator": found.tokens_per_s(each),
                "mfu": found.mfu(each),
                "memory_bytes": each.memory_bytes,
                "parts_s": dict(each.parts),
                "memory": dict(each.memory),
            }
            for each in found.best
        ],
    }

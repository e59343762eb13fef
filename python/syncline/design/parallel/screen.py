"""The result of a search on a terminal, and as a dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.design.parallel.search import AXES
from syncline.design.parallel.search import axes as axes_of
from syncline.quantity import memory, percent, time
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from syncline.design.parallel.search import Division, Found

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
_BAR = 24


def axes(division: Division) -> str:
    """The axes with more than one rank, such as ``TP 4, PP 8, DP 16``."""
    return axes_of(division.job)


def screen(found: Found, width: int) -> RenderableType:
    """The result for a terminal of this width."""
    best, request = found.best[0], found.request
    of_peak = "" if request.precision == "bf16" else " of the peak in bf16"
    head = (
        f"{request.architecture.source} on {_many(request.gpus, 'accelerator')}: {time(best.step_s)} a step of "
        f"{_many(request.global_batch, 'sequence')} of {_many(request.sequence, 'token')}, "
        f"{found.tokens_per_s(best):,.0f} tokens/s an accelerator, MFU {percent(found.mfu(best))}{of_peak}."
    )
    counts = (
        f"{found.fitting:,} of {found.possible:,} divisions fit into {memory(found.capacity)} of "
        f"{request.machine.accelerator}. {_trust(found)}"
    )
    blocks: list[RenderableType] = [
        Text(lines(head, width)),
        Text(),
        Text(lines(counts, width)),
        Text(),
        _ranking(found),
        Text(),
    ]
    blocks += [_parts(best), Text(), _memory(best, found.capacity)]
    if (why := reason(found)) is not None:
        blocks += [Text(), Text(lines(why, width))]
    return Group(*blocks)


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _trust(found: Found) -> str:
    """How near such estimates are."""
    errors = found.errors
    if errors is None:
        return "Times are estimates of a model with experts, which can be off by half: measure before you decide."
    return (
        f"Times are estimates: with constants fitted to other models, half of {errors.rows} measured steps of dense "
        f"models were within {percent(errors.median)}, and nine of ten within {percent(errors.p90)}."
    )


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
    return {
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

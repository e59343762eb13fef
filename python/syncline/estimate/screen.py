"""Estimates on a terminal: the parts of a step, the kinds of memory, what is exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import memory, percent, time
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from syncline.estimate.error_bars import ErrorBar

COMMUNICATION = {
    "tensor": "tensor-parallel collectives",
    "context": "context-parallel collectives",
    "expert": "expert dispatch and combine",
    "messages": "messages between stages",
    "exchange": "gradients and parameters",
}
"""Communication by part of a step."""
PARTS = {
    "products": "matrix products",
    "attention": "attention",
    "element_wise": "element-wise operations, norms",
    "ends": "embedding, output layer, loss",
    "launch": "kernel launches",
    "offload": "copies from and to the host, exposed",
    **{part: f"{title}, exposed" for part, title in COMMUNICATION.items()},
    "bubble": "pipeline bubble",
    "update": "optimizer",
}
"""Parts of a step, in the order of the table."""
KINDS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer states",
    "activations": "activations",
    "logits": "logits",
    "working": "working memory of a layer",
    "gathered": "gathered parameters",
    "fragmentation": "allocator fragmentation",
    "buffers": "NCCL buffers",
    "context": "CUDA context",
}
"""Kinds of memory, in the order of the table."""
WHY = {
    "tensor": "each layer's matrix products wait for them",
    "context": "attention waits for the keys and values of other ranks",
    "expert": "in each layer, experts wait for their tokens, and the next layer for what comes back",
    "offload": "activations and optimizer states in the host's memory move more slowly than layers compute",
    "messages": "each stage waits for its neighbours",
    "exchange": "gradients are complete only when the backward pass ends, and the next step needs all parameters",
}
"""Parts of a step in which ranks wait for communication, and why computation does not hide it."""
_BAR = 24


def around(errors: ErrorBar | None, step_s: float) -> str:
    """The steps that the error bar of a step holds, as the end of a sentence."""
    if errors is None:
        return ""
    low, high = errors.around(step_s)
    return f", {_about(low)} {f'to {_about(high)}' if high is not None else 'or more'} by the error bar"


def many(count: int, word: str) -> str:
    """A large number with its noun: ``1 token``, ``8,192 tokens``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _about(seconds: float) -> str:
    """A time with two digits."""
    return time(float(f"{seconds:.2g}"))


def exposed(parts: Mapping[str, float], step_s: float) -> str | None:
    """How much of a step ranks wait for communication, and for which most; None if they never do."""
    waits = {name: parts[name] for name in WHY}
    total, most = sum(waits.values()), max(waits, key=lambda each: waits[each])
    if total <= 0:
        return None
    said = f"Exposed communication takes {time(total)}, {percent(total / step_s)} of the step"
    return f"{said}, most of it for {PARTS[most].removesuffix(', exposed')} ({time(waits[most])}): {WHY[most]}."


def _bar(part: float) -> str:
    return "█" * round(_BAR * min(part, 1.0))


def parts_table(heading: str, parts: Mapping[str, float], step_s: float) -> RenderableType:
    """The parts of a step, in seconds, beside the whole."""
    table = bare(spare=("",))
    for title in (heading, "time", "part", ""):
        table.add_column(title, justify="right" if title in ("time", "part") else "left", no_wrap=title != heading)
    for name, title in PARTS.items():
        if (seconds := parts[name]) > 0:
            part = seconds / step_s
            table.add_row(title, time(seconds), percent(part), _bar(part))
    return table


def setting(key: str, value: object) -> str:
    """A key of a job file and its value, as ``--set`` takes them."""
    return f"{key}={str(value).lower() if isinstance(value, bool) else value}"


def changes_table(heading: str, changes: Sequence[tuple[str, str | bool, float, int]], step_s: float) -> RenderableType:
    """Keys of a job file with other values, the step and the memory in bytes with each, beside the step as it is."""
    table = bare()
    for title in (heading, "step", "shorter by", "memory"):
        table.add_column(title, justify="left" if title == heading else "right", no_wrap=True)
    for key, value, seconds, nbytes in changes:
        table.add_row(setting(key, value), time(seconds), percent(1 - seconds / step_s), memory(nbytes))
    return table


def memory_table(heading: str, kinds: Mapping[str, int], capacity: int) -> RenderableType:
    """The kinds of memory, in bytes, beside the memory of the accelerator."""
    table = bare(spare=("",))
    part_of = f"part of {memory(capacity)}"
    for title in (heading, "size", part_of, ""):
        table.add_column(title, justify="right" if title in ("size", part_of) else "left", no_wrap=title != heading)
    for name, title in KINDS.items():
        if nbytes := kinds[name]:
            part = nbytes / capacity
            table.add_row(title, memory(nbytes), percent(part), _bar(part))
    return table

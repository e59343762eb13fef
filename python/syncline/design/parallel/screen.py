"""The result of a search on a terminal, and as a dictionary."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.design.parallel.training import training_job
from syncline.estimate import kind_of
from syncline.estimate.error_bars import own_sentences, sentences
from syncline.estimate.screen import PARTS, around, changes_table, exposed, many, memory_table, parts_table
from syncline.jobs import estimate
from syncline.jobs.slowest_stage import slowest_stage
from syncline.quantity import memory, percent, scaled, time
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.parallel.search_configurations import Configuration, Found

_AXES_WIDTH = 21
"""Characters of a line of axes in the ranking, so that a terminal of 80 has room for the other columns."""
_NO_BREAK = "\xa0"


def axes(configuration: Configuration) -> str:
    """The axes with more than one rank, such as ``TP 4, PP 8, DP 16``."""
    return configuration.how.axes


def screen(found: Found, width: int, more: Sequence[RenderableType] = ()) -> RenderableType:
    """The result for a terminal of this width; ``more`` replaces the comparison with the next configuration."""
    best, request = found.best[0], found.request
    of_peak = "" if request.precision == "bf16" else " of the peak in bf16"
    part = found.mfu(best)
    mfu = "" if part is None else f", MFU {percent(part)}{of_peak}"
    model, batch = request.architecture, many(request.global_batch, "sequence")
    head = (
        f"{model.source}, {scaled(model.weights(), '')} parameters, on {many(request.gpus, 'accelerator')}: "
        f"{time(best.step_s)} a step of {batch} of {many(request.sequence, 'token')}"
        f"{around(found.errors, best.step_s)}: {found.tokens_per_s(best):,.0f} tokens/s an accelerator{mfu}."
    )
    counts = (
        f"{found.fitting:,} of {found.possible:,} configurations fit into {memory(found.capacity)} of "
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
    if (close := near(found)) is not None:
        blocks += [Text(lines(close, width)), Text()]
    blocks += [
        parts_table("step of configuration 1", best.parts, best.step_s),
        Text(),
        memory_table("memory of configuration 1", best.memory, found.capacity),
    ]
    if (host := _host(found)) is not None:
        blocks += [Text(), Text(lines(host, width))]
    if found.switches:
        faster = [(each.key, each.value, each.step_s, each.memory_bytes) for each in found.switches]
        blocks += [Text(), changes_table("configuration 1 with", faster, best.step_s)]
    note = model.note
    slowest = slowest_stage(estimate(training_job(request, best)))
    for said in (
        exposed(best.parts, best.step_s),
        None if slowest is None or slowest.balanced is None else slowest.said,
        None if more else reason(found),
        offload(found),
        None if note is None else f"Note: {note.rstrip('.')}.",
        None if request.machine.derived is None else f"Note: {request.machine.derived}",
        f"Calibrated: {request.machine.calibrated(request.gpus)}." if request.machine.chosen_nccl else None,
    ):
        if said is not None:
            blocks += [Text(), Text(lines(said, width))]
    blocks += more
    return Group(*blocks)


def _host(found: Found) -> str | None:
    """What the best configuration has in the host's memory; None if nothing."""
    needed, size = found.best[0].host_bytes, found.request.machine.host.memory_bytes
    if needed == 0:
        return None
    most = "" if size is None else f" of {memory(int(size))}"
    return f"Configuration 1 has {memory(needed)}{most} of the host's memory for each accelerator."


def offload(found: Found) -> str | None:
    """What offload saves; None if nothing may lie in the host's memory."""
    if not found.request.offload:
        return None
    best, without = found.best[0], found.without_offload
    if not best.how.offload:
        return "No configuration with offload is better."
    if without is None:
        return "Without offload, no configuration fits."
    return (
        f"Without offload, the best configuration that fits is {axes(without)}: {time(without.step_s)}, "
        f"{percent(without.step_s / best.step_s - 1)} longer."
    )


def _trust(found: Found) -> str:
    """How near such estimates are."""
    request = found.request
    on, kind = request.machine, kind_of(request.architecture)
    if request.constants is not None and on.own is None:
        return " ".join(own_sentences(request.constants, request.sets[request.constant_set], kind))
    size = {"gpus": request.gpus, "sequence": request.sequence}
    return " ".join(sentences(found.errors, on.accelerator, kind, **size, kernels=on.own_kernels))


def near(found: Found) -> str | None:
    """Which of the best configurations an estimate may rank wrongly; None if none, or if nobody measured such jobs."""
    if found.errors is None:
        return None
    least = found.best[0].step_s * (1 + found.errors.median)
    count = sum(each.step_s <= least for each in found.best)
    if count < 2:
        return None
    which = f"Configurations 1 to {count}" if count > 2 else "Configurations 1 and 2"
    median = percent(found.errors.median)
    return f"{which} differ by less than the median error of such estimates ({median}): measure them before you choose."


def _ranking(found: Found) -> RenderableType:
    table = bare(spare=("tokens/s", "MFU"))
    for heading in ("", "configuration", "micro-batch", "step", "tokens/s", "MFU", "memory"):
        table.add_column(
            heading, justify="left" if heading == "configuration" else "right", no_wrap=heading != "configuration"
        )
    for place, each in enumerate(found.best, start=1):
        job = each.job
        table.add_row(
            str(place),
            ranked_axes(axes(each)),
            f"{job['micro_batch']} x {job['micro_batches']}",
            time(each.step_s),
            f"{found.tokens_per_s(each):,.0f}",
            "" if (part := found.mfu(each)) is None else percent(part),
            memory(each.memory_bytes),
        )
    return table


def ranked_axes(axes: str) -> str:
    """Axes in lines that end after a comma, and so keep a name with its number."""
    kept = axes.replace(" ", _NO_BREAK).replace(f",{_NO_BREAK}", ", ")
    return "\n".join(textwrap.wrap(kept, _AXES_WIDTH)).replace(_NO_BREAK, " ")


def reason(found: Found) -> str | None:
    """Why the fastest configuration is faster than the best one that differs in its axes."""
    best = found.best[0]
    other = next((each for each in found.best if each.plan != best.plan), None)
    if other is None:
        return None
    less = {name: other.parts[name] - best.parts[name] for name in PARTS}
    name = max(less, key=lambda each: less[each])
    more = min(less, key=lambda each: less[each])
    said = (
        f"Compared with {axes(other)}, which takes {percent(other.step_s / best.step_s - 1)} longer, configuration 1"
        f' spends {time(less[name])} less on "{PARTS[name]}"'
    )
    return f'{said}, and {time(-less[more])} more on "{PARTS[more]}".' if less[more] < 0 else f"{said}."


def as_dict(found: Found) -> dict[str, Any]:
    """The result as plain data."""
    model = found.request.architecture
    return {
        "model": {"name": model.source, "parameters": model.weights(), "note": model.note},
        "possible": found.possible,
        "fitting": found.fitting,
        "capacity_bytes": found.capacity,
        "errors": None if found.errors is None else found.errors.model_dump(),
        "calibrated": found.request.machine.calibrated(found.request.gpus),
        "configurations": [
            {
                "job": dict(each.job),
                "step_s": each.step_s,
                "tokens_per_s_per_accelerator": found.tokens_per_s(each),
                "mfu": found.mfu(each),
                "memory_bytes": each.memory_bytes,
                "host_memory_bytes": each.host_bytes,
                "parts_s": dict(each.parts),
                "memory": dict(each.memory),
            }
            for each in found.best
        ],
        "without_offload": None
        if found.without_offload is None
        else {"job": dict(found.without_offload.job), "step_s": found.without_offload.step_s},
        "switches": [
            {"key": each.key, "value": each.value, "step_s": each.step_s, "memory_bytes": each.memory_bytes}
            for each in found.switches
        ],
    }

"""What ``show`` prints: the fabric, the workload, the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from syncline.report.drawing import describe, dimension, graph
from syncline.report.quantity import counted, rate, scaled, size, time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType


def _table(*headings: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), header_style="dim")
    for index, heading in enumerate(headings):
        least = len(heading) if index == 0 else None
        table.add_column(
            heading, justify="left" if index == 0 else "right", overflow="fold", no_wrap=index > 0, min_width=least
        )
    return table


def fabric(view: dict[str, Any]) -> Iterator[RenderableType]:
    """Sizes, dimensions with their rates, and a drawing."""
    switches = view["switches"]
    head = [counted(view["npus"], "NPU"), *([f"{switches} switch{'es' if switches > 1 else ''}"] if switches else [])]
    yield Text.assemble((view["shape"] or "graph", "bold"), f"  {', '.join(head)}, {view['links']} directed links")
    yield ""
    if view["dims"]:
        table = _table("dimension", "what", "link", "latency", "NPU sends")
        for dim in view["dims"]:
            table.add_row(
                dim["name"],
                describe(dim),
                rate(dim["rate_bytes_per_s"]),
                time(dim["latency_s"]),
                rate(dim["rate_per_npu_bytes_per_s"]),
            )
        yield table
        for dim in view["dims"]:
            yield ""
            yield Text.assemble((dim["name"], "bold"), f"  {rate(dim['rate_bytes_per_s'])} a link", style="")
            for line in dimension(dim):
                yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")
    else:
        for line in graph(view["listed"], view["links"]):
            yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")


def workload(view: dict[str, Any]) -> Iterator[RenderableType]:
    """Process groups, classes of ranks and what they do in one iteration."""
    several = view.get("micro_batches")
    of = f" of {several} micro-batches" if several else ""
    yield Text.assemble(
        (view["name"] or "workload", "bold"),
        f"  {counted(view['ranks'], 'rank')}, {counted(view['iterations'], 'iteration')}{of}, "
        f"{counted(view['layers'], 'layer')}",
    )
    yield Text(f"Compute: {view['compute_model']}", "dim")
    yield ""
    groups = _table("process group", "groups", "ranks each", "the first")
    for role in view["roles"]:
        if role["ranks"] == 1:
            continue
        first = ranks(role["example"], role["ranks"])
        groups.add_row(role["name"], str(role["groups"]), str(role["ranks"]), first)
    yield groups
    if view["work"]:
        yield ""
        yield from _layers(view["work"])
    each_time = "a micro-batch; in an iteration" if several else "an iteration,"
    for number, each in enumerate(view["classes"]):
        yield ""
        yield Text.assemble(
            (f"class {number}", "bold"),
            f"  {counted(each['ranks'], 'rank')}, {counted(each['tasks'], 'task')} {each_time} "
            f"{scaled(each['flop'], 'FLOP')}, compute {time(each['compute_s'])}",
        )
        table = _table("collective", "over", "count", "bytes")
        for comm in each["collectives"]:
            table.add_row(comm["kind"], comm["role"], str(comm["count"]), scaled(comm["bytes"], "B"))
        if each["collectives"]:
            yield table


LAYERS = 8
"""Layers that are listed on the screen."""


def _layers(work: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """What each layer does in one iteration; of many, the first."""
    known = all(each["compute_s"] is not None for each in work)
    table = _table("layer", "FLOP", "memory", "parameters", *(["compute"] if known else []))
    for each in work[:LAYERS]:
        seconds = each["compute_s"]
        table.add_row(
            each["layer"],
            scaled(each["flop"], "FLOP"),
            scaled(each["memory_bytes"], "B"),
            scaled(each["parameters"], ""),
            *([time(seconds)] if known else []),
        )
    yield table
    if len(work) > LAYERS:
        yield Text(f"and {counted(len(work) - LAYERS, 'more layer')}, which --json lists", "dim")
    yield Text("FLOP, memory, parameters: for one NPU's samples, before model parallelism", "dim")
    if known:
        yield Text("compute: of one rank of class 0, in one iteration", "dim")


def ranks(listed: list[int], count: int) -> str:
    """``0 1 2 ... 31``; equal distances are shown by their start and end."""
    if len(listed) <= 8:
        return " ".join(str(rank) for rank in listed)
    end = str(listed[-1]) if len(listed) == count else ""
    return f"{' '.join(str(rank) for rank in listed[:4])} … {end}".strip()


def plan(view: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """The phases of each collective that the workload uses; of those with equal phases, the largest."""
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for each in view:
        phases = (tuple(phase[key] for key in _PHASE) for phase in each["phases"])
        alike.setdefault((each["kind"], *phases), []).append(each)
    for number, same in enumerate(alike.values()):
        if number:
            yield ""
        yield from _plan(sorted(same, key=lambda each: each["bytes"], reverse=True))
    if not view:
        yield Text("The workload uses no collective.")


_PHASE = ("dimension", "kind", "algorithm", "ranks", "streams")


def _plan(same: list[dict[str, Any]]) -> Iterator[RenderableType]:
    largest, *others = same
    yield Text.assemble(
        (f"{largest['kind']} of {size(largest['bytes'])}", "bold"),
        f"  {counted(largest['chunks'], 'chunk')} of {size(largest['chunk_bytes'])}, "
        f"at least {time(largest['bound_s'])}",
    )
    table = _table("phase", "dimension", "ranks", "streams", "chunk", "messages", "sent")
    for index, phase in enumerate(largest["phases"], start=1):
        table.add_row(
            f"{index} {phase['algorithm']} {phase['kind']}",
            phase["dimension"],
            str(phase["ranks"]),
            str(phase["streams"]),
            size(phase["chunk_bytes"]),
            str(phase["messages_per_rank"]),
            scaled(phase["sent_bytes_per_rank"], "B"),
        )
    yield table
    yield Text("messages and sent: of one rank, for one chunk", "dim")
    if others:
        smallest = size(others[-1]["bytes"])
        sizes = f"from {smallest} to {size(others[0]['bytes'])}" if len(others) > 1 else f"of {smallest}"
        yield Text(f"{counted(len(others), 'smaller set')} {sizes}: the same phases", "dim")

"""Draws what ``show`` prints: the fabric, the workload, the plans."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from syncline.quantity import component, counted, memory, money, percent, rate, scaled, size, time
from syncline.report.drawings.characters import describe, dimension, graph
from syncline.terminal.table import bare, of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType


LINKS = 256
"""Maximum number of links of a graph that are listed on the screen."""


def fabric(view: dict[str, Any]) -> Iterator[RenderableType]:
    """The fabric: sizes, diameter and bisection, dimensions or kinds of links with their rates, and a drawing."""
    switches = view["switches"] - sum(level["count"] for level in view["levels"] if level["kind"] == "nic")
    head = [counted(view["npus"], "NPU"), *([counted(switches, "switch")] if switches else [])]
    name = view["shape"] or view["family"] or "graph"
    yield Text.assemble((name, "bold"), f"  {', '.join(head)}, {view['links']} directed links")
    if view["routing"]:
        yield Text(f"Routes: {routing(view['routing'])}", "dim")
    yield Text(reach(view), "dim")
    yield ""
    if view["dims"]:
        table = of_numbers("dimension", "what", "link", "latency", "NPU sends")
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
            yield Text.assemble((dim["name"], "bold"), f"  {rate(dim['rate_bytes_per_s'])} per link", style="")
            for line in dimension(dim):
                yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")
    elif view["family"]:
        yield from _sorts(view)
    else:
        for line in graph(view["listed"][:LINKS], view["links"]):
            yield Text(f"  {line}", no_wrap=True, overflow="ellipsis")
    if bill := view.get("bill"):
        yield ""
        yield from _bill(bill)


def _bill(bill: dict[str, Any]) -> Iterator[RenderableType]:
    """The cost of the fabric, item by item, with its total."""
    watts = "" if bill["watts"] is None else f", {scaled(bill['watts'], 'W')}"
    each = f"{money(bill['usd'] / bill['npus'])} per NPU"
    yield Text.assemble((f"costs {money(bill['usd'])}", "bold"), f"  {each}{watts}, by prices of {bill['name']}")
    powered = bill["watts"] is not None
    table = bare()
    table.add_column("what, and for what", overflow="fold", min_width=18)
    table.add_column("which", overflow="fold", min_width=12)
    for heading in ("number", "each", "total", "power" if powered else "share"):
        table.add_column(heading, justify="right", no_wrap=True)

    def row(name: Text, item: dict[str, Any] | None, items: list[dict[str, Any]], style: str = "") -> None:
        """A line of the bill, or the sum of several."""
        usd = sum(each["usd"] for each in items)
        known = [each["watts"] for each in items if each["watts"] is not None]
        one = ["", "", ""] if item is None else [item["description"], f"{item['quantity']:,}", money(item["unit_usd"])]
        power = scaled(sum(known), "W") if known else "-"
        table.add_row(name, *one, money(usd), power if powered else percent(usd / bill["usd"]), style=style)

    for name, found in groupby(bill["items"], key=lambda each: str(each["component"])):
        items = list(found)
        alone = len(items) == 1
        head = (component(name), "bold")
        row(Text.assemble(head, f", {items[0]['part']}" if alone else ""), items[0] if alone else None, items)
        for each in () if alone else items:
            row(Text(f"  {each['part']}"), each, [each], "dim")
    row(Text("total", "bold"), None, bill["items"])
    yield table
    for note in bill["notes"]:
        yield Text(f"Note: {note}", "dim")
    yield Text(f"Prices of {bill['year']}: {bill['source']}", "dim")


def _sorts(view: dict[str, Any]) -> Iterator[RenderableType]:
    """Levels of vertices and tiers of links."""
    table = of_numbers("vertices", "count", "links each")
    for level in view["levels"]:
        least, most = level["degree"]
        table.add_row(level["name"], str(level["count"]), str(most) if least == most else f"{least} to {most}")
    yield table
    yield ""
    table = of_numbers("cables", "count", "rate", "latency")
    for tier in view["tiers"]:
        table.add_row(tier["name"], str(tier["links"] // 2), rate(tier["rate_bytes_per_s"]), time(tier["latency_s"]))
    yield table


def reach(view: dict[str, Any]) -> str:
    """Degree, diameter and bisection in one sentence."""
    least, most = view["levels"][0]["degree"]
    parts = [f"Degree of an NPU {least if least == most else f'{least} to {most}'}"]
    if view["diameter"] is not None:
        parts.append(f"diameter {counted(view['diameter'], 'link')}")
    if found := view["bisection"]:
        share = found["rate_bytes_per_s"] / found["ideal_bytes_per_s"] if found["ideal_bytes_per_s"] else 0.0
        least_of_all = "" if found["method"] != "one_half" else "at most "
        parts.append(
            f"bisection {least_of_all}{rate(found['rate_bytes_per_s'])} each way"
            f" ({percent(share)} of what half of the NPUs can send)"
        )
    return f"{'; '.join(parts)}"


def routing(view: dict[str, Any]) -> str:
    """The routing of a graph, in words."""
    if view["policy"] == "ecmp":
        return f"fewest links, ties by a hash of the flow (ecmp, seed {view['seed']})"
    if view["policy"] == "dimension_order":
        return "dimension by dimension, the lowest first"
    given = f"; {counted(view['explicit'], 'pair')} by {'a given path' if view['explicit'] == 1 else 'given paths'}"
    return f"fewest links, ties to the smaller vertex number{given if view['explicit'] else ''}"


def workload(view: dict[str, Any]) -> Iterator[RenderableType]:
    """The workload: process groups, and what each class of ranks does in an iteration."""
    several = view.get("micro_batches")
    of = f" of {several} micro-batches" if several else ""
    yield Text.assemble(
        (view["name"] or "workload", "bold"),
        f"  {counted(view['ranks'], 'rank')}, {counted(view['iterations'], 'iteration')}{of}, "
        f"{counted(view['layers'], 'layer')}",
    )
    yield Text(f"Compute: {view['compute_model']}", "dim")
    if model := _model(view):
        yield Text(model, "dim")
    yield ""
    groups = of_numbers("process group", "groups", "ranks each", "the first")
    for role in view["roles"]:
        if role["ranks"] == 1:
            continue
        first = ranks(role["example"], role["ranks"])
        groups.add_row(role["name"], str(role["groups"]), str(role["ranks"]), first)
    yield groups
    if view["work"]:
        yield ""
        yield from _layers(view["work"])
    if view.get("memory"):
        yield ""
        yield from _memory(view["memory"], view.get("npu_memory_bytes"))
    if problem := view.get("does_not_fit"):
        yield Text(f"It does not fit: {problem['message']}", "bold red")
        if problem["help"]:
            yield Text(problem["help"][:1].upper() + problem["help"][1:])
    each_time = "per micro-batch; in an iteration" if several else "per iteration,"
    for number, each in enumerate(view["classes"]):
        yield ""
        yield Text.assemble(
            (f"class {number}", "bold"),
            f"  {counted(each['ranks'], 'rank')}, {counted(each['tasks'], 'task')} {each_time} "
            f"{scaled(each['flop'], 'FLOP')}, compute {time(each['compute_s'])}",
        )
        table = of_numbers("collective", "over", "count", "bytes")
        for comm in each["collectives"]:
            table.add_row(comm["kind"], comm["role"], str(comm["count"]), scaled(comm["bytes"], "B"))
        if each["collectives"]:
            yield table
        messages = of_numbers("messages", "", "count", "bytes")
        for message in each.get("messages", ()):
            messages.add_row(message["what"], message["peer"], str(message["count"]), scaled(message["bytes"], "B"))
        if "messages" in each:
            yield messages


def _model(view: dict[str, Any]) -> str:
    """Parameters of the model, element types, optimizer and samples of a step, as far as they are known."""
    said = []
    if view.get("parameters"):
        said.append(f"{scaled(view['parameters'], '').rstrip()} parameters")
    if types := view.get("types"):
        said.append(in_types(types))
    if view.get("optimizer"):
        said.append(f"optimizer {view['optimizer']}")
    if view.get("samples_per_step"):
        said.append(f"{counted(view['samples_per_step'], 'sample')} per step")
    return f"Model: {', '.join(said)}" if said else ""


def in_types(types: Mapping[str, str]) -> str:
    """Element types: that of most kinds of data, and the exceptions, as in ``in bf16 (gradients, optimizer fp32)``."""
    count = Counter(types.values())
    most = max(count, key=lambda each: (count[each], each == types["parameters"]))
    others: dict[str, list[str]] = {}
    for kind, data_type in types.items():
        if data_type != most:
            others.setdefault(data_type, []).append(kind)
    listed = "; ".join(f"{', '.join(kinds)} {data_type}" for data_type, kinds in others.items())
    return f"in {most}{f' ({listed})' if listed else ''}"


LAYERS = 8
"""Maximum number of layers that are listed on the screen."""


def _layers(work: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """The work of each layer in an iteration; only the first ones if there are many."""
    known = all(each["compute_s"] is not None for each in work)
    table = of_numbers("layer", "FLOP", "memory", "parameters", *(["compute"] if known else []))
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
    yield Text("FLOP, memory, parameters: for one NPU's samples, before tensor parallelism", "dim")
    if known:
        yield Text("compute: of one rank of class 0, in one iteration", "dim")


def _memory(stages: list[dict[str, Any]], capacity: int | None) -> Iterator[RenderableType]:
    """The memory of a rank of each stage, by what it holds."""
    table = of_numbers("stage", "parameters", "gradients", "optimizer", "activations", "total", "live")
    for each in stages:
        held = each["parameters_bytes"] + each["gathered_bytes"]
        others = (each[f"{kind}_bytes"] for kind in ("gradients", "optimizer", "activations", "total"))
        amounts = ("-" if number is None else memory(number) for number in (held, *others))
        table.add_row(str(each["stage"]), *amounts, str(each["live"]))
    yield table
    has = f" of {memory(capacity)}" if capacity is not None else ""
    yield Text(f"memory of a rank{has}; live: micro-batches, or parts of them, in flight", "dim")
    if any(each["activations_bytes"] is None for each in stages):
        yield Text("activations are not counted: `kept` is unknown for some layers", "dim")


def ranks(listed: list[int], count: int) -> str:
    """A list of ranks; a long one is cut to ``0 1 2 3 … 31``."""
    if len(listed) <= 8:
        return " ".join(str(rank) for rank in listed)
    end = str(listed[-1]) if len(listed) == count else ""
    return f"{' '.join(str(rank) for rank in listed[:4])} … {end}".strip()


def plan(view: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """The phases of each collective that the workload uses; only the largest of several with equal phases."""
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
        return
    yield ""
    yield Text("messages and sent: of one rank, for one chunk", "dim")
    if any(phase["chosen"] for each in view for phase in each["phases"]):
        yield Text("chosen: the quickest; `collectives.algorithms` selects others", "dim")


_PHASE = ("dimension", "kind", "algorithm", "chosen", "ranks", "streams")


def _plan(same: list[dict[str, Any]]) -> Iterator[RenderableType]:
    largest, *others = same
    yield Text.assemble(
        (f"{largest['kind']} of {size(largest['bytes'])}", "bold"),
        f"  {counted(largest['chunks'], 'chunk')} of {size(largest['chunk_bytes'])}, "
        f"at least {time(largest['bound_s'])}",
    )
    table = of_numbers(
        "phase", "dimension", "ranks", "streams", "chunk", "messages", "sent", spare=("streams", "chunk")
    )
    for index, phase in enumerate(largest["phases"], start=1):
        table.add_row(
            f"{index} {phase['algorithm']} {phase['kind']}{' (chosen)' if phase['chosen'] else ''}",
            phase["dimension"],
            str(phase["ranks"]),
            str(phase["streams"]),
            size(phase["chunk_bytes"]),
            str(phase["messages_per_rank"]),
            scaled(phase["sent_bytes_per_rank"], "B"),
        )
    yield table
    if others:
        smallest = size(others[-1]["bytes"])
        sizes = f"from {smallest} to {size(others[0]['bytes'])}" if len(others) > 1 else f"of {smallest}"
        yield Text(f"{counted(len(others), 'smaller collective')} {sizes}: the same phases", "dim")

"""Prints the results of a search for strategy and topology on a terminal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncline import _core
from syncline.design.joint.result_files import strategy
from syncline.quantity import counted, digits, listed, money, percent, rate, time
from syncline.terminal.prose import lines
from syncline.terminal.table import of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from syncline.design.joint.answer import Answer, Found

EQUAL = 1.0005
"""Steps whose times have a smaller ratio count as equally fast."""
OPERATORS = 8
"""Most rows of the strategy."""


def screen(found: Found, width: int) -> RenderableType:
    """The screen for a terminal of ``width`` columns."""
    return Group(*_parts(found, width))


def _parts(found: Found, width: int) -> Iterator[RenderableType]:
    spec = found.request.spec
    model = found.request.model
    subject = f"{model.name} on {spec.servers} servers of {spec.server.accelerators} {found.request.accelerator.name}"
    yield Text.assemble((found.request.name, "bold"), (f"  {subject}", "dim"))
    yield ""
    yield Text(lines(_answer(found), width), "bold")
    yield ""
    yield _comparison(found)
    yield ""
    yield Text(lines(_topology(found), width))
    yield ""
    yield Text("Strategy, by kind of operator", "dim")
    yield _strategy(found)
    yield ""
    yield Text(lines(_models(found), width), "dim")
    for note in found.notes:
        yield Text(lines(f"Note: {note}", width), "dim")


def _answer(found: Found) -> str:
    spec, answer = found.request.spec, found.answer
    text = (
        f"A step takes {time(answer.step_s)} on direct links: {spec.degree} of {rate(_bytes_per_s(spec.link))} "
        f"per server, {money(found.usd)} in total."
    )
    same = next((each for each in found.others if each.network.name == "same_price"), None)
    if same is not None:
        text += f" On a fat-tree of the same price, it takes {time(same.answer.step_s)}"
        ratio = same.answer.step_s / answer.step_s
        text += (
            f": direct links are {digits(ratio)}x as fast."
            if ratio >= 1
            else f", {digits(1 / ratio)}x as fast as direct links."
        )
    return text


def _comparison(found: Found) -> Table:
    table = of_numbers("network", "per server", "price", "step", "data parallel", "relative")
    spec, answer = found.request.spec, found.answer
    joint = spec.degree * _bytes_per_s(spec.link)
    table.add_row("direct links", rate(joint), money(found.usd), time(answer.step_s), time(answer.start_s), "")
    for each in found.others:
        table.add_row(
            each.network.title,
            rate(each.network.rate / 8),
            money(each.network.usd),
            time(each.answer.step_s),
            time(each.answer.start_s),
            f"{digits(each.answer.step_s / answer.step_s)}x",
        )
    return table


def _topology(found: Found) -> str:
    answer, topology = found.answer, found.answer.topology or {}
    whole = next((each for each in answer.reductions if len(each["members"]) == found.request.spec.servers), None)
    rings = ""
    if whole is not None and whole["steps"]:
        rings = f"; rings through all servers with steps {listed([str(step) for step in whole['steps']])}"
    matched = len({tuple(pair) for pair in topology.get("matched", ())})
    pairs = f"; {counted(matched, 'pair')} joined for transfers" if matched else ""
    moved = sum(size for *_, size in answer.transfers)
    reduced = sum(
        2 * (len(each["members"]) - 1) * _core.parse_quantity("bytes", each["bytes"]) * each["count"]
        for each in answer.reductions
    )
    share = f"; all-reduces are {percent(reduced / (moved + reduced))} of all bytes" if moved + reduced else ""
    return f"Topology: at most {counted(topology.get('diameter', 0), 'link')} between two servers{rings}{pairs}{share}."


def _strategy(found: Found) -> Table:
    table = of_numbers("operators", "number", "batch splits", "parameter splits", "servers")
    alike: Counter[tuple[str, int, int, str]] = Counter()
    for row in strategy(found, found.answer):
        on = "all" if len(row["servers"]) == found.request.spec.servers else str(len(row["servers"]))
        alike[row["kind"], row["samples"], row["parameters"], on] += 1
    for (kind, samples, parameters, on), count in list(alike.items())[:OPERATORS]:
        table.add_row(kind, str(count), str(samples), str(parameters), on)
    if len(alike) > OPERATORS:
        table.add_row(f"{len(alike) - OPERATORS} more in design.json", "", "", "", "")
    return table


def _models(found: Found) -> str:
    answer: Answer = found.answer
    gain = answer.start_s / answer.step_s
    beside = f"takes {time(answer.start_s)}, {digits(gain)}x as long" if gain > EQUAL else "is as fast"
    text = (
        f"{answer.proposals:,} proposals, {answer.topologies:,} topologies tried; data parallelism {beside}. Times are "
        "predicted by a sweep over the operators"
    )
    if found.simulated_s is None:
        return f"{text}."
    apart = found.simulated_s / answer.step_s - 1
    word = "longer" if apart > 0 else "shorter"
    return (
        f"{text}; simulated with network flow, the step takes {time(found.simulated_s)}, {percent(abs(apart))} {word}."
    )


def _bytes_per_s(text: str) -> float:
    return float(_core.parse_quantity("rate", text)) / 8

"""What the screen and the page say about the results of a search, in the same words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from syncline.design.joint.result_files import strategy
from syncline.input.units import bytes_per_s
from syncline.quantity import counted, digits, listed, money, percent, rate, time

if TYPE_CHECKING:
    from syncline.design.joint.answer import Found

EQUAL = 1.0005
"""Steps whose times have a smaller ratio count as equally fast."""


def answer(found: Found) -> str:
    """The step time and price, beside those of the fat-tree of the same price."""
    spec, best = found.request.spec, found.answer
    text = (
        f"A step takes {time(best.step_s)} on direct links ({spec.degree} x {rate(bytes_per_s(spec.link))} "
        f"per server, {money(found.usd)} in total)."
    )
    same = next((each for each in found.others if each.baseline.name == "same_price"), None)
    if same is not None:
        text += f" On a fat-tree of the same price, it takes {time(same.answer.step_s)}"
        ratio = same.answer.step_s / best.step_s
        text += (
            f": direct links are {digits(ratio)}x as fast."
            if ratio >= 1
            else f", {digits(1 / ratio)}x as fast as direct links."
        )
    return text


def topology(found: Found) -> str:
    """The topology: distances, rings, other links, and the share of all-reduces in the bytes."""
    best, made = found.answer, found.topology
    whole = next((each for each in best.all_reduces if len(each.members) == found.request.spec.servers), None)
    rings = ""
    if whole is not None and whole.strides:
        strides = listed([str(stride) for stride in whole.strides])
        rings = f"; rings through all servers with strides {strides}"
        if whole.pattern != "rings":
            rings = f"; double binary trees of all servers with strides {strides}"
    matched = len(set(made.matched))
    pairs = f"; {counted(matched, 'pair')} joined for transfers" if matched else ""
    moved = sum(size for *_, size in best.transfers)
    reduced = sum(each.sent_bytes for each in best.all_reduces)
    share = f"; all-reduces are {percent(reduced / (moved + reduced))} of all bytes" if moved + reduced else ""
    return f"Topology: at most {counted(made.diameter, 'link')} between two servers{rings}{pairs}{share}."


def models(found: Found) -> str:
    """How the numbers were obtained: proposals, and the simulation beside the prediction."""
    best = found.answer
    text = f"{best.proposals:,} proposals, {best.topologies:,} topologies tried; {_start(found)}. Times are predicted"
    text += " by a sweep over the operators"
    if found.simulated_s is None:
        return f"{text}."
    apart = found.simulated_s / best.step_s - 1
    word = "longer" if apart > 0 else "shorter"
    text += (
        f"; simulated with network {found.simulated_with}, the step takes {time(found.simulated_s)},"
        f" {percent(abs(apart))} {word}."
    )
    if len(found.reranked) > 1:
        text += f" It is the shortest of {len(found.reranked)} that were simulated."
    return text


def _start(found: Found) -> str:
    """The strategy from which the search started, beside the answer."""
    gain = found.start_s / found.answer.step_s
    beside = f"takes {time(found.start_s)}, {digits(gain)}x as long" if gain > EQUAL else "is equally fast"
    if found.answer.data_parallel_fits:
        return f"data parallelism {beside}"
    return f"data parallelism does not fit into memory, and the first strategy that does {beside}"


def strategy_rows(found: Found) -> list[tuple[str, ...]]:
    """Kinds of operators that are split alike: kind, number, parts of samples and of parameters, servers."""
    alike: Counter[tuple[str, int, int, str]] = Counter()
    for row in strategy(found, found.answer):
        on = "all" if len(row["servers"]) == found.request.spec.servers else str(len(row["servers"]))
        alike[row["kind"], row["samples"], row["parameters"], on] += 1
    return [
        (kind, str(count), str(samples), str(parameters), on)
        for (kind, samples, parameters, on), count in alike.items()
    ]

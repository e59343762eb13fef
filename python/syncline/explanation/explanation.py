"""Explains a run in plain sentences: what was simulated, what took the time and why, and where to look next."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.quantity import counted, digits, listed, percent, rate, size, time
from syncline.report import subject
from syncline.report.delays import of
from syncline.report.drawings.characters import describe
from syncline.report.grouping import counted_kind, of_all_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.result import Result
    from syncline.summary import JobSummary, Summary

WAITING = 5
"""Maximum number of groups of layers that are listed."""

_TABLES = {
    "layers": "which layers compute longest and which make compute wait",
    "collectives": "every collective with its bandwidth and its bound",
    "phases": "queue and network delays",
    "links": "every link with its load",
    "ranks": "every rank",
    "costs": "what the fabric costs, item by item",
    "ports": "every queue, with the packets that it dropped",
    "queues": "queues and losses over time",
    "flows": "every connection, with its retransmissions and round trips",
    "activity": "when compute and every dimension were busy",
    "tiers": "when every tier of links was full, up and down",
    "critical_path": "the chain of work and waiting that determines the length of the first two iterations",
}
"""What each table shows."""


@dataclass(frozen=True)
class Section:
    """A heading and the paragraphs below it."""

    title: str
    paragraphs: tuple[str, ...]


def explain(result: Result) -> list[Section]:
    """The explanation of a run, in sections; sections without data are left out."""
    made = (
        Section("What was simulated", tuple(_job(result))),
        Section(
            "How long a step takes, and why" if result.summary.compute_s else "How long it takes, and why", _why(result)
        ),
        Section("How much work gets done", tuple(_work(result.summary))),
        Section("Where compute waits", tuple(_waiting(result))),
        Section("How the network is used", tuple(_network(result))),
        Section("What collectives wait for", tuple(_collectives(result))),
        Section("What the network costs", tuple(_cost(result.summary))),
        Section("How far to trust it", tuple(_trust(result))),
        Section("Where to look next", tuple(_next(result))),
    )
    return [section for section in made if section.paragraphs]


def _job(result: Result) -> Iterator[str]:
    summary, scenario = result.summary, result.scenario or {}
    workload = scenario.get("workload", {})
    sort = workload.get("source")
    if workload.get("model"):
        what = f"trains {workload['model']}"
    elif sort == "layers":
        what = f"trains a model of {counted(len(workload['layers']), 'layer')}"
    elif sort == "collectives":
        what = f"runs {_kinds(workload['collectives'])} and nothing else"
    elif sort == "jobs":
        what = f"runs {counted(len(workload['jobs']), 'job')} at the same time"
    else:
        what = {"chakra": "replays Chakra traces", "astra_text": "runs an ASTRA-sim 1 workload"}.get(sort, "runs a job")
    where = f"on {counted(summary.ranks, 'rank')}"
    if summary.parallelism:
        where += f" ({summary.parallelism})"
    yield f"{subject.name(result)} {what} {where}{_iterations(summary)}."
    yield from _cluster(result)
    models = f"The network model is {summary.network_model}"
    yield f"{models}, the compute model {summary.compute_model}." if summary.compute_s else f"{models}."


def _work(summary: Summary) -> Iterator[str]:
    """Rates of work, and what MFU means."""
    work = subject.work(summary)
    if work:
        yield f"The rate of work is {'; '.join(work)}."
    if summary.mfu is not None:
        yield (
            "MFU is model FLOP a second over the peak. It counts the matrix products of forward and backward pass, "
            "three times those of the forward pass, but not recomputation or scores that causal attention masks."
        )


def _kinds(sets: list[dict[str, Any]]) -> str:
    if len(sets) == 1:
        return f"one {sets[0]['kind']} of {sets[0]['bytes']}"
    return f"{counted(len(sets), 'collective')} ({listed(list(dict.fromkeys(each['kind'] for each in sets)))})"


def _iterations(summary: Summary) -> str:
    several = summary.iterations != 1 or summary.micro_batches
    return f", for {subject.steps(summary)}" if several else ""


def _cluster(result: Result) -> Iterator[str]:
    summary = result.summary
    view = _fabric(result)
    if view is None or not view["dims"]:
        links = f", {view['links']} directed links" if view else ""
        yield f"The cluster has {counted(summary.npus, 'NPU')}{links}."
        return
    dims = [
        f"{dim['name']}, {describe(dim)}, {rate(dim['rate_bytes_per_s'])} and {time(dim['latency_s'])} per link"
        for dim in view["dims"]
    ]
    count = counted(len(dims), "dimension")
    yield f"The cluster has {counted(summary.npus, 'NPU')} in {count}: {'; '.join(dims)}."


def _cost(summary: Summary) -> Iterator[str]:
    if summary.cost_usd is None:
        return
    yield subject.cost(summary)
    if worth := subject.values(summary):
        yield f"Performance: {worth}."


def _fabric(result: Result) -> dict[str, Any] | None:
    """The fabric as ``show`` lists it; None if the scenario or one of its files no longer exists."""
    from syncline.errors import SynclineError

    if not result.scenario:
        return None
    try:
        view: dict[str, Any] = json.loads(_core.show(json.dumps(result.scenario), "fabric"))
    except SynclineError:
        return None
    return view


def _of_job(job: JobSummary) -> str:
    cost = "" if job.slowdown is None else f", {job.slowdown:.3f} times as long as alone"
    return f"A step of {job.name} takes {time(job.step_time_s)}{cost}."


def _why(result: Result) -> tuple[str, ...]:
    summary = result.summary
    total = summary.total_time_s
    each = time(summary.step_time_s)
    found = []
    if summary.ended != "finished":
        found.append(subject.ENDED[summary.ended] + ("" if summary.iterations else f" {subject.NO_STEP}"))
    if not summary.iterations:
        lead = f"The run reached {time(total)} of simulated time."
    elif summary.jobs:
        lead = f"All jobs together take {time(total)}. " + " ".join(_of_job(job) for job in summary.jobs)
    elif summary.compute_s:
        lead = f"A step takes {each}"
        lead += f": {counted(summary.iterations, 'iteration')} in {time(total)}." if summary.iterations > 1 else "."
    else:
        lead = f"The communication takes {each}."
    if summary.compute_s and total:
        steps = max(summary.iterations, 1)
        lead += f" Compute is busy for {time(summary.compute_s / steps)} of it ({percent(summary.compute_s / total)})"
        waits = [
            f"{time(seconds / steps)} ({percent(seconds / total)}) for {what}"
            for seconds, what in (
                (summary.exposed_communication_s, "communication"),
                (summary.bubble_s, "other stages of the pipeline (the bubble)"),
                (summary.skew_s, "other ranks (skew)"),
                (summary.exposed_memory_s, "memory operations"),
            )
            if seconds > 1e-9 * total
        ]
        lead += f" and idle for the rest: it waits {listed(waits)}." if waits else " and never waits."
        if axes := subject.axes(summary):
            shares = [f"{time(seconds / steps)} for {name}" for name, seconds in axes]
            lead += f" This wait for communication divides into {listed(shares)}."
        if summary.idle_s > 1e-9 * total:
            lead += f" It has nothing to do for {time(summary.idle_s / steps)} ({percent(summary.idle_s / total)})."
    found.append(lead)
    bound = subject.bottleneck(summary)
    found.append(f"The bottleneck is {''.join(bound)}. {summary.reason}" if bound else summary.reason)
    if summary.faults:
        found.append(subject.faults(summary))
    return tuple(found)


def _waiting(result: Result) -> Iterator[str]:
    if not result.summary.compute_s:
        return
    table = result.table("layers")
    rows = waits(result)
    if not rows:
        yield "Nowhere: all communication is hidden behind compute."
        return
    whole = sum(seconds for _, seconds in rows)
    names = table["layer"]
    # Group a layer of a transformer's block with the same layer of all other blocks.
    kinds: dict[str, list[tuple[int, float]]] = {}
    for row, seconds in rows:
        kinds.setdefault(of_all_blocks(names[row]), []).append((row, seconds))
    groups = list(kinds.values())
    groups.sort(key=lambda group: -sum(seconds for _, seconds in group))
    shown = groups[:WAITING]
    for number, group in enumerate(shown):
        seconds, raw = (
            sum(values) for values in zip(*((each, table["communication_s"][row]) for row, each in group), strict=True)
        )
        name = counted_kind([names[row] for row, _ in group])
        text = f"{name}: {time(seconds)} per step, {percent(seconds / whole)} of the waiting"
        if raw and seconds < 0.995 * raw:
            whose = "its" if len(group) == 1 else "their"
            text += f"; {whose} collectives take {time(raw)}, and the rest of that is hidden"
        yield f"- {text}{'.' if number == len(shown) - 1 else ';'}"
    if len(groups) > len(shown):
        share = percent(sum(seconds for group in shown for _, seconds in group) / whole)
        count = counted(len(names), "layer")
        told = sum(len(group) for group in shown)
        yield f"{len(rows)} of {count} make compute wait; these {told} account for {share}."


def waits(result: Result) -> list[tuple[int, float]]:
    """Rows of the table of layers for which compute waits, and the wait in a step, longest first."""
    exposed = result.table("layers")["exposed_communication_s"]
    return sorted(((row, each) for row, each in enumerate(exposed) if each > 0), key=lambda each: (-each[1], each[0]))


def _network(result: Result) -> Iterator[str]:
    summary = result.summary
    if summary.packets:
        yield subject.packets(summary)
    if worst := subject.worst_ports(result):
        yield worst
    for dim in summary.dims:
        busy = (
            f", and {percent(dim.utilization_while_busy)} while it has something to send"
            if dim.utilization_while_busy
            else ""
        )
        yield f"- {dim.name} carries {percent(dim.utilization)} of what its links can carry in the whole run{busy}."
    sending = [(dim.busiest_link_busy, dim) for dim in summary.dims if dim.busiest_link_busy is not None]
    if sending:
        share, busiest = max(sending, key=lambda each: each[0])
        place = f" in {busiest.name}" if len(summary.dims) > 1 else ""
        yield (
            f"The busiest link{subject.known(summary)} is {busiest.busiest_link}{place}: it sends {percent(share)} of"
            " the time."
        )


def _collectives(result: Result) -> Iterator[str]:
    known = of(result)
    if known is None or not known[1][""]:
        return
    names, found = known
    delays = {names[number]: total.means for number, total in found[""].items()}
    slowest = max(delays, key=lambda name: sum(delays[name]))
    queue, network, reduction = delays[slowest]
    parts = [
        f"{what} {time(seconds)}"
        for seconds, what in (
            (queue, "a chunk queues for"),
            (network, "a message takes"),
            (reduction, "its reduction takes"),
        )
        if seconds
    ]
    if parts:
        yield f"Chunks are delayed longest in {slowest}: on average, {listed(parts)}."
    queues = sum(each[0] for each in delays.values())
    whole = sum(sum(each) for each in delays.values())
    if whole:
        yield (
            f"Over all phases, {percent(queues / whole)} of these delays is queueing. Queueing is long if a dimension"
            " has to carry more than it can, or if few chunks may run at once; network delays are long if messages are"
            " large, or links are slow, long or shared."
        )
    sets = result.table("collectives")
    longest = max(range(len(sets["duration_s"])), key=lambda row: (sets["duration_s"][row], -row))
    duration, bound = sets["duration_s"][longest], sets["bound_s"][longest]
    kind, layer = sets["kind"][longest], sets["layer"][longest]
    # A workload of collectives alone has layers that are named after their collectives.
    whose = f" of {layer}" if layer and not layer.startswith(kind) else ""
    near = f", {digits(duration / bound)} times the bound of its plan ({time(bound)})" if bound else ""
    how = ", chosen because it is the quickest" if (sets.get("chosen") or {longest: False})[longest] else ""
    yield (
        f"The longest collective, {kind} of {size(sets['size_bytes'][longest])}{whose}, takes {time(duration)}{near}."
        f" Its plan: {sets['algorithm'][longest]}{how}."
    )


def _trust(result: Result) -> Iterator[str]:
    summary = result.summary
    ended = "The run is complete. " if summary.ended == "finished" else ""
    some = subject.simulated(summary)
    if some:
        yield f"{ended}Simulated: {', '.join(some)}; the others do the same, so this is no approximation."
    elif ended:
        yield ended.strip()
    yield (
        "No number was calibrated against a measured cluster."
        if summary.calibrated == "no"
        else f"Calibrated: {summary.calibrated}."
    )
    for note in summary.notes:
        yield f"- Assumed: {note}."
    for each in result.warnings:
        yield f"- Warning {each['code']}: {each['message']}."


def _next(result: Result) -> Iterator[str]:
    there = [f"{name} ({what})" for name, what in _TABLES.items() if name in result.tables]
    more = [name for name in result.tables if name not in _TABLES]
    folder = result.folder.as_posix() if result.folder else None
    files = {each.name for each in result.folder.iterdir()} if result.folder else set()
    if "report.html" in files:
        yield f"In pictures: {folder}/report.html, in any browser."
    if "trace.pftrace" in files:
        yield f"Moment by moment: {folder}/trace.pftrace, at https://ui.perfetto.dev."
    yield f"In numbers: the tables {listed([*there, *more])}. `syncline explain COLUMN` says what a column means."
    if folder and result.scenario:
        yield (
            f"To simulate it again with a change: `syncline simulate {folder} --set KEY=VALUE --out DIR`; then"
            f" `syncline compare {folder} DIR` shows the effect of the change."
        )

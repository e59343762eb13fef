"""Searches on direct links and on the networks that these are compared with, and simulates what was found."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.cores import usable_cores
from syncline.design.joint.answer import (
    AllReduce,
    Answer,
    BaselineResult,
    Found,
    GroupLinks,
    Links,
    Placement,
    Reranked,
    Topology,
)
from syncline.design.joint.baselines import baselines_of, direct_usd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from syncline.design.joint.request import JointRequest

    Progress = Callable[[float, str], object]


def search(request: JointRequest, progress: Progress | None = None) -> Found:
    """Searches on direct links and on each other network.

    Calls ``progress`` with the fraction that is done, from 0 to 1, and the name of the current part. Raises
    ``SynclineError`` with everything that is wrong with the spec.
    """
    baselines = baselines_of(request)
    usd = direct_usd(request)
    searched = [baseline for baseline in baselines if baseline.circuits is None]
    clusters = [request.direct(), *({"fabric": baseline.fabric} for baseline in searched)]
    titles = ["strategy and topology", *(f"strategy on {baseline.title}" for baseline in searched)]
    # Each network is searched twice.
    parts = len(clusters) + len(baselines) + 1 + (request.spec.search.rerank != "none")

    def report(part: int, name: str) -> Callable[[float], object]:
        if progress is not None:
            progress(part / parts, name)
        return lambda done: None if progress is None else progress((part + done) / parts, name)

    answers = [
        _ask(request, cluster, request.method(), report(at, title))
        for at, (cluster, title) in enumerate(zip(clusters, titles, strict=True))
    ]
    answers = [
        _improved(request, cluster, at, answers, report(len(clusters) + at, f"{title}, from other networks"))
        for at, (cluster, title) in enumerate(zip(clusters, titles, strict=True))
    ]
    found = dict(zip([baseline.name for baseline in searched], answers[1:], strict=True))
    for baseline in baselines:
        if baseline.circuits is not None:
            report(len(clusters) + 1 + len(found), f"step on {baseline.title}")
            found[baseline.name] = _on_circuits(request, baseline.circuits, answers)
    topology = answers[0].topology
    if topology is None:
        raise AssertionError("a search on direct links finds a topology")
    first = Found(
        request,
        answers[0],
        topology,
        usd,
        others=tuple(BaselineResult(baseline, found[baseline.name]) for baseline in baselines),
        notes=(*request.model.notes, *(request.measured.notes if request.measured is not None else ())),
    )
    if request.spec.search.rerank == "none":
        return first
    return _reranked(first, report(parts - 1, "simulation of the best answers"))


CANDIDATES = 4
"""Maximum number of answers that are simulated to find the fastest."""


def _reranked(found: Found, report: Callable[[float], object]) -> Found:
    """The one of the best answers whose simulated step is the shortest."""
    candidates = (found.answer, *found.answer.runners_up)[:CANDIDATES]
    tried = []
    for at, answer in enumerate(candidates):
        report(at / len(candidates))
        tried.append(simulate(_with_answer(found, answer)))

    def simulated_s(each: Found) -> float:
        return float("inf") if each.simulated_s is None else each.simulated_s

    ranked = sorted(tried, key=simulated_s)
    times = tuple(Reranked(each.answer.step_s, simulated_s(each)) for each in ranked)
    best = ranked[0]
    counts = found.answer
    answer = replace(
        best.answer,
        start_s=counts.start_s,
        trace=counts.trace,
        proposals=counts.proposals,
        accepted=counts.accepted,
        topologies=counts.topologies,
        runners_up=tuple(each.answer for each in ranked[1:]),
    )
    return replace(best, answer=answer, reranked=times)


def _with_answer(found: Found, answer: Answer) -> Found:
    if answer.topology is None:
        raise AssertionError("an answer on direct links has a topology")
    return replace(found, answer=answer, topology=answer.topology)


def _improved(
    request: JointRequest, cluster: dict[str, Any], at: int, answers: list[Answer], report: Callable[[float], object]
) -> Answer:
    """The best answer on the network with number ``at``, also from the strategies that were found for the others."""
    own = answers[at]
    chains = request.spec.search.method == "chains"
    # In the order of networks, so that the result does not depend on hashes.
    others = [strategy for strategy in dict.fromkeys(other.strategy for other in answers) if strategy != own.strategy]
    if not others:
        return own
    start = [[placed._asdict() for placed in strategy] for strategy in others]
    methods = [request.improve(start)] if chains else [{"given": strategy} for strategy in start]
    tried = [_ask(request, cluster, method, report) for method in methods]
    better = min((own, *tried), key=lambda answer: answer.step_s)
    before = own.proposals // (request.spec.search.chains if chains else 1)
    known = {each.strategy: each for each in _flat((own, *tried))}
    rest = sorted((each for each in known.values() if each.strategy != better.strategy), key=lambda each: each.step_s)
    trace = [*own.trace]
    for number, seconds in (improvement for each in tried for improvement in each.trace):
        if seconds < trace[-1][1]:
            trace.append((before + number, seconds))
    return replace(
        better,
        start_s=own.start_s,
        data_parallel_fits=own.data_parallel_fits,
        trace=tuple(trace),
        proposals=own.proposals + sum(each.proposals for each in tried),
        accepted=own.accepted + sum(each.accepted for each in tried),
        topologies=own.topologies + sum(each.topologies for each in tried),
        runners_up=tuple(replace(each, runners_up=()) for each in rest),
    )


def _flat(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Answers with what other chains found, the best of equal strategies last."""
    yield from sorted(
        (each for answer in answers for each in (answer, *answer.runners_up)), key=lambda each: -each.step_s
    )


def _on_circuits(request: JointRequest, circuits: dict[str, Any], answers: list[Answer]) -> Answer:
    """The best of the strategies that were found for any network, on circuits that change during the step."""

    def on_them(answer: Answer) -> Answer:
        step_s = _core.step_on_circuits(request.on_circuits(circuits, answer.strategy))
        return replace(
            answer, step_s=step_s, start_s=None, trace=(), proposals=0, accepted=0, topologies=0, topology=None
        )

    distinct = {answer.strategy: answer for answer in answers}
    return min(map(on_them, distinct.values()), key=lambda answer: answer.step_s)


def simulate(found: Found) -> Found:
    """Simulates the answer on the links and routes that were found, as flows or packet by packet if ``rerank`` says so.

    Returns ``found`` with the result.
    """
    from syncline import api
    from syncline.design.joint.result_files import write_scenario

    if found.result is not None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        write_scenario(found, Path(folder))
        return replace(found, result=api.simulate(Path(folder) / "scenario.yaml"))


def _ask(
    request: JointRequest, cluster: dict[str, Any], method: Any, report: Callable[[float], object] | None = None
) -> Answer:
    text = request.text(cluster, method)
    return _answer(json.loads(_core.search_jointly(text, threads=usable_cores(), progress=report)))


def _answer(found: dict[str, Any]) -> Answer:
    """The answer from the core's form."""
    made = found["topology"]
    return Answer(
        strategy=tuple(Placement(placed["choice"], tuple(placed["servers"])) for placed in found["strategy"]),
        step_s=found["step_s"],
        start_s=found["start_s"],
        data_parallel_fits=found["data_parallel_fits"],
        trace=tuple((each["proposals"], each["step_s"]) for each in found["trace"]),
        proposals=found["proposals"],
        accepted=found["accepted"],
        topologies=found["topologies"],
        topology=None if made is None else _topology(made),
        transfers=tuple((each["from"], each["to"], each["bytes"]) for each in found["transfers"]),
        all_reduces=tuple(map(_all_reduce, found["reductions"])),
        chunks=found["chunks"],
        memory_bytes=_core.parse_quantity("bytes", found["memory"]),
        runners_up=tuple(map(_answer, found["runners_up"])),
    )


def _topology(made: dict[str, Any]) -> Topology:
    return Topology(
        links=tuple(Links(each["from"], each["to"], each["count"]) for each in made["links"]),
        ring_degree=made["ring_degree"],
        groups=tuple(map(_group_links, made["groups"])),
        matched=tuple((a, b) for a, b in made["matched"]),
        diameter=made["diameter"],
        routes=tuple(map(tuple, made["routes"])),
    )


def _group_links(made: dict[str, Any]) -> GroupLinks:
    links = tuple(tuple((sender, receiver) for sender, receiver in each) for each in made["links"])
    return GroupLinks(tuple(made["members"]), made["pattern"], tuple(made["strides"]), links)


def _all_reduce(found: dict[str, Any]) -> AllReduce:
    size = _core.parse_quantity("bytes", found["bytes"])
    return AllReduce(
        group=found["group"],
        members=tuple(found["members"]),
        bytes=size,
        count=found["count"],
        pattern=found["pattern"],
        strides=tuple(found["strides"]),
        links=tuple(map(tuple, found["links"])),
    )

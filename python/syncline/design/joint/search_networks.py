"""Searches on direct links and on the networks that these are compared with, and simulates what was found."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.design.joint.answer import (
    AllReduce,
    Answer,
    BaselineResult,
    Found,
    Links,
    Placement,
    Rings,
    Topology,
)
from syncline.design.joint.baselines import baselines_of, direct_usd

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.design.joint.request import JointRequest

    Progress = Callable[[float, str], object]


def search(request: JointRequest, progress: Progress | None = None) -> Found:
    """Searches on direct links and on each other network.

    Calls ``progress`` with the fraction that is done, from 0 to 1, and the name of the current part. Raises
    ``SynclineError`` with everything that is wrong with the spec.
    """
    baselines = baselines_of(request)
    parts = 1 + len(baselines)

    def report(part: int, name: str) -> Callable[[float], object]:
        if progress is not None:
            progress(part / parts, name)
        return lambda done: None if progress is None else progress((part + done) / parts, name)

    usd = direct_usd(request)
    searched = [baseline for baseline in baselines if baseline.circuits is None]
    clusters = [request.direct(), *({"fabric": baseline.fabric} for baseline in searched)]
    titles = ["strategy and topology", *(f"strategy on {baseline.title}" for baseline in searched)]
    answers = [
        _ask(request, cluster, request.method(), report(at, title))
        for at, (cluster, title) in enumerate(zip(clusters, titles, strict=True))
    ]
    answers = [_best(request, cluster, at, answers) for at, cluster in enumerate(clusters)]
    found = dict(zip([baseline.name for baseline in searched], answers[1:], strict=True))
    for baseline in baselines:
        if baseline.circuits is not None:
            report(1 + len(found), f"step on {baseline.title}")
            found[baseline.name] = _on_circuits(request, baseline.circuits, answers)
    topology = answers[0].topology
    if topology is None:
        raise AssertionError("a search on direct links finds a topology")
    return Found(
        request,
        answers[0],
        topology,
        usd,
        others=tuple(BaselineResult(baseline, found[baseline.name]) for baseline in baselines),
        notes=(*request.model.notes, *(request.measured.notes if request.measured is not None else ())),
    )


def _best(request: JointRequest, cluster: dict[str, Any], at: int, answers: list[Answer]) -> Answer:
    """The best of the strategies that were found for any network, on the network with number ``at``."""
    best = answers[at]
    for other in answers:
        tried = (
            best
            if other is answers[at]
            else _ask(request, cluster, {"given": [placed._asdict() for placed in other.strategy]})
        )
        if tried.step_s < best.step_s:
            best = replace(
                tried,
                start_s=best.start_s,
                trace=(*best.trace, (_of_each_chain(request, best), tried.step_s)),
                proposals=best.proposals,
                accepted=best.accepted,
                topologies=best.topologies + tried.topologies,
            )
    return best


def _of_each_chain(request: JointRequest, answer: Answer) -> int:
    """Proposals of each chain, by which traces count."""
    search = request.spec.search
    return answer.proposals // (search.chains if search.method == "chains" else 1)


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
    """Simulates the answer, as flows on the links and routes that were found; returns ``found`` with the result."""
    from syncline import api
    from syncline.design.joint.result_files import write_scenario

    with tempfile.TemporaryDirectory() as folder:
        write_scenario(found, Path(folder))
        return replace(found, result=api.simulate(Path(folder) / "scenario.yaml"))


def _ask(
    request: JointRequest, cluster: dict[str, Any], method: Any, report: Callable[[float], object] | None = None
) -> Answer:
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = request.text(cluster, method)
    return _answer(json.loads(_core.search_jointly(text, threads=threads, progress=report)))


def _answer(found: dict[str, Any]) -> Answer:
    """The answer from the core's form."""
    made = found["topology"]
    return Answer(
        strategy=tuple(Placement(placed["choice"], tuple(placed["servers"])) for placed in found["strategy"]),
        step_s=found["step_s"],
        start_s=found["start_s"],
        trace=tuple((number, seconds) for number, seconds in found["trace"]),
        proposals=found["proposals"],
        accepted=found["accepted"],
        topologies=found["topologies"],
        topology=None if made is None else _topology(made),
        transfers=tuple((sender, receiver, size) for sender, receiver, size in found["transfers"]),
        all_reduces=tuple(map(_all_reduce, found["reductions"])),
        memory_bytes=_core.parse_quantity("bytes", found["memory"]),
    )


def _topology(made: dict[str, Any]) -> Topology:
    return Topology(
        links=tuple(Links(*each) for each in made["links"]),
        ring_degree=made["ring_degree"],
        rings=tuple(Rings(tuple(members), tuple(steps)) for members, steps in made["rings"]),
        matched=tuple((a, b) for a, b in made["matched"]),
        diameter=made["diameter"],
        routes=tuple(map(tuple, made["routes"])),
    )


def _all_reduce(found: dict[str, Any]) -> AllReduce:
    size = _core.parse_quantity("bytes", found["bytes"])
    return AllReduce(found["group"], tuple(found["members"]), size, found["count"], tuple(found["steps"]))

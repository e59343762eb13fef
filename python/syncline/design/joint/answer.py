"""The search on direct links, and on the networks that these are compared with."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.design.joint import networks

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.design.joint.networks import Network
    from syncline.design.joint.request import Request
    from syncline.result import Result

    Told = Callable[[float, str], object]


@dataclass(frozen=True)
class Answer:
    """The result of a search on one network."""

    strategy: list[dict[str, Any]]
    """For each operator, its ``choice`` and its ``servers``."""
    step_s: float
    """Seconds of a step."""
    start_s: float
    """Seconds of a step of data parallelism."""
    trace: list[tuple[int, float]]
    """Best seconds so far, with the number of proposals before it."""
    proposals: int
    """Proposals over all chains."""
    accepted: int
    """Accepted ones."""
    topologies: int
    """Topologies that were tried."""
    topology: dict[str, Any] | None
    """Links, rings and routes; None on a given network."""
    transfers: list[tuple[int, int, int]]
    """Sender, receiver and bytes outside all-reduces."""
    reductions: list[dict[str, Any]]
    """The all-reduces of a step: their group, members, bytes, count and rings."""
    memory: str
    """Largest memory of an accelerator."""


@dataclass(frozen=True)
class Comparison:
    """Another network, and the best strategy on it."""

    network: Network
    answer: Answer


@dataclass
class Found:
    """The results of a search."""

    request: Request
    answer: Answer
    """The strategy and the topology."""
    usd: float
    """Price of the direct links."""
    others: list[Comparison] = field(default_factory=list)
    """The networks of the spec's ``compare``, in its order."""
    notes: list[str] = field(default_factory=list)
    """What the reader should know."""
    result: Result | None = None
    """The simulation of the answer; None if it was not simulated."""

    @property
    def simulated_s(self) -> float | None:
        """Simulated seconds of a step."""
        return None if self.result is None else self.result.summary.total_time_s


def search(request: Request, told: Told | None = None) -> Found:
    """Searches on direct links and on each other network. Calls ``told`` with the progress, from 0 to 1, and the part.

    Raises ``SynclineError`` with everything that is wrong with the spec.
    """
    compared = networks.networks(request)
    parts = 1 + len(compared)

    def report(part: int, name: str) -> Callable[[float], object]:
        if told is not None:
            told(part / parts, name)
        return lambda done: None if told is None else told((part + done) / parts, name)

    usd = networks.direct_usd(request)
    clusters = [request.direct(), *({"fabric": network.fabric} for network in compared)]
    titles = ["strategy and topology", *(f"strategy on {network.title}" for network in compared)]
    answers = [
        _ask(request, cluster, request.method(), report(at, title))
        for at, (cluster, title) in enumerate(zip(clusters, titles, strict=True))
    ]
    answers = [_best(request, cluster, at, answers) for at, cluster in enumerate(clusters)]
    found = Found(request, answers[0], usd, notes=[*request.model.notes])
    found.others = [Comparison(network, answer) for network, answer in zip(compared, answers[1:], strict=True)]
    if request.measured is not None:
        found.notes += request.measured.notes
    return found


def _best(request: Request, cluster: dict[str, Any], at: int, answers: list[Answer]) -> Answer:
    """The best of the strategies that were found for any network, on the network with number ``at``."""
    best = answers[at]
    for other in answers:
        tried = best if other is answers[at] else _ask(request, cluster, {"given": other.strategy})
        if tried.step_s < best.step_s:
            best = replace(
                tried,
                start_s=best.start_s,
                trace=[*best.trace, (best.proposals, tried.step_s)],
                proposals=best.proposals,
                accepted=best.accepted,
                topologies=best.topologies + tried.topologies,
            )
    return best


def simulate(found: Found) -> None:
    """Simulates the answer: flows on the links and routes that were found."""
    from syncline import api
    from syncline.design.joint.result_files import write_scenario

    with tempfile.TemporaryDirectory() as folder:
        write_scenario(found, Path(folder))
        found.result = api.simulate(Path(folder) / "scenario.yaml")


def _ask(
    request: Request, cluster: dict[str, Any], method: Any, report: Callable[[float], object] | None = None
) -> Answer:
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = request.text(cluster, method)
    found = json.loads(_core.search_jointly(text, threads=threads, progress=report))
    return Answer(
        **{key: value for key, value in found.items() if key not in ("trace", "transfers")},
        trace=[(number, seconds) for number, seconds in found["trace"]],
        transfers=[(sender, receiver, size) for sender, receiver, size in found["transfers"]],
    )

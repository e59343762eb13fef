"""Simulations of what was found, and why they differ from what was predicted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.api import run
from syncline.report.quantity import percent, time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.candidate import Candidate, Request
    from syncline.design.demand import Demand
    from syncline.design.held import Held
    from syncline.result import Result

APART = 0.05
"""What is simulated to take longer or shorter by this part is told."""
_CAUSE = 0.2
"""What makes up this part of a difference is told as a reason for it."""
_MORE, _TIMES = 4, "four times"
"""So many times the chunks tell whether it is they that fill dimensions slowly."""
_MOST = 2**32 - 1
"""Chunks that a scenario may ask for."""
_LARGE = 5_000_000
"""Events of a run that is not repeated for that."""

Weighted = tuple[float, "Demand"]


@dataclass(frozen=True)
class Trial:
    """All jobs, simulated with some rates."""

    times: tuple[float, ...]
    """Of each job: seconds of a step."""
    used: float
    """Bytes over what the dimensions that exchanges use could have carried while they were under way, 0 to 1."""
    results: list[Result]


def trial(
    request: Request,
    candidate: Candidate,
    jobs: Sequence[Weighted],
    rates: Sequence[float],
    held: Sequence[Held | None],
) -> Trial:
    """Simulates every job alone on a shape with ``rates`` in bytes per second and its held algorithms."""
    results = [_run(request, job, candidate, rates, held[job]) for job in range(len(jobs))]
    times = tuple(result.summary.step_time_s for result in results)
    taken = sum(weight * under_way(result) for (weight, _), result in zip(jobs, results, strict=True))
    ideal = sum(weight * job.ideal(rates) for weight, job in jobs)
    return Trial(times, min(ideal / taken, 1.0) if taken else 0.0, results)


def bits(rates: Sequence[float]) -> list[int]:
    """Bytes per second in bits per second."""
    return [round(8 * rate) for rate in rates]


def under_way(result: Result) -> float:
    """Seconds of a step for which groups have exchanges under way: the sum over roles of the mean of their groups.

    Exchanges of one group that run at the same time count once; model and data parallelism are two.
    """
    rows = result.table("collectives")
    spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for group, begin, end in zip(rows["group"], rows["issue_s"], rows["finish_s"], strict=True):
        spans[str(group)].append((begin, end))
    of_role: defaultdict[str, list[float]] = defaultdict(list)
    for group, each in spans.items():
        of_role[group.split(".")[0]].append(_covered(each))
    iterations = max(result.summary.simulated_iterations, 1)
    return sum(sum(each) / len(each) for each in of_role.values()) / iterations


def _covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    covered, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        if end > until:
            covered += end - max(begin, until)
            until = end
    return covered


def apart(
    request: Request,
    candidate: Candidate,
    jobs: Sequence[Weighted],
    rates: Sequence[float],
    held: Sequence[Held | None],
    found: Trial,
) -> str | None:
    """By how much a simulation differs from the prediction, and why as far as it is known; nothing where it is near."""
    weights = [weight for weight, _ in jobs]
    predicted = sum(weight * job.time(rates) for weight, job in jobs)
    simulated = _sum(weights, found.times)
    gap = simulated - predicted
    if not predicted or abs(gap) <= APART * predicted:
        return None
    by = percent(abs(gap) / predicted)
    steps = "the steps take" if request.spec.jobs else "the step takes"
    if gap > 0:
        return f"simulated, {steps} {by} longer than predicted" + _slow(
            request, candidate, weights, rates, held, found, predicted
        )
    reasons = []
    hidden = [_hidden(result) for result in found.results]
    if _sum(weights, hidden) > -_CAUSE * gap:
        reasons.append("exchanges overlap compute as the workload says (`parallel.overlap`)")
    if sum(weight * job.latency_s for weight, job in jobs) > -_CAUSE * gap:
        reasons.append("exchanges that are under way at the same time wait for latencies together")
    why = " and ".join(reasons) or "exchanges are under way at the same time"
    return f"simulated, {steps} {by} less than predicted, one exchange after the other: {why}"


def _slow(
    request: Request,
    candidate: Candidate,
    weights: Sequence[float],
    rates: Sequence[float],
    held: Sequence[Held | None],
    found: Trial,
    predicted: float,
) -> str:
    """Why a simulation is slower: whether more chunks come closer, which is tried."""
    if _MORE * sum(result.summary.events for result in found.results) > _LARGE:
        return "; whether more chunks (`collectives.chunks`) come closer was not tried, for the size of the run"
    more = [_run(request, job, candidate, rates, held[job], _MORE) for job in range(len(weights))]
    took = _sum(weights, [result.summary.step_time_s for result in more])
    simulated = _sum(weights, found.times)
    if simulated - took < _CAUSE * (simulated - predicted):
        return f": predictions keep dimensions busy all the time, and {_TIMES} the chunks do not come closer"
    return (
        f": chunks go through dimensions one after the other, which fills them slowly; with {_TIMES} the chunks "
        f"(`collectives.chunks`) it is {time(took)}"
    )


def _hidden(result: Result) -> float:
    """Seconds of a step in which compute hides exchanges, where a workload asks for that."""
    parallel = (result.scenario or {}).get("workload", {}).get("parallel")
    if parallel is None or parallel.get("overlap") == "none":
        return 0.0
    summary = result.summary
    return (summary.communication_s - summary.exposed_communication_s) / max(summary.iterations, 1)


def _sum(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def _run(
    request: Request,
    job: int,
    candidate: Candidate,
    rates: Sequence[float],
    held: Held | None,
    chunks: int = 1,
) -> Result:
    """A job, with so many times the chunks that it asks for."""
    loaded = request.scenario(job, candidate, bits(rates), held)
    if chunks > 1:
        collectives = loaded.resolved["collectives"]
        collectives["chunks"] = min(collectives["chunks"] * chunks, _MOST)
        collectives["chunks_of"] = {kind: min(each * chunks, _MOST) for kind, each in collectives["chunks_of"].items()}
        loaded.resolved["report"] = False
    return run(loaded)

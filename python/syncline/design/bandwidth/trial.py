"""Simulates the results of a search, and explains differences from the predictions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.api import run
from syncline.quantity import percent, time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.design.bandwidth.algorithms import Algorithms
    from syncline.design.bandwidth.candidate import BandwidthRequest, Candidate
    from syncline.design.bandwidth.demand import Demand
    from syncline.result import Result

APART = 0.05
"""Fraction by which simulation and prediction must differ for a note."""
_CAUSE = 0.2
"""Minimum fraction of a difference that a reason must explain to be named."""
_MORE, _TIMES = 4, "four times"
"""Factor by which the number of chunks is raised, to see whether the chunks cause the difference."""
_MAX_CHUNKS = 2**32 - 1
"""Maximum number of chunks of a scenario."""
_LARGE = 5_000_000
"""A run with this many events after raising the number of chunks is not tried."""


@dataclass(frozen=True)
class Setup:
    """What is simulated: all jobs of a search, on one shape, with certain rates and algorithms."""

    request: BandwidthRequest
    candidate: Candidate
    """The shape."""
    jobs: Sequence[tuple[float, Demand]]
    """Weight and demand of each job."""
    rates: Sequence[float]
    """Rate of each dimension, in bytes per second."""
    algorithms: Sequence[Algorithms | None]
    """The algorithms of each job that are fixed; ``None`` lets them be chosen for the rates."""

    @property
    def weights(self) -> list[float]:
        """Weight of each job."""
        return [weight for weight, _ in self.jobs]


@dataclass(frozen=True)
class Trial:
    """The simulation of all jobs with certain rates."""

    times: tuple[float, ...]
    """Seconds of a step of each job."""
    used: float
    """Bytes over the capacity of the dimensions that exchanges use, during the exchanges; 0 to 1."""
    results: list[Result]


def trial(setup: Setup) -> Trial:
    """Simulates every job alone on the shape."""
    results = [_run(setup, job) for job in range(len(setup.jobs))]
    times = tuple(result.summary.step_time_s for result in results)
    taken = _sum(setup.weights, [under_way(result) for result in results])
    ideal = sum(weight * job.ideal(setup.rates) for weight, job in setup.jobs)
    return Trial(times, min(ideal / taken, 1.0) if taken else 0.0, results)


def bits(rates: Sequence[float]) -> list[int]:
    """Converts rates from bytes to bits per second."""
    return [round(8 * rate) for rate in rates]


def under_way(result: Result) -> float:
    """Seconds of a step in which groups exchange data: the mean over the groups of each role, summed over roles.

    Exchanges of one group that run at the same time count once; tensor and data parallelism count separately.
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


def apart(setup: Setup, found: Trial) -> str | None:
    """A note about the difference between simulation and prediction, and its reason; None if they are close."""
    predicted = sum(weight * job.time(setup.rates) for weight, job in setup.jobs)
    simulated = _sum(setup.weights, found.times)
    gap = simulated - predicted
    if not predicted or abs(gap) <= APART * predicted:
        return None
    by = percent(abs(gap) / predicted)
    steps = "the steps take" if setup.request.spec.jobs else "the step takes"
    if gap > 0:
        return f"in simulation, {steps} {by} longer than predicted" + _slow(setup, found, predicted)
    reasons = []
    hidden = [_hidden(result) for result in found.results]
    if _sum(setup.weights, hidden) > -_CAUSE * gap:
        reasons.append("exchanges overlap compute as the workload says (`parallel.overlap`)")
    if sum(weight * job.latency_s for weight, job in setup.jobs) > -_CAUSE * gap:
        reasons.append("the latencies of simultaneous exchanges overlap")
    why = " and ".join(reasons) or "exchanges run at the same time"
    return f"in simulation, {steps} {by} less than predicted for one exchange after the other: {why}"


def _slow(setup: Setup, found: Trial, predicted: float) -> str:
    """The reason why a simulation is slower; tries whether more chunks come closer to the prediction."""
    if _MORE * sum(result.summary.events for result in found.results) > _LARGE:
        return "; the run is too large to try whether more chunks (`collectives.chunks`) come closer"
    more = [_run(setup, job, chunks=_MORE) for job in range(len(setup.jobs))]
    took = _sum(setup.weights, [result.summary.step_time_s for result in more])
    simulated = _sum(setup.weights, found.times)
    if simulated - took < _CAUSE * (simulated - predicted):
        return f": the prediction assumes that dimensions are always busy; {_TIMES} the chunks do not come closer"
    return (
        f": chunks go through dimensions one after the other, which fills them slowly; with {_TIMES} the chunks "
        f"(`collectives.chunks`), it takes {time(took)}"
    )


def _hidden(result: Result) -> float:
    """Seconds of a step in which compute hides exchanges, if the workload overlaps them."""
    parallel = (result.scenario or {}).get("workload", {}).get("parallel")
    if parallel is None or parallel.get("overlap") == "none":
        return 0.0
    summary = result.summary
    return (summary.communication_s - summary.exposed_communication_s) / max(summary.iterations, 1)


def _sum(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def _run(setup: Setup, job: int, *, chunks: int = 1) -> Result:
    """Simulates a job, with its number of chunks multiplied by ``chunks``."""
    loaded = setup.request.scenario(job, setup.candidate, bits(setup.rates), setup.algorithms[job])
    if chunks > 1:
        collectives = loaded.resolved["collectives"]
        collectives["chunks"] = min(collectives["chunks"] * chunks, _MAX_CHUNKS)
        collectives["chunks_of"] = {
            kind: min(each * chunks, _MAX_CHUNKS) for kind, each in collectives["chunks_of"].items()
        }
        loaded.resolved["report"] = False
    return run(loaded)

"""Simulates the best configurations of a search, with contention on the network, beside their estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.api import simulate
from syncline.codes import Code
from syncline.design.parallel.scenario import domain, loaded, refusal
from syncline.design.parallel.training import training_job
from syncline.errors import SynclineError
from syncline.input.problem import error

if TYPE_CHECKING:
    from syncline.design.parallel.search_configurations import Configuration, Found
    from syncline.design.parallel.sizes import Sweep
    from syncline.errors import Diagnostic
    from syncline.jobs import TrainingJob

MOST_EVENTS = 10_000_000
"""The most events of a simulation, a few seconds."""
WAITS = ("messages", "exchange", "expert")
"""Parts of a step that a simulation follows through the network."""


@dataclass(frozen=True)
class Simulated:
    """A configuration with its simulated step."""

    configuration: Configuration
    step_s: float | None
    """Seconds of the simulated step; None if it was not simulated."""
    exposed_s: float | None = None
    """Seconds in which ranks wait for the network, the mean over ranks."""
    reason: str | None = None
    """Why it was not simulated; None if it was."""

    @property
    def difference(self) -> float | None:
        """By which part of the estimate the simulated step is longer."""
        return None if self.step_s is None else self.step_s / self.configuration.step_s - 1


def simulated(sweep: Sweep, count: int) -> tuple[Simulated, ...]:
    """Simulates the best ``count`` configurations over all numbers of accelerators, the best one first."""
    every = [(found, configuration) for found in sweep.founds for configuration in found.best]
    ordered = sorted(every, key=lambda each: sweep.costs.score(each[1], sweep.objective))
    return tuple(_one(found, configuration) for found, configuration in ordered[:count])


def _one(found: Found, configuration: Configuration) -> Simulated:
    run = simulated_job(training_job(found.request, configuration))
    return Simulated(configuration, run.step_s, run.exposed_s, run.reason)


@dataclass(frozen=True)
class SimulatedJob:
    """The simulated step of a job."""

    step_s: float | None
    """Seconds of the simulated step; None if it was not simulated."""
    exposed_s: float | None = None
    """Seconds in which ranks wait for the network, the mean over ranks."""
    reason: str | None = None
    """Why it was not simulated; None if it was."""
    problem: Diagnostic | None = None
    """The key of the job file for which it was not, if there is one."""


def simulated_job(job: TrainingJob) -> SimulatedJob:
    """Simulates a job, with contention on the network."""
    if (problem := refusal(job)) is not None:
        return _refused(problem)
    try:
        summary = simulate(loaded(job, MOST_EVENTS)).summary
    except SynclineError as wrong:
        key = wrong.diagnostics[0].get("key", "")
        if key == "workload.micro_batches":
            return _refused(_too_many(job, wrong.diagnostics[0]))
        if key.startswith(("workload.parallel.", "workload.meshes.")):
            return _refused(_uneven(job))
        raise
    if summary.ended == "limit_reached":
        reason = (
            f"it needs more than {MOST_EVENTS:,} events, because its ranks are not alike: groups of experts and of"
            " gradients divide the network so that the parts of neither are made of those of the other"
        )
        return SimulatedJob(None, reason=reason)
    return SimulatedJob(summary.total_time_s, summary.exposed_communication_s)


def _refused(problem: Diagnostic) -> SimulatedJob:
    return SimulatedJob(None, reason=f"{problem['message']}: {problem['help']}", problem=problem)


def _too_many(job: TrainingJob, problem: Diagnostic) -> Diagnostic:
    """The error for a step that is too long, by the key of the job file."""
    return error(
        Code.BAD_VALUE,
        "a step has too many micro-batches to be simulated",
        key="batch.global_batch",
        found=f"{job.job.micro_batches} micro-batches",
        allowed=problem.get("allowed"),
        help="write a larger micro_batch, or a smaller global_batch: micro-batches in the middle of a step are alike",
    )


def _uneven(job: TrainingJob) -> Diagnostic:
    """The error for axes of which some ranks are in one NVLink domain and others in two."""
    size = domain(job)
    return error(
        Code.BAD_VALUE,
        f"the ranks of an axis do not divide NVLink domains of {size}, so that its groups are not alike",
        key="cluster.gpus",
        found=job.job.axes,
        allowed=f"axes that divide {size} one after the other: tensor, data and context, pipeline",
        help="estimate the job without a simulation, or write other numbers of ranks",
    )

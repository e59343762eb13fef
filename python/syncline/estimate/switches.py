"""Settings of the software that change how long models with experts take, each alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.estimate.frameworks import unsupported
from syncline.estimate.job import estimator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.estimate.job import Job
    from syncline.estimate.machines import Machine
    from syncline.models.architecture import Decoder

LEAST = 0.01
"""The smallest part of a step by which a change must shorten it to be named."""


@dataclass(frozen=True)
class Switch:
    """A job with another setting of the software."""

    key: str
    """The setting, by its key in a job file."""
    value: str | bool
    """Its value."""
    step_s: float
    """Seconds of a step with it."""
    memory_bytes: int
    """Bytes of the fullest rank with it."""


def switched(job: Job) -> Iterator[tuple[str, str | bool, Job]]:
    """A job with experts, with each setting that it does not have: key, value, and the job with it."""
    if job.graphs == "none":
        yield "graphs", "partial", job.changed(graphs="partial")
    if job.graphs != "full":
        yield "graphs", "full", job.changed(graphs="full")
    if job.expert > 1 and job.dispatcher != "fused":
        yield "dispatcher", "fused", job.changed(dispatcher="fused")
    if job.expert > 1 and not job.overlap.experts:
        yield "overlap.experts", True, job.changed(overlap={**job.overlap.model_dump(), "experts": True})


def switches(architecture: Decoder, job: Job, machine: Machine, framework: str, constants: str) -> list[Switch]:
    """The settings that shorten a step by :data:`LEAST` or more, the best one first; none for models without experts.

    :param framework: the software whose memory counts; what it has no way to do is left out.
    :param constants: its constants, as JSON.
    """
    if architecture.experts is None:
        return []
    step_s = estimator(architecture, job, machine).seconds(constants)
    found = []
    for key, value, changed in switched(job):
        if any(unsupported(framework, changed)):
            continue
        core = estimator(architecture, changed, machine)
        if (seconds := core.seconds(constants)) < (1 - LEAST) * step_s:
            found.append(Switch(key, value, seconds, core.memory(framework)[0]["total"]))
    return sorted(found, key=lambda each: (each.step_s, each.key, str(each.value)))

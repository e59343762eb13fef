"""The step and the memory of a training job, by the estimates of the core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.estimate import changes_that_fit, error_bar, kind_of, mfu, tokens_per_s
from syncline.input.problem import error, exception
from syncline.quantity import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.errors import Diagnostic
    from syncline.estimate import ErrorBar
    from syncline.estimate.error_bars import Kind
    from syncline.estimate.fitting import Change
    from syncline.jobs.training_job import TrainingJob


@dataclass(frozen=True)
class Estimate:
    """What is estimated of a job."""

    job: TrainingJob
    step_s: float
    """Seconds of a step."""
    parts: Mapping[str, float]
    """Seconds of a step by part; all together are the step."""
    stages_s: tuple[float, ...]
    """Seconds of a micro-batch in each stage of the pipeline."""
    stage: int
    """The stage whose ranks need the most memory."""
    memory: Mapping[str, int]
    """Bytes of such a rank by kind; all together are ``memory_bytes``."""
    memory_bytes: int
    """Bytes of the fullest rank."""
    host_bytes: int = 0
    """Bytes in the host's memory of such a rank."""

    @property
    def capacity(self) -> int:
        """Bytes of an accelerator."""
        return int(self.job.machine.memory_bytes)

    @property
    def host_capacity(self) -> int | None:
        """Bytes of the host's memory for each accelerator; None if that is not known."""
        size = self.job.machine.host.memory_bytes
        return None if size is None else int(size)

    @property
    def fits(self) -> bool:
        """Whether the fullest rank fits into an accelerator, and what it leaves to the host into its memory."""
        host = self.host_capacity
        return self.memory_bytes <= self.capacity and (host is None or self.host_bytes <= host)

    @cached_property
    def changes(self) -> list[Change]:
        """What would make it fit, the fastest change first; nothing if it fits, or if no three changes suffice."""
        if self.fits:
            return []
        job = self.job
        constants = job.software.model_dump_json()
        return changes_that_fit(job.architecture, job.job, job.machine, job.framework, constants, self.capacity)

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second of an accelerator."""
        return tokens_per_s(self.job.job, self.step_s)

    @property
    def mfu(self) -> float | None:
        """Operations that the model needs, over those that the accelerators could do in 16 bits (MFU)."""
        return mfu(self.job.architecture, self.job.job, self.job.machine, self.step_s)

    @property
    def kind(self) -> Kind:
        """The kind of the job: jobs of a kind have an error bar."""
        return kind_of(self.job.architecture, adapters=self.job.job.adapters is not None)

    @property
    def errors(self) -> ErrorBar | None:
        """Errors of estimates of jobs that are alike.

        None if none was measured, or if kernels or constants are those of a file.
        """
        if self.job.machine.own is not None or self.job.constants_file is not None:
            return None
        return error_bar(self.job.constants, self.job.machine.accelerator, self.kind)


def estimate(job: TrainingJob) -> Estimate:
    """Estimates a job that :func:`~.training_job.read_job` has checked.

    :raises SynclineError: NCCL has no times of a collective that it needs.
    """
    parts, stages = job.estimator.step(job.software.model_dump_json(), job.framework)
    if not isfinite(parts["step"]):
        raise exception(_not_measured(job))
    kinds, stage = job.estimator.memory(job.framework)
    for kept in ("allocated", "reserved"):
        kinds.pop(kept)
    step, total, host = parts.pop("step"), kinds.pop("total"), kinds.pop("host")
    return Estimate(job, step, parts, tuple(stages), stage, kinds, total, host)


def _not_measured(job: TrainingJob) -> Diagnostic:
    """The error for a machine of NCCL without times of collectives that a job needs."""
    nccl, domain = job.machine.nccl_machine, min(job.machine.domain, job.job.ranks)
    nodes = max(job.job.ranks // domain, 1)
    lacking = [
        each for each in _core.nccl_operations() if nccl.time(each, 1 << 28, gpus_per_node=domain, nodes=nodes) is None
    ]
    return error(
        Code.BAD_VALUE,
        f"the machine of NCCL has no times of all collectives that the job needs: it lacks {listed(lacking)}",
        key="cluster.nccl",
        found=job.machine.nccl_name,
        help="leave out nccl, or calibrate a machine with these collectives, too",
    )

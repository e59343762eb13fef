"""The step of a job in detail: turns of the pipeline, memory over time, communication, kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from syncline.input.base import Strict

if TYPE_CHECKING:
    from syncline.jobs.training_job import TrainingJob

SpanKind: TypeAlias = Literal["forward", "backward", "input", "weight", "both", "message"]


class Span(Strict):
    """What a stage does in a part of the time."""

    stage: int
    kind: SpanKind
    micro_batch: int
    """From 0."""
    chunk: int
    """The chunk of the stage."""
    begin_s: float
    end_s: float


class Peak(Strict):
    """The most memory of a rank of a stage by the estimate, in bytes by kind."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    working: int
    gathered: int
    fragmentation: int
    buffers: int
    context: int
    host: int
    """Beside all others, in the host's memory."""
    total: int
    """All but that."""


class Point(Strict):
    """What changes in memory during a step, in bytes."""

    at_s: float
    activations: float
    logits: float
    working: float
    fragmentation: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.activations + self.logits + self.working + self.fragmentation


class StageMemory(Strict):
    """The memory of a rank of a stage over the step."""

    peak: Peak
    points: list[Point]

    @property
    def constant(self) -> int:
        """Bytes that do not change."""
        peak = self.peak
        return peak.weights + peak.gradients + peak.optimizer + peak.gathered + peak.buffers + peak.context

    @property
    def most(self) -> float:
        """The most bytes at any time."""
        return self.constant + max(point.total for point in self.points)


class Communication(Strict):
    """One kind of communication of a rank of the slowest stage."""

    part: Literal["tensor", "context", "expert", "messages", "exchange"]
    """The part of the step that it belongs to."""
    collective: str
    bytes: float
    in_domain: int
    """Ranks in each NVLink domain."""
    domains: int
    """NVLink domains."""
    times: float
    """How many in a step."""
    each_s: float

    @property
    def tier(self) -> str:
        """What it goes through: NVLink, or the network if its ranks are in several NVLink domains."""
        return "network" if self.domains > 1 else "NVLink"

    @property
    def seconds(self) -> float:
        """Seconds of all in a step, hidden or not."""
        return self.times * self.each_s


class Kernel(Strict):
    """One kernel of a rank of the slowest stage."""

    name: str
    which: Annotated[str, Field(alias="pass")]
    """Forward, or which gradient."""
    precision: str | None
    """The data type whose peak counts; None if the kernel only moves bytes."""
    times: float
    """How often it runs in a step."""
    each_s: float
    flop: float
    bytes: float
    """Bytes between memory and registers, if each operand and result moves once."""


class Detail(Strict):
    """A step in detail: the type ``Profile`` of the crate ``estimate``."""

    step_s: float
    """Seconds of the step, by the estimate."""
    pipeline_s: float
    """Seconds until the last stage has done its last turn, each turn as early as it can be."""
    exchange_s: float
    """Seconds of gradients and parameters that are exposed."""
    update_s: float
    """Seconds of the optimizer."""
    slowest: int
    """The stage that computes most."""
    spans: list[Span]
    memory: list[StageMemory]
    """By stage."""
    communication: list[Communication]
    kernels: list[Kernel]

    @property
    def listed_s(self) -> float:
        """Seconds of a step whose turns are all executed: beside ``step_s``, which skips those that repeat."""
        return self.pipeline_s + self.exchange_s + self.update_s


def detail(job: TrainingJob) -> Detail:
    """The step of a job in detail."""
    text = job.estimator.profile(job.software.model_dump_json(), job.framework)
    return Detail.model_validate_json(text)

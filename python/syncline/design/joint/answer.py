"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncline.design.joint.baselines import Baseline
    from syncline.design.joint.request import JointRequest
    from syncline.result import Result


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
class BaselineResult:
    """The best strategy on another network."""

    baseline: Baseline
    answer: Answer


@dataclass(frozen=True)
class Found:
    """The results of a search."""

    request: JointRequest
    answer: Answer
    """The strategy and the topology."""
    usd: float
    """Price of the direct links."""
    others: tuple[BaselineResult, ...] = ()
    """The networks of the spec's ``compare``, in its order."""
    notes: tuple[str, ...] = ()
    """What the reader should know."""
    result: Result | None = None
    """The simulation of the answer; None if it was not simulated."""

    @property
    def simulated_s(self) -> float | None:
        """Simulated seconds of a step."""
        return None if self.result is None else self.result.summary.total_time_s

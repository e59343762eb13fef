"""The summary of a run: its main numbers, in the form of ``summary.json``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

__all__ = [
    "Axis",
    "Bottleneck",
    "Dimension",
    "JobSummary",
    "Overload",
    "Packets",
    "PathPart",
    "Summary",
]


@dataclass(frozen=True)
class Dimension:
    """One dimension of a regular fabric. For a graph: one tier of links, or all links if it has no tiers."""

    name: str
    """Its name."""
    carried_bytes: int
    """Bytes that its links carried: a message counts once on each link that it takes."""
    utilization: float
    """Carried bytes over the bytes that its links could have carried in the whole run, 0 to 1."""
    utilization_while_busy: float
    """Carried bytes over the bytes that its links could have carried while it had something to send, 0 to 1."""
    busiest_link_busy: float | None
    """Fraction of the run in which its busiest link was sending. None if messages passed some of its links at the same
    time, as ``analytical`` allows inside the network: such links have no busy times."""
    busiest_link: str
    """The busiest link, such as ``NPU 3 -> NPU 4``; if the fraction is none, the link that carried most for its
    rate."""


@dataclass(frozen=True)
class Packets:
    """Counts and round-trip times of packets."""

    sent: int
    """Packets that NPUs sent, acknowledgements included."""
    dropped: int
    """Packets dropped because a queue was full, or dropped early."""
    marked: int
    """Packets that a queue marked (ECN)."""
    retransmissions: int
    """Segments that were sent again."""
    timeouts: int
    """Retransmission time-outs."""
    rtt_mean_s: float
    """Round-trip time, sampled every millisecond and averaged for each connection: mean over connections."""
    rtt_p50_s: float
    """Median over connections."""
    rtt_p99_s: float
    """99th percentile over connections."""
    initial_timeouts: int = 0
    """Time-outs before the first round trip was measured. 0 in results of older versions."""
    stalled_s: float = 0.0
    """Time in which some connection waited for its time-out while no link on its paths sent anything. 0 in results of
    older versions."""
    pauses: int = 0
    """Number of times that a port had to pause (priority flow control). 0 in results of older versions."""


@dataclass(frozen=True)
class Overload:
    """Links inside the network over which the model sent more than they can carry, so that times are too short."""

    link: str
    """The most overloaded of these links, such as ``leaf 0 -> spine 1``."""
    links: int
    """Number of these links."""
    times: float
    """Peak load of the most overloaded link, over its rate."""
    late_s: float
    """Least delay that the most overloaded link would add to some of its bytes in the first two iterations; other work
    may hide it."""
    least_time_s: float
    """Lower bound on the time of the run: the time that the most overloaded link needs for all its bytes, or
    ``total_time_s``."""


@dataclass(frozen=True)
class JobSummary:
    """One of several jobs. Times are means over its ranks unless said otherwise."""

    name: str
    """Name of the job."""
    ranks: int
    """Number of its ranks."""
    iterations: int
    """Training iterations that its ranks completed."""
    start_s: float
    """Time at which it began."""
    finish_s: float
    """Time at which its last rank finished."""
    step_time_s: float
    """Time from its start to its finish, over iterations."""
    compute_s: float
    """Time in which compute was busy."""
    exposed_communication_s: float
    """Time in which compute was idle only because it waited for communication."""
    exposed_fraction: float
    """Exposed communication over the time from its start to its finish."""
    communication_s: float
    """Time in which at least one communication of the rank was in progress."""
    sent_bytes: int
    """Bytes that its ranks sent."""
    alone_step_time_s: float | None
    """Step time of the same job alone on the fabric; none if a run was cut off."""
    slowdown: float | None
    """Step time over ``alone_step_time_s``: the slowdown that the other jobs cause."""
    iterations_per_s_per_usd: float | None = None
    """Its training iterations per second over the price of the whole fabric; none without prices, or without a step."""
    iterations_per_s_per_w: float | None = None
    """Its training iterations per second over the power of the whole fabric; none if no price list gives power."""


@dataclass(frozen=True)
class Axis:
    """Exposed communication along one axis of the mesh."""

    name: str
    """Kind of parallelism: the role of the groups that communicate, such as ``data``; ``pipeline``; or
    ``point_to_point``."""
    exposed_communication_s: float
    """Its share of the exposed communication."""


@dataclass(frozen=True)
class PathPart:
    """A part of the critical path."""

    kind: Literal["compute", "bubble", "skew", "memory", "reduction", "bytes", "queueing", "latency", "timeout"]
    """What this part of the path is spent on."""
    time_s: float
    """Length of the part, over the steps that the path covers."""
    per_mille: int
    """Its share of the path, in thousandths; the shares of all parts add up to 1000."""
    saves_s: float
    """Time by which these steps would become shorter if the resource were twice as fast, including all other use of the
    same tier of links; for latency, bubble, skew and time-outs, if there were none."""
    tier: str = ""
    """The tier of links, for bytes and queueing; else empty."""

    @property
    def name(self) -> str:
        """Name of the part: its kind, after its tier if it has one, such as ``latency`` or ``nvlink bytes``."""
        return f"{self.tier} {self.kind}".strip()


@dataclass(frozen=True)
class Bottleneck:
    """The part of the critical path that saves most if it is made faster."""

    kind: Literal[
        "links",
        "compute",
        "bubble",
        "skew",
        "memory",
        "reduction",
        "latency",
        "timeout",
        "communication",
        "nothing",
    ]
    """What it is: the ``links`` of a tier, ``compute``, the ``bubble`` of a pipeline, ``skew`` between ranks,
    ``memory``, ``reduction``, ``latency``, ``timeout``; ``communication`` if its links are not known; ``nothing`` if no
    time passes."""
    tier: str = ""
    """Name of the tier of links; only if ``kind`` is ``links``."""

    @property
    def name(self) -> str:
        """Its name on screens: the tier of its links, or its kind."""
        return self.tier or self.kind

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Summary:
    """The summary of a run. Times are means over ranks unless said otherwise."""

    ended: Literal["finished", "limit_reached", "interrupted"]
    """How the run ended. All numbers describe the time before that."""
    ranks: int
    """Ranks in the job."""
    npus: int
    """NPUs in the fabric."""
    simulated_ranks: int = field(default=0, kw_only=True)
    """Ranks that were simulated; each of the others is equal to one of them. 0 in results of older versions."""
    simulated_iterations: int = field(default=0, kw_only=True)
    """Iterations that were simulated; each of the others is equal to one of them. 0 in results of older versions."""
    micro_batches: int | None = field(default=None, kw_only=True)
    """Micro-batches in an iteration; only if there are several."""
    simulated_micro_batches: int | None = field(default=None, kw_only=True)
    """Micro-batches that were simulated, over all iterations; each of the others is equal to one of them. Only if an
    iteration has several."""
    parallelism: str = field(default="", kw_only=True)
    """Degrees of parallelism, such as ``tensor 8 x data 4``; empty if the workload does not give them."""
    iterations: int
    """Training iterations that every rank completed; 1 if the workload has none."""
    total_time_s: float
    """Simulated time until the last rank finished."""
    step_time_s: float
    """Total time over iterations; total time if the run was cut off in its first iteration."""
    compute_s: float
    """Time in which compute was busy."""
    exposed_communication_s: float
    """Time in which compute was idle only because it waited for the network."""
    exposed_by_axis: tuple[Axis, ...] = field(default=(), kw_only=True)
    """Exposed communication by axis of the mesh."""
    bubble_s: float = field(default=0.0, kw_only=True)
    """Time in which compute was idle because another stage of the pipeline had not sent yet, or had not finished."""
    skew_s: float = field(default=0.0, kw_only=True)
    """Time in which compute was idle because another rank had not begun a collective yet, or had not finished."""
    idle_s: float = field(default=0.0, kw_only=True)
    """Time in which compute was idle because there was nothing to do."""
    exposed_memory_s: float
    """Time in which compute was idle only because it waited for memory operations."""
    exposed_fraction: float
    """Exposed communication over total time."""
    communication_s: float
    """Time in which at least one communication of the rank was in progress."""
    parameters: int | None = field(default=None, kw_only=True)
    """Parameters of the model. Only training jobs have this key and the rates of work that follow."""
    samples_per_step: int | None = field(default=None, kw_only=True)
    """Samples in a step over all copies of the model: the global batch. None if the number of samples that layers are
    for is unknown."""
    tokens_per_step: int | None = field(default=None, kw_only=True)
    """Tokens of these samples; none if samples have no tokens."""
    samples_per_s: float | None = field(default=None, kw_only=True)
    """Samples per step over step time."""
    tokens_per_s: float | None = field(default=None, kw_only=True)
    """Tokens per step over step time."""
    model_tflop_per_s_per_npu: float | None = field(default=None, kw_only=True)
    """Model FLOP per second of one NPU, in TFLOP/s: those of the matrix products in the model's forward and backward
    pass, about six for each parameter and token, plus attention. Recomputation does not count, nor do scores that
    causal attention masks."""
    mfu: float | None = field(default=None, kw_only=True)
    """Model FLOP utilisation, 0 to 1: ``model_tflop_per_s_per_npu`` over the peak rate of an NPU (Chowdhery et al.
    2022, 4.1). None if the compute model has no peak."""
    mfu_unmasked: float | None = field(default=None, kw_only=True)
    """Model FLOP utilisation that counts all scores of causal attention, as for PaLM; none if equal to ``mfu``."""
    hfu: float | None = field(default=None, kw_only=True)
    """Hardware FLOP utilisation, 0 to 1: all matrix products that are computed, including recomputation, over the peak
    rate."""
    faults: tuple[str, ...] = field(default=(), kw_only=True)
    """The faults, one sentence each: what was slow or broken."""
    healthy_step_time_s: float | None = field(default=None, kw_only=True)
    """Step time of the same job on a cluster without these faults; none without faults, or if a run was cut off."""
    fault_cost_s: float | None = field(default=None, kw_only=True)
    """Cost of the faults: step time minus ``healthy_step_time_s``."""
    prices: str | None = field(default=None, kw_only=True)
    """Name of the price list. Only scenarios with ``prices`` have this key and the other keys of cost and power."""
    cost_usd: float | None = field(default=None, kw_only=True)
    """Price of the fabric; the table ``costs`` lists its items."""
    cost_per_npu_usd: float | None = field(default=None, kw_only=True)
    """Price of the fabric over its number of NPUs."""
    power_w: float | None = field(default=None, kw_only=True)
    """Power of the fabric, as far as the price list gives it; none if it gives no power."""
    iterations_per_s_per_usd: float | None = field(default=None, kw_only=True)
    """Performance per dollar: training iterations per second, ``1 / step_time_s``, over ``cost_usd``. None if no step
    was completed, or if several jobs have their own steps."""
    iterations_per_s_per_w: float | None = field(default=None, kw_only=True)
    """Performance per watt: training iterations per second over ``power_w``."""
    jobs: tuple[JobSummary, ...] = field(default=(), kw_only=True)
    """The jobs, if there are several on the fabric. Then ``iterations`` is 1 once every job has completed one, and the
    step time is the total time."""
    messages: int
    """Messages delivered."""
    bytes: int
    """Bytes sent: each message counts once, whatever links it takes."""
    events: int
    """Events that the engine handled."""
    dims: tuple[Dimension, ...]
    """Use of each dimension."""
    overload: Overload | None = field(default=None, kw_only=True)
    """Links on which the network model was too optimistic; none if no link had to send more than it can carry."""
    packets: Packets | None = field(default=None, kw_only=True)
    """Counts and round-trip times of packets; none if the network model has no packets."""
    critical_path: tuple[PathPart, ...] = field(default=(), kw_only=True)
    """Parts of the critical path of the first steps, longest first; empty if no time passes."""
    bottleneck: Bottleneck
    """The part of the critical path that saves most if it is made faster."""
    reason: str
    """Why it is the bottleneck, in a sentence or two."""
    network_model: str
    """The network model that was used."""
    compute_model: str
    """The compute model that was used."""
    calibrated: str
    """Whether a parameter was calibrated against measurements, and which."""
    notes: tuple[str, ...]
    """Assumptions that the run had to make, one sentence each."""

    def as_dict(self) -> dict[str, Any]:
        """The content of ``summary.json``, with tuples in place of lists."""
        left_out: set[str] = set()
        if self.micro_batches is None:
            left_out.update(_OF_SEVERAL)
        if not self.jobs:
            left_out.add("jobs")
        if self.overload is None:
            left_out.add("overload")
        if self.prices is None:
            left_out.update(_OF_PRICES)
        left_out.update(key for key in _OF_WORK if getattr(self, key) is None)
        return {key: value for key, value in asdict(self).items() if key not in left_out}

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """Reads a summary that the core wrote. Ignores unknown keys, which newer versions may have."""
        values: dict[str, Any] = _known(cls, json.loads(text))
        values["bottleneck"] = Bottleneck(**_known(Bottleneck, values["bottleneck"]))
        values["dims"] = tuple(Dimension(**_known(Dimension, each)) for each in values["dims"])
        if values.get("overload") is not None:
            values["overload"] = Overload(**_known(Overload, values["overload"]))
        if values.get("packets") is not None:
            values["packets"] = Packets(**_known(Packets, values["packets"]))
        values["jobs"] = tuple(JobSummary(**_known(JobSummary, each)) for each in values.get("jobs", ()))
        values["exposed_by_axis"] = tuple(Axis(**_known(Axis, each)) for each in values.get("exposed_by_axis", ()))
        values["critical_path"] = tuple(PathPart(**_known(PathPart, each)) for each in values.get("critical_path", ()))
        values["faults"] = tuple(values.get("faults", ()))
        values["notes"] = tuple(values["notes"])
        return cls(**values)


_OF_SEVERAL = ("micro_batches", "simulated_micro_batches")
"""Keys that are left out if an iteration has one micro-batch."""

_OF_WORK = (
    "parameters",
    "samples_per_step",
    "tokens_per_step",
    "samples_per_s",
    "tokens_per_s",
    "model_tflop_per_s_per_npu",
    "mfu",
    "mfu_unmasked",
    "hfu",
)
"""Keys that are left out if they are unknown."""

_OF_PRICES = (
    "prices",
    "cost_usd",
    "cost_per_npu_usd",
    "power_w",
    "iterations_per_s_per_usd",
    "iterations_per_s_per_w",
)
"""Keys that are left out if the scenario has no prices."""


def _known(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {key: value for key, value in values.items() if key in names}

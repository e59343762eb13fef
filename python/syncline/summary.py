"""The answer of a run in a few numbers, as ``summary.json`` holds it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal


@dataclass(frozen=True)
class Dimension:
    """One dimension; of a graph with several tiers of links, one tier, and of any other graph all links together."""

    name: str
    """Its name."""
    carried_bytes: int
    """Bytes that its links carried: a message counts once on each link that it takes."""
    utilization: float
    """Carried bytes over what its links could have carried in the whole run, 0 to 1."""
    utilization_while_busy: float
    """Carried bytes over what its links could have carried while it had something to send, 0 to 1."""
    busiest_link_busy: float | None
    """Fraction of the run in which its busiest link was sending. None where messages passed some of its links side by
    side, as `analytical` lets them inside the network: these have no times of their own."""
    busiest_link: str
    """That link, such as ``NPU 3 -> NPU 4``; where the fraction is none, the link that carried most for its rate."""


@dataclass(frozen=True)
class Packets:
    """What became of packets."""

    sent: int
    """Packets that NPUs sent, acknowledgements included."""
    dropped: int
    """Packets that found no room in a queue, or were dropped early."""
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
    """Time-outs before a round trip was measured. 0 in results that do not say it."""
    stalled_s: float = 0.0
    """Time in which some connection waited for its time-out while no link on its ways sent anything. 0 in results that
    do not say it."""
    pauses: int = 0
    """Times that a port was told to pause (priority flow control). 0 in results that do not say it."""


@dataclass(frozen=True)
class Overload:
    """Links inside the network over which the model sent more than they can carry: times are too short."""

    link: str
    """The fullest of them, such as ``leaf 0 -> spine 1``."""
    links: int
    """How many there are."""
    times: float
    """What the fullest one was to send in its fullest moment, over what it can."""
    late_s: float
    """How much later it would send some of its bytes in the first two iterations, at least; other work may hide it."""
    least_time_s: float
    """The run takes at least this long: what the fullest link needs for all its bytes, or ``total_time_s``."""


@dataclass(frozen=True)
class JobSummary:
    """One of several jobs. Times are means over its ranks unless said otherwise."""

    name: str
    """Its name."""
    ranks: int
    """Its ranks."""
    iterations: int
    """Training iterations that its ranks completed."""
    start_s: float
    """When it began."""
    finish_s: float
    """When its last rank finished."""
    step_time_s: float
    """Time from its start to its finish over iterations."""
    compute_s: float
    """Time in which compute was busy."""
    exposed_communication_s: float
    """Time in which compute was idle only because it waited for communication."""
    exposed_fraction: float
    """Exposed communication over the time from its start to its finish."""
    communication_s: float
    """Time in which at least one communication of the rank was under way."""
    sent_bytes: int
    """Bytes that its ranks sent."""
    alone_step_time_s: float | None
    """Step time of the same job alone on the fabric; none where a run was cut off."""
    slowdown: float | None
    """Step time over that alone: what the other jobs cost it."""
    iterations_per_s_per_usd: float | None = None
    """Its training iterations a second over the price of the whole fabric; none without prices, or without a step."""
    iterations_per_s_per_w: float | None = None
    """Its training iterations a second over the power of the whole fabric; none where no price list says power."""


@dataclass(frozen=True)
class Axis:
    """Exposed communication of one kind of parallelism."""

    name: str
    """Such as ``data``: the role of the groups that communicate, ``pipeline``, or ``point_to_point``."""
    exposed_communication_s: float
    """Its part of the exposed communication."""


@dataclass(frozen=True)
class PathPart:
    """A part of the critical path."""

    kind: Literal["compute", "bubble", "skew", "memory", "reduction", "bytes", "queueing", "latency", "timeout"]
    """What it is spent on."""
    time_s: float
    """How long it is, in the steps that the path is of."""
    per_mille: int
    """Its share, in thousandths: those of all parts add up to 1000."""
    saves_s: float
    """By how much these steps would be shorter if it were twice as fast, with all that is spent on the same tier of
    links; of latency, bubble, skew and time-outs, if there were none."""
    tier: str = ""
    """The tier of links, of bytes and queueing; else empty."""

    @property
    def name(self) -> str:
        """``latency``, or ``nvlink bytes``."""
        return f"{self.tier} {self.kind}".strip()


@dataclass(frozen=True)
class Summary:
    """The answer. Times are means over ranks unless said otherwise."""

    ended: Literal["finished", "limit_reached", "interrupted"]
    """How the run ended. All numbers describe the time before."""
    ranks: int
    """Ranks in the job."""
    npus: int
    """NPUs in the fabric."""
    simulated_ranks: int = field(default=0, kw_only=True)
    """Ranks that were simulated; each of the others is like one of them. 0 in results that do not say it."""
    simulated_iterations: int = field(default=0, kw_only=True)
    """Iterations that were simulated; each of the others is like one of them. 0 in results that do not say it."""
    micro_batches: int | None = field(default=None, kw_only=True)
    """Micro-batches of an iteration; only where there are several."""
    simulated_micro_batches: int | None = field(default=None, kw_only=True)
    """Micro-batches of all iterations that were simulated; each of the others is like one of them. Only where an
    iteration has several."""
    parallelism: str = field(default="", kw_only=True)
    """Which ranks share what, such as ``model 8 x data 4``; empty where the workload does not say it."""
    iterations: int
    """Training iterations that every rank completed; 1 where the workload has none."""
    total_time_s: float
    """Simulated time until the last rank finished."""
    step_time_s: float
    """Total time over iterations; total time where a run was cut off in its first one."""
    compute_s: float
    """Time in which compute was busy."""
    exposed_communication_s: float
    """Time in which compute was idle only because it waited for the network."""
    exposed_by_axis: tuple[Axis, ...] = field(default=(), kw_only=True)
    """The same by the ranks that communicate: by parallelism."""
    bubble_s: float = field(default=0.0, kw_only=True)
    """Time in which compute was idle because another stage of the pipeline had not sent yet, or was not done yet."""
    skew_s: float = field(default=0.0, kw_only=True)
    """Time in which compute was idle because another rank had not begun a collective yet, or was not done yet."""
    idle_s: float = field(default=0.0, kw_only=True)
    """Time in which compute was idle because there was nothing to do."""
    exposed_memory_s: float
    """Time in which compute was idle only because it waited for memory operations."""
    exposed_fraction: float
    """Exposed communication over total time."""
    communication_s: float
    """Time in which at least one communication of the rank was under way."""
    parameters: int | None = field(default=None, kw_only=True)
    """Parameters of the model; only of training jobs, as all rates of work that follow."""
    samples_per_step: int | None = field(default=None, kw_only=True)
    """Samples of a step over all copies of the model: the global batch. None where layers do not say what they are
    for."""
    tokens_per_step: int | None = field(default=None, kw_only=True)
    """Tokens of these samples; none where samples have none."""
    samples_per_s: float | None = field(default=None, kw_only=True)
    """Samples per step over step time."""
    tokens_per_s: float | None = field(default=None, kw_only=True)
    """Tokens per step over step time."""
    model_tflop_per_s_per_npu: float | None = field(default=None, kw_only=True)
    """Model FLOP a second of one NPU, in TFLOP/s: those of the matrix products that forward and backward pass of the
    model need, about six for each parameter and token and attention's. What is computed again does not count, nor do
    scores that causal attention masks."""
    mfu: float | None = field(default=None, kw_only=True)
    """Model FLOP utilisation, 0 to 1: that over the peak rate of an NPU (Chowdhery et al. 2022, 4.1). None where the
    compute model has no peak."""
    mfu_unmasked: float | None = field(default=None, kw_only=True)
    """The same where all scores of causal attention count, as for PaLM; none where that is the same."""
    hfu: float | None = field(default=None, kw_only=True)
    """Hardware FLOP utilisation, 0 to 1: all matrix products that are computed, also again, over the peak rate."""
    faults: tuple[str, ...] = field(default=(), kw_only=True)
    """What was slow or broken, one sentence each."""
    healthy_step_time_s: float | None = field(default=None, kw_only=True)
    """Step time of the same job on a cluster without these faults; none where there are none, or a run was cut off."""
    fault_cost_s: float | None = field(default=None, kw_only=True)
    """What the faults cost: step time beyond that."""
    prices: str | None = field(default=None, kw_only=True)
    """Name of the price list; only where the scenario has ``prices``, as all that is said of cost and power."""
    cost_usd: float | None = field(default=None, kw_only=True)
    """Price of the fabric; the table ``costs`` has it item by item."""
    cost_per_npu_usd: float | None = field(default=None, kw_only=True)
    """The same over the number of NPUs in the fabric."""
    power_w: float | None = field(default=None, kw_only=True)
    """Power of the fabric, as far as the price list says it; none where it says nothing of power."""
    iterations_per_s_per_usd: float | None = field(default=None, kw_only=True)
    """Performance per dollar: training iterations a second, ``1 / step_time_s``, over ``cost_usd``. None where no step
    was completed, or where several jobs have steps of their own."""
    iterations_per_s_per_w: float | None = field(default=None, kw_only=True)
    """Performance per watt: the same over ``power_w``."""
    jobs: tuple[JobSummary, ...] = field(default=(), kw_only=True)
    """The jobs, where there are several on the fabric. Then ``iterations`` is 1 once every job has completed one, and
    the step time is the total time."""
    messages: int
    """Messages delivered."""
    bytes: int
    """Bytes sent: each message counts once, whatever links it takes."""
    events: int
    """Events that the engine handled."""
    dims: tuple[Dimension, ...]
    """Per dimension."""
    overload: Overload | None = field(default=None, kw_only=True)
    """Where the network model was too quick; none where every link can carry what it was to send."""
    packets: Packets | None = field(default=None, kw_only=True)
    """What became of packets; none where the network model has no packets."""
    critical_path: tuple[PathPart, ...] = field(default=(), kw_only=True)
    """What the critical path of the first steps is spent on, longest first; empty where no time passes."""
    bottleneck: str
    """What most of the critical path is spent on, so that making it faster helps most: the name of a tier of links, or
    ``compute``, ``bubble``, ``skew`` between ranks, ``memory``, ``reduction``, ``latency``, ``timeout``; ``nothing``
    where no time passes."""
    reason: str
    """Why, in a sentence or two."""
    network_model: str
    """How the numbers were obtained: network model."""
    compute_model: str
    """How the numbers were obtained: compute model."""
    calibrated: str
    """Whether a parameter was calibrated against measurements, and which."""
    notes: tuple[str, ...]
    """Assumptions that the run had to make, one sentence each."""

    def plain(self) -> dict[str, Any]:
        """The keys of ``summary.json``, with tuples for lists."""
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
        """Reads what the core writes. Keys of newer versions are left out."""
        values: dict[str, Any] = _known(cls, json.loads(text))
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
"""Keys that are left out where an iteration has one micro-batch."""

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
"""Keys that are left out where they are not known."""

_OF_PRICES = (
    "prices",
    "cost_usd",
    "cost_per_npu_usd",
    "power_w",
    "iterations_per_s_per_usd",
    "iterations_per_s_per_w",
)
"""Keys that are left out where the scenario has no prices."""


def _known(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {key: value for key, value in values.items() if key in names}

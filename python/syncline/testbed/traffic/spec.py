"""The schema of ``traffic``: the tenants whose flows share the links of a testbed."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from syncline import _core
from syncline.config.built import Seed
from syncline.input.base import Strict, either, form, validation_error
from syncline.input.units import Bytes, LongTime, Rate, Time

MIN_RATE, MAX_RATE = 1_000, 10**12
"""Range of the rates of flows and machines, in bits per second."""
MIN_DURATION, MAX_DURATION = 10**10, 10**17
"""Range of the mean duration of a burst or pause, in picoseconds: 10 ms to 100,000 s."""
MIN_INTERARRIVAL = 10**9
"""Minimum of the mean time between arrivals, in picoseconds."""
MAX_SIZE = 10**15
"""Maximum of the mean size of a flow, in bytes."""
MAX_TENANTS = 64
MAX_FLOWS = 256
"""Maximum number of flows at the same time, of all tenants together: one process sends and receives all of them."""
MAX_BEGINS_PER_S = 1_000
"""Maximum mean number of flows that begin each second, of all tenants together."""

Index = Annotated[int, Field(ge=0, le=2**32 - 1)]
Distribution = Literal["fixed", "exponential", "pareto"]
Flows = Annotated[int, Field(ge=1, le=MAX_FLOWS)]
Shape = Annotated[float, Field(ge=1.1, le=100, strict=False)]
SHAPE = 1.5
"""The shape of Pareto distributions, if the file gives none. A superposition of on-off sources with a shape between 1
and 2 is self-similar, as measured traffic is (Willinger et al., IEEE/ACM ToN 1997)."""


def _check_rate(text: str) -> str:
    if text != "greedy" and not MIN_RATE <= _core.parse_quantity("rate", text) <= MAX_RATE:
        raise validation_error("not a valid rate of a flow", found=text, allowed="greedy, or 1kb/s to 1Tb/s")
    return text


def _check_machine_rate(text: str) -> str:
    if not MIN_RATE <= _core.parse_quantity("rate", text) <= MAX_RATE:
        raise validation_error("not a valid rate of a machine's links", found=text, allowed="1kb/s to 1Tb/s")
    return text


def _check_duration(text: str) -> str:
    if not MIN_DURATION <= _core.parse_quantity("time", text) <= MAX_DURATION:
        raise validation_error("not a valid mean duration", found=text, allowed="10ms to 100000s")
    return text


def _check_interarrival(text: str) -> str:
    if not MIN_INTERARRIVAL <= _core.parse_quantity("time", text) <= MAX_DURATION:
        raise validation_error("not a valid mean time between arrivals", found=text, allowed="1ms to 100000s")
    return text


def _check_size(text: str) -> str:
    if not 1 <= _core.parse_quantity("bytes", text) <= MAX_SIZE:
        raise validation_error("not a valid size of a flow", found=text, allowed="1B to 1PB")
    return text


Duration = Annotated[LongTime, AfterValidator(_check_duration)]


class TenantHosts(Strict):
    """Hosts of the testbed."""

    host: Annotated[
        Index | Annotated[list[Index], Field(min_length=1)], either("a host's number, or a list of numbers")
    ]
    """The number of the host, or a list of them. The flows share the host's own links, too."""


class TenantRacks(Strict):
    """The tenant's own machines in racks of the testbed."""

    rack: Annotated[
        Index | Annotated[list[Index], Field(min_length=1)], either("a rack's number, or a list of numbers")
    ]
    """The number of the rack, or a list of them. The flows share the links of the racks, but no host's own links."""


Ends: TypeAlias = Annotated[
    Annotated[Literal["random"], Tag("word")]
    | Annotated[TenantHosts, Tag("host")]
    | Annotated[TenantRacks, Tag("rack")],
    Discriminator(form(word=True, host="host", rack="rack")),
]
"""Where flows begin or end: hosts, racks, or ``random`` for the tenant's own machines in all racks."""


class _Tenant(Strict):
    """What all tenants have in common."""

    name: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    """Name of the tenant. Without it, `tenant0` for the first of the list, and so on."""
    from_: Annotated[Ends, Field(alias="from")]
    """Where flows begin: hosts (`{host: 3}`), the tenant's own machines in racks (`{rack: [0, 1]}`), or `random` for
    those in all racks. If there are several, one is drawn for each flow."""
    to: Ends
    """Where flows end. The receiver is drawn from all but the sender."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """The transport protocol. UDP does not slow down if packets are lost."""
    rate: Annotated[
        Annotated[Literal["greedy"] | Rate, either("a rate, such as 2Gb/s, or greedy", "greedy")],
        AfterValidator(_check_rate),
    ] = "greedy"
    """Payload rate of each flow. A `greedy` flow sends as much as TCP's congestion control allows. UDP needs a rate."""
    machines: Annotated[int, Field(ge=1, le=250)] = 1
    """Number of the tenant's own machines in each rack that `from` and `to` name."""
    machine_rate: Annotated[Rate, AfterValidator(_check_machine_rate)] | None = None
    """Rate of the links of the tenant's own machines. Without it, that of the rack's fastest host."""
    start: LongTime = "0s"
    """When the traffic begins, after traffic is switched on."""
    until: LongTime | None = None
    """When it ends, after traffic is switched on: bursts stop, and no more flows arrive. Without it, never."""
    seed: Seed = 0
    """Seed of everything random. Tenants with the same seed but different names draw different numbers."""

    @model_validator(mode="after")
    def _rate_times_and_machines(self) -> _Tenant:
        if self.protocol == "udp" and self.rate == "greedy":
            raise validation_error(
                "UDP needs a rate, because it has no congestion control",
                help="add `rate`, such as `rate: 100Mb/s`",
                at=("protocol",),
            )
        if self.until is not None and ps(self.until) <= ps(self.start):
            raise validation_error("the traffic ends before it begins", found=self.until, at=("until",))
        if isinstance(self.from_, TenantHosts) and isinstance(self.to, TenantHosts):
            for key in ("machines", "machine_rate"):
                if key in self.model_fields_set:
                    raise validation_error(
                        f"`{key}` has no effect, because all flows begin and end at hosts",
                        help=f"leave out `{key}`, or name a rack, such as `from: {{rack: 0}}`",
                        at=(key,),
                    )
        return self


class OnOffTenant(_Tenant):
    """A tenant with on-off sources: each sends a burst, pauses, and sends again."""

    flows: Flows = 1
    """Number of on-off sources. Each sends one flow at a time."""
    on: Duration | None = None
    """Mean duration of a burst. Without `on` and `off`, sources always send."""
    off: Duration | None = None
    """Mean duration of a pause between bursts."""
    distribution: Distribution = "exponential"
    """Distribution of both durations. Sources begin with a burst if they are `fixed`, and otherwise in equilibrium: on
    with probability on / (on + off)."""
    shape: Shape | None = None
    """Shape of the Pareto distribution: smaller values have heavier tails. Without it, 1.5."""

    @model_validator(mode="after")
    def _bursts(self) -> OnOffTenant:
        if (self.on is None) != (self.off is None):
            one, other = ("on", "off") if self.off is None else ("off", "on")
            raise validation_error(
                f"`{one}` without `{other}`",
                help=f"add `{other}`, such as `{other}: 2s`; or leave out both, and sources always send",
                at=(one,),
            )
        if self.on is None and "distribution" in self.model_fields_set:
            raise validation_error(
                "`distribution` has no effect without `on` and `off`",
                help="add both, or leave it out",
                at=("distribution",),
            )
        _check_shape(self.shape, self.distribution)
        return self


class PoissonTenant(_Tenant):
    """A tenant whose flows arrive as a Poisson process, and end when they have sent their size."""

    interarrival: Annotated[Time, AfterValidator(_check_interarrival)]
    """Mean time between the arrivals of two flows."""
    size: Annotated[Bytes, AfterValidator(_check_size)]
    """Mean size of a flow."""
    distribution: Distribution = "exponential"
    """Distribution of sizes."""
    shape: Shape | None = None
    """Shape of the Pareto distribution: smaller values have heavier tails. Without it, 1.5."""
    flows: Flows = 64
    """Maximum number of flows that are open at the same time. An arrival beyond it is blocked, and counted."""

    @model_validator(mode="after")
    def _sizes(self) -> PoissonTenant:
        _check_shape(self.shape, self.distribution)
        return self


def _check_shape(shape: float | None, distribution: str) -> None:
    if shape is not None and distribution != "pareto":
        raise validation_error(
            "`shape` has no effect without `distribution: pareto`", help="leave one of them out", at=("shape",)
        )


def ps(time: str) -> int:
    """Returns a time of the file in picoseconds."""
    return _core.parse_quantity("time", time)


TrafficTenant: TypeAlias = Annotated[
    Annotated[PoissonTenant, Tag("interarrival")] | Annotated[OnOffTenant, Tag("on_off")],
    Discriminator(form(word=False, default="on_off", interarrival="interarrival", size="interarrival")),
]
"""One tenant."""

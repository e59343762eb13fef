"""The schema of ``network``: the network model. Defaults are those of the core; a test compares them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from syncline.input.base import Strict, either, form, validation_error
from syncline.input.units import Bytes, Rate, Time
from syncline.input.words import Collective

Name = Literal["analytical", "queued", "flow", "packet"]
NAMES: tuple[str, ...] = get_args(Name)
"""Names of all network models."""
Traffic = Literal[Collective, "point_to_point"]
Segments = Annotated[int, Field(ge=1, le=2**32 - 1)]
Part = Annotated[float, Field(gt=0, le=1)]
Framing = Annotated[
    Literal["ethernet", "point_to_point"] | Bytes,
    either("ethernet, point_to_point, or a size such as 38B", "ethernet", "point_to_point"),
]


class PlainNetwork(Strict):
    """A network model without parameters."""

    model: Literal["analytical", "queued"]
    """The network model's name."""


class Flow(Strict):
    """Messages as fluid, sent in order on connections that share links fairly (max-min)."""

    model: Literal["flow"]
    """The network model's name."""
    precision: Annotated[float, Field(ge=0, le=0.25)] = 0.0
    """Relative error up to which a connection keeps its old fair share. With many thousands of different flows, a
    value above 0 speeds up the simulation; 0.001 is close to exact, 0 is exact."""
    paths: Annotated[int, Field(ge=1, le=256)] = 1
    """Maximum number of paths of equal length over which a message is divided evenly."""
    weights: Annotated[dict[Traffic, Annotated[int, Field(ge=1, le=832)]], Field(default_factory=dict)]
    """Weights by collective, or of `point_to_point` messages: connections share a link in proportion to their weights.
    The weights of all connections on a link may add up to 4096 for each b/s of its rate."""
    priority: Annotated[list[Traffic], Field(default_factory=list)]
    """Traffic that goes first, highest priority first; all other traffic shares what it leaves."""

    @model_validator(mode="after")
    def _once(self) -> Flow:
        for name in self.priority:
            if self.priority.count(name) > 1:
                raise validation_error(f"`priority` names {name} twice", help="name each once, highest priority first")
        return self


class Red(Strict):
    """Random early detection: some packets are marked above one queue length, and all above another."""

    from_: Annotated[Bytes, Field(alias="from")]
    """Length of a port's queue from which some packets are marked."""
    to: Bytes
    """Length of a port's queue from which all packets are marked."""
    probability: Part = 1.0
    """Probability that a packet is marked when the queue is just below `to`."""
    weight: Part = 1.0
    """Weight of a new packet in the average queue length; with 1, the current length counts."""
    drop: bool = False
    """Whether packets are dropped instead of marked."""


Mark = Annotated[
    Annotated[Bytes, Tag("word")] | Annotated[Red, Tag("red")], Discriminator(form(word=True, default="red"))
]


class Dcqcn(Strict):
    """DCQCN: how fast RDMA reduces its rate, and recovers."""

    gain: Part = 1 / 256
    """Weight of new information in the estimate of congestion (g)."""
    cnp_interval: Time = "50us"
    """Shortest time between two notifications of one connection (N)."""
    alpha_timer: Time = "55us"
    """Time without a notification after which the estimate falls (K)."""
    rate_timer: Time = "55us"
    """Time after which the rate rises (T)."""
    bytes: Bytes = "10MB"
    """Bytes after which the rate rises (B)."""
    stages: Annotated[int, Field(ge=1, le=2**32 - 1)] = 5
    """Steps of fast recovery (F)."""
    additive: Rate | None = None
    """Additive increase of the target rate. Without it, a thousandth of the link's rate."""
    hyper: Rate | None = None
    """Hyper increase of the target rate. Without it, a hundredth of the link's rate."""
    minimum: Rate = "10Mb/s"
    """Lowest rate of a connection."""


class Parameters(Strict):
    """Parameters of packets, switches and transport, for the network or for one dimension."""

    mtu: Bytes = "1500B"
    """Largest packet of the network layer: 1500 B, or 9000 B for jumbo frames."""
    headers: Bytes | None = None
    """Size of a packet's headers. Without it, 52 B with TCP, time stamps included, and 44 B with RDMA (IP, UDP, BTH,
    ICRC), to which an acknowledgement adds 4 B (AETH) and a congestion notification 16 B."""
    framing: Framing = "ethernet"
    """Bytes that a link adds to each packet. `ethernet`: 38 B (preamble, header, check sequence, inter-packet gap), and
    at least 84 B on the wire. `point_to_point`: 2 B, as ns-3's point-to-point links. Or a size."""
    buffer: Annotated[Literal["unlimited"] | Bytes, either("unlimited, or a size such as 64MiB", "unlimited")] = "64MiB"
    """Buffer of a switch. A packet that does not fit is dropped."""
    sharing: Literal["even", "dynamic"] = "even"
    """How the ports of a switch share its buffer. `even`: in equal parts. `dynamic`: each port may hold up to `alpha`
    times the free buffer."""
    alpha: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """With `sharing: dynamic`: a port may hold up to this many times the free buffer."""
    forwarding: Time = "0s"
    """Time that a switch takes to forward a packet."""
    mark: Mark | None = None
    """Length of a port's queue from which it marks packets (ECN), or random early detection. Without it, no packets are
    marked; but with DCQCN, the values of its paper apply."""
    pfc: bool | None = None
    """Whether a switch pauses its senders before its buffer is full (priority flow control). Without it, only with
    RDMA."""
    transport: Literal["tcp", "rdma"] = "tcp"
    """Transport of messages: TCP, or reliable connections of RoCEv2."""
    congestion: Literal["newreno", "cubic", "dctcp", "dcqcn", "none"] | None = None
    """Congestion control. With TCP: `newreno` (the default), `cubic` or `dctcp`, which needs `mark`. With RDMA: `dcqcn`
    (the default) or `none`."""
    handshake: bool = False
    """Whether a TCP connection begins with a handshake; otherwise it is open from the start."""
    initial_window: Segments = 10
    """Initial window of TCP, in segments."""
    window: Bytes | None = None
    """Largest window. Without it, 512 KiB with TCP, which is what the receiver's buffer holds, and no limit with
    RDMA."""
    min_timeout: Time = "50ms"
    """Shortest retransmission time-out. With RDMA, the only one."""
    initial_timeout: Time = "1s"
    """Retransmission time-out of TCP before the first round trip is measured."""
    segments_per_ack: Segments = 1
    """Packets that one acknowledgement covers."""
    delayed_ack: Time = "40ms"
    """Longest time that TCP delays an acknowledgement that covers several segments."""
    restart: bool = False
    """Whether a TCP connection that was idle for a time-out starts again with the initial window."""
    spray: Annotated[int, Field(ge=1, le=256)] = 1
    """Maximum number of equal paths that the packets of a TCP connection take in turn (packet spraying). With 1, all
    packets take the same path."""
    dcqcn: Dcqcn = Dcqcn()
    """Parameters of DCQCN."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    """Seed of random early detection. Without it, the scenario's `seed`."""

    def without_effect(self, above: Parameters | None = None) -> tuple[str, str] | None:
        """The first key that is given without the setting it needs, and that setting; None if there is none.

        Keys that are not given have their values from ``above``.
        """

        def value(key: str) -> Any:
            return getattr(self if above is None or key in self.model_fields_set else above, key)

        others = {
            "tcp": ("dcqcn",),
            "rdma": ("handshake", "initial_window", "initial_timeout", "delayed_ack", "restart", "spray"),
        }
        needs = {
            key: f"transport: {'rdma' if value('transport') == 'tcp' else 'tcp'}" for key in others[value("transport")]
        }
        if value("sharing") == "even":
            needs["alpha"] = "sharing: dynamic"
        return next(((key, need) for key, need in needs.items() if key in self.model_fields_set), None)


class Packet(Parameters):
    """Packets, switches with finite buffers, TCP or RDMA (dlrm2020). Defaults are those of dlrm2020, Table III."""

    model: Literal["packet"]
    """The network model's name."""
    dims: Annotated[dict[str, Parameters], Field(default_factory=dict)]
    """Parameters that differ in some dimensions of the fabric, by dimension; for a scale-up network, for example."""

    @model_validator(mode="after")
    def _has_effect(self) -> Packet:
        places = {"": self.without_effect()}
        places |= {f"dims.{name}.": dim.without_effect(self) for name, dim in self.dims.items()}
        for place, found in places.items():
            if found:
                key, need = found
                raise validation_error(
                    f"`{place}{key}` has no effect without `{need}`", help=f"leave `{key}` out, or add `{need}`"
                )
        return self


class _Unknown(Strict):
    """A mapping whose ``model`` names no network model. Validation refuses it, and lists the names."""

    model_config = ConfigDict(extra="allow")

    model: Name


def _choose(value: Any) -> str | None:
    if isinstance(value, str):
        return "word"
    if isinstance(value, BaseModel):
        return "packet" if isinstance(value, Packet) else "flow" if isinstance(value, Flow) else "plain"
    if isinstance(value, dict):
        name = value.get("model", "analytical")
        known = isinstance(name, str) and name in get_args(Name)
        return (name if name in ("flow", "packet") else "plain") if known else "unknown"
    return None


Network = Annotated[
    Annotated[Name, Tag("word")]
    | Annotated[PlainNetwork, Tag("plain")]
    | Annotated[Flow, Tag("flow")]
    | Annotated[Packet, Tag("packet")]
    | Annotated[SkipJsonSchema[_Unknown], Tag("unknown")],
    Discriminator(_choose),
]
"""A network model: its name, or an object with its parameters."""


def resolved(network: Network) -> dict[str, Any]:
    """The network model with all its parameters, in the core's form."""
    if isinstance(network, str):
        forms: dict[str, type[PlainNetwork | Flow | Packet]] = {"packet": Packet, "flow": Flow}
        network = forms.get(network, PlainNetwork).model_validate({"model": network})
    if isinstance(network, Packet):
        common = _resolved(network)
        dims = common.pop("dims")
        if dims:
            own = {name: _resolved(each) for name, each in network.dims.items()}
            given = {name: network.dims[name].model_fields_set for name in dims}
            shared = {key: value for key, value in common.items() if key != "model"}
            common["dims"] = {
                name: {key: own[name][key] if key in given[name] else value for key, value in shared.items()}
                for name in dims
            }
        return common
    return network.model_dump()


def _resolved(parameters: Parameters) -> dict[str, Any]:
    values: dict[str, Any] = parameters.model_dump(by_alias=True)
    values["buffer"] = None if values["buffer"] == "unlimited" else values["buffer"]
    if isinstance(values["mark"], str):
        values["mark"] = Red.model_validate({"from": values["mark"], "to": values["mark"]}).model_dump(by_alias=True)
    return values

"""The network model, as a user writes it. Defaults are those of the core; a test compares them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from syncline.config.base import Strict, either, form, wrong
from syncline.config.quantity import Bytes, Rate, Time
from syncline.config.workload import Collective

Name = Literal["analytical", "queued", "flow", "packet"]
NAMES: tuple[str, ...] = get_args(Name)
"""Of all network models."""
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
    """Messages as fluid, in order on connections that share links fairly (max-min)."""

    model: Literal["flow"]
    """The network model's name."""
    precision: Annotated[float, Field(ge=0, le=0.25)] = 0.0
    """A fair share is left as it is where it is wrong by less than this part of it, which makes networks with many
    thousands of different flows faster; 0.001 is close to exact. With 0 sharing is exact."""
    paths: Annotated[int, Field(ge=1, le=256)] = 1
    """Paths of equal length that a message is divided over, evenly, at most."""
    weights: Annotated[dict[Traffic, Annotated[int, Field(ge=1, le=832)]], Field(default_factory=dict)]
    """How much more than others connections of these collectives, or of `point_to_point` messages, get of a link that
    they share. All weights of connections on a link fit into 4096 for each b/s of its rate."""
    priority: Annotated[list[Traffic], Field(default_factory=list)]
    """Whose messages go first, highest first; what is not named shares what these leave."""

    @model_validator(mode="after")
    def _once(self) -> Flow:
        for name in self.priority:
            if self.priority.count(name) > 1:
                raise wrong(f"`priority` names {name} twice", help="name each once, the first to go first")
        return self


class Red(Strict):
    """Random early detection: part of the packets is marked from one queue on, and all from another."""

    from_: Annotated[Bytes, Field(alias="from")]
    """Queue of a port from which on some packets are marked."""
    to: Bytes
    """Queue from which on all are."""
    probability: Part = 1.0
    """Part of the packets that is marked just below that."""
    weight: Part = 1.0
    """Weight of a packet in the average queue; 1 takes the queue as it is."""
    drop: bool = False
    """Whether packets are dropped in place of being marked."""


Mark = Annotated[
    Annotated[Bytes, Tag("word")] | Annotated[Red, Tag("red")], Discriminator(form(word=True, default="red"))
]


class Dcqcn(Strict):
    """DCQCN: how fast RDMA slows down and comes back."""

    gain: Part = 1 / 256
    """Weight of new information in the estimate of congestion (g)."""
    cnp_interval: Time = "50us"
    """Shortest time between two notifications of one connection (N)."""
    alpha_timer: Time = "55us"
    """Time without notification after which the estimate falls (K)."""
    rate_timer: Time = "55us"
    """Time after which the rate rises (T)."""
    bytes: Bytes = "10MB"
    """Bytes after which the rate rises (B)."""
    stages: Annotated[int, Field(ge=1, le=2**32 - 1)] = 5
    """Steps of fast recovery (F)."""
    additive: Rate | None = None
    """Additive increase of the target rate; a thousandth of the link's rate without it."""
    hyper: Rate | None = None
    """Hyper increase of the target rate; a hundredth of the link's rate without it."""
    minimum: Rate = "10Mb/s"
    """The rate never falls below it."""


class Parameters(Strict):
    """What can be set about packets, switches and transport, of a network or a dimension."""

    mtu: Bytes = "1500B"
    """Largest packet of the network layer: 1500 B, or 9000 B for jumbo frames."""
    headers: Bytes | None = None
    """Headers of a packet: 52 B with TCP, time stamps included; 44 B with RDMA (IP, UDP, BTH, ICRC), to which an
    acknowledgement adds 4 B (AETH) and a congestion notification 16 B."""
    framing: Framing = "ethernet"
    """What a link adds to each packet. `ethernet`: 38 B (preamble, header, check sequence, inter-packet gap), and at
    least 84 B on the wire; `point_to_point`: 2 B, as ns-3's point-to-point links do; or a size."""
    buffer: Annotated[Literal["unlimited"] | Bytes, either("unlimited, or a size such as 64MiB", "unlimited")] = "64MiB"
    """Buffer of a switch; what finds no room is dropped."""
    sharing: Literal["even", "dynamic"] = "even"
    """How ports share the buffer: in equal parts, or each up to `alpha` times what is free."""
    alpha: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Part of the free buffer that a port may have, with `sharing: dynamic`."""
    forwarding: Time = "0s"
    """Time that a switch takes to forward a packet."""
    mark: Mark | None = None
    """Queue of a port from which on it marks packets (ECN), or random early detection. Without it, none are marked, but
    with DCQCN the values of its paper hold."""
    pfc: bool | None = None
    """Whether a switch pauses who sends to it before its buffer is full (priority flow control): with RDMA, unless told
    otherwise."""
    transport: Literal["tcp", "rdma"] = "tcp"
    """What carries messages: TCP, or reliable connections of RoCEv2."""
    congestion: Literal["newreno", "cubic", "dctcp", "dcqcn", "none"] | None = None
    """Congestion control: `newreno`, `cubic` or `dctcp` with TCP (`newreno`), `dcqcn` or `none` with RDMA (`dcqcn`).
    `dctcp` needs `mark`."""
    handshake: bool = False
    """Whether a TCP connection begins with its handshake, or is open from the start."""
    initial_window: Segments = 10
    """Initial window of TCP, in segments."""
    window: Bytes | None = None
    """Largest window: with TCP what the receiver's buffer holds, 512 KiB; none with RDMA."""
    min_timeout: Time = "50ms"
    """Shortest retransmission time-out; with RDMA the only one."""
    initial_timeout: Time = "1s"
    """Retransmission time-out of TCP before a round trip was measured."""
    segments_per_ack: Segments = 1
    """Packets that one acknowledgement is sent for."""
    delayed_ack: Time = "40ms"
    """Longest time that TCP holds an acknowledgement back, where it is for several segments."""
    restart: bool = False
    """Whether a TCP connection that was idle for a time-out begins with the initial window again."""
    spray: Annotated[int, Field(ge=1, le=256)] = 1
    """Equal paths that the packets of a TCP connection take in turn (packet spraying), at most; with 1 all take the
    same."""
    dcqcn: Dcqcn = Dcqcn()
    """DCQCN's parameters."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    """Seed of random early detection. Without it, the scenario's `seed`."""

    def without_meaning(self, above: Parameters | None = None) -> tuple[str, str] | None:
        """A key that is given and has no meaning, and what it would need; what is not given is as it is `above`."""

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
    """Dimensions of the fabric that differ, by name, each with the keys that do: scale-up beside scale-out."""

    @model_validator(mode="after")
    def _has_meaning(self) -> Packet:
        places = {"": self.without_meaning()}
        places |= {f"dims.{name}.": dim.without_meaning(self) for name, dim in self.dims.items()}
        for place, found in places.items():
            if found:
                key, need = found
                raise wrong(
                    f"`{place}{key}` has no meaning without `{need}`", help=f"leave `{key}` out, or add `{need}`"
                )
        return self


class _Unknown(Strict):
    """What has a name that is no network model's. It is refused with the names that are."""

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
    """The network model with all its parameters, as the core takes it."""
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

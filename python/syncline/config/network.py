"""The network model, as a user writes it. Defaults are those of the core; a test compares them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic.json_schema import SkipJsonSchema

from syncline.config.base import Strict, either
from syncline.config.quantity import Bytes, Time

Name = Literal["analytical", "queued", "packet"]
Segments = Annotated[int, Field(ge=1, le=2**32 - 1)]


class PlainNetwork(Strict):
    """A network model without parameters."""

    model: Literal["analytical", "queued"]
    """The network model's name."""


class Packet(Strict):
    """Packets, switches with finite buffers, TCP (dlrm2020). Defaults are those of dlrm2020, Table III."""

    model: Literal["packet"]
    """The network model's name."""
    mtu: Bytes = "1500B"
    """Largest packet of the network layer: 1500 B, or 9000 B for jumbo frames."""
    headers: Bytes = "52B"
    """TCP and IP headers of a segment, options included."""
    framing: Bytes = "2B"
    """What the link adds to a packet."""
    buffer: Annotated[Literal["unlimited"] | Bytes, either("unlimited, or a size such as 64MiB")] = "64MiB"
    """Buffer of a switch, divided evenly among its ports; what finds no room is dropped."""
    forwarding: Time = "0s"
    """Time that a switch takes to forward a packet."""
    mark: Bytes | None = None
    """Queue of a port from which on it marks packets (ECN). Without it, none are marked."""
    congestion: Literal["newreno", "cubic", "dctcp"] = "newreno"
    """Congestion control; `dctcp` needs `mark`."""
    initial_window: Segments = 10
    """Initial window, in segments."""
    window: Bytes = "512KiB"
    """Largest window: what the receiver's buffer holds."""
    min_timeout: Time = "50ms"
    """Shortest retransmission time-out."""
    initial_timeout: Time = "1s"
    """Retransmission time-out before a round trip was measured."""
    segments_per_ack: Segments = 1
    """Segments that one acknowledgement is sent for."""
    delayed_ack: Time = "40ms"
    """Longest time that an acknowledgement is held back, where it is for several segments."""
    restart: bool = False
    """Whether a connection that was idle for a time-out begins with the initial window again."""


class _Unknown(Strict):
    """What has a name that is no network model's. It is refused with the names that are."""

    model_config = ConfigDict(extra="allow")

    model: Name


def _choose(value: Any) -> str | None:
    if isinstance(value, str):
        return "word"
    if isinstance(value, BaseModel):
        return "packet" if isinstance(value, Packet) else "plain"
    if isinstance(value, dict):
        name = value.get("model", "analytical")
        known = isinstance(name, str) and name in get_args(Name)
        return ("packet" if name == "packet" else "plain") if known else "unknown"
    return None


Network = Annotated[
    Annotated[Name, Tag("word")]
    | Annotated[PlainNetwork, Tag("plain")]
    | Annotated[Packet, Tag("packet")]
    | Annotated[SkipJsonSchema[_Unknown], Tag("unknown")],
    Discriminator(_choose),
]
"""A network model: its name, or an object with its parameters."""


def resolved(network: Network) -> dict[str, Any]:
    """The network model with all its parameters, as the core takes it."""
    if isinstance(network, str):
        network = Packet(model="packet") if network == "packet" else PlainNetwork(model=network)
    values: dict[str, Any] = network.model_dump()
    return {key: None if key == "buffer" and value == "unlimited" else value for key, value in values.items()}

"""Settings of a communicator: the choice of plans, the network, and the pace."""

from __future__ import annotations

from dataclasses import dataclass

from syncline.runtime.memory import refusal

MOST_GBPS = 1e6
"""Maximum rate of a network, in Gb/s."""
MOST_US = 1e9
"""Maximum time of a network, in microseconds."""


@dataclass(frozen=True)
class Rule:
    """Selects the plan for a collective.

    ``algorithm`` is named as in scenarios. The rule applies to vectors of at most ``up_to`` bytes, or of any size
    without it. Vectors are cut so that no message is larger than ``message`` bytes.
    """

    kind: str
    algorithm: str
    up_to: int | None = None
    message: int = 64 << 10


@dataclass(frozen=True)
class Network:
    """Describes the network between ranks. An operation that no rule fits runs by the quickest plan on this network.

    All ranks must give the same values. While all ranks send, each sends ``gbps`` Gb/s to the next rank in the order,
    and ``far_gbps`` to distant ranks; the default is half of ``gbps``, as with two hosts to an uplink. A message has a
    latency of ``latency_us``, and keeps its sender busy for ``message_us`` beyond the time for its bytes. Plans let
    several ranks send to one rank at the same time only if at most ``buffer`` bytes are in flight then, which a switch
    port is assumed to hold.

    The defaults are typical of TCP over a network of 25 Gb/s; they are not measured on the job's network.
    """

    gbps: float = 25.0
    far_gbps: float | None = None
    latency_us: float = 30.0
    message_us: float = 15.0
    buffer: int = 64 << 10

    def plain(self) -> dict[str, int]:
        """Returns the network as data for the core, in whole bytes per second and nanoseconds."""
        far = self.gbps / 2 if self.far_gbps is None else self.far_gbps
        rates = {"gbps": self.gbps, "far_gbps": far}
        for name, value in rates.items():
            if not 0 < value <= MOST_GBPS:
                raise refusal(
                    "a rate of the network is out of range", f"{name}={value}", f"above 0, at most {MOST_GBPS:g}"
                )
        times = {"latency_us": self.latency_us, "message_us": self.message_us}
        for name, value in times.items():
            if not 0 <= value <= MOST_US:
                raise refusal("a time of the network is out of range", f"{name}={value}", f"0 to {MOST_US:g}")
        if not 0 <= self.buffer < 1 << 63:
            raise refusal("the buffer of a switch port is out of range", f"buffer={self.buffer}", "at least 0 bytes")
        return {
            "near_bytes_per_s": max(round(self.gbps * 125e6), 1),
            "far_bytes_per_s": max(round(far * 125e6), 1),
            "latency_ns": round(self.latency_us * 1000),
            "message_ns": round(self.message_us * 1000),
            "buffer": self.buffer,
        }


@dataclass(frozen=True)
class Pace:
    """Sets threads, windows and deadlines of a rank.

    ``lanes`` threads share the chunks of every vector; each has a connection to every peer. A lane keeps about
    ``window`` bytes under way to each peer: it begins chunks while the largest messages of the running ones add up to
    less, and always runs at least two. A window of the link's rate times the latency between ranks keeps the link busy
    (25 Gb/s and 100 us: 312 KB). More bytes only wait in the network's queues, and may be dropped there. A lane keeps
    up to ``ahead`` bytes from peers that are ahead of it, all peers together; then it asks them to hold. An operation,
    or a message between ranks, fails after ``deadline_s``. Ranks send signs of life every ``interval_s``. A rank that
    is silent for ``silence_s`` is at fault.
    """

    lanes: int = 1
    window: int = 512 << 10
    ahead: int = 64 << 20
    deadline_s: float = 300.0
    interval_s: float = 0.4
    silence_s: float = 1.5

"""Which plans ranks run, and how they go about it."""

from __future__ import annotations

from dataclasses import dataclass

from syncline.runtime.memory import refusal

MOST_GBPS = 1e6
"""Highest rate of a network that is accepted, in Gb/s."""
MOST_US = 1e9
"""Longest time of a network that is accepted, in microseconds."""


@dataclass(frozen=True)
class Rule:
    """Which plan runs a collective.

    ``algorithm`` is named as scenarios name it. The rule is for vectors of at most ``up_to`` bytes, of any size without
    it. They are cut so that a message has at most ``message`` bytes.
    """

    kind: str
    algorithm: str
    up_to: int | None = None
    message: int = 64 << 10


@dataclass(frozen=True)
class Network:
    """The network between ranks: an operation that no rule fits runs by the plan that is quickest on it.

    All ranks must give the same. Each rank sends ``gbps`` Gb/s to the next one in the order while all ranks send, and
    ``far_gbps`` to distant ones: by default half of that, as with two hosts to an uplink. A message has a latency of
    ``latency_us`` and keeps its sender busy for ``message_us``, besides its bytes. Several ranks send to one at the
    same time only if they have at most ``buffer`` bytes in flight, which a switch port is assumed to hold.

    The defaults are typical of TCP over a network of 25 Gb/s; they are not measured where the job runs.
    """

    gbps: float = 25.0
    far_gbps: float | None = None
    latency_us: float = 30.0
    message_us: float = 15.0
    buffer: int = 64 << 10

    def plain(self) -> dict[str, int]:
        """As the core reads it, in whole bytes a second and nanoseconds."""
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
    """How a member goes about its work.

    ``lanes`` threads share the chunks of every vector, each with a connection to every peer. A lane has ``window``
    bytes under way at a time to each peer: it begins chunks as long as the largest messages of those that run have less
    together, and runs two in any case. As much as a link carries while a message goes from one rank to the next keeps
    it busy (25 Gb/s and 100 us are 312 KB); more waits in the network's queues, and may be lost there. A lane
    keeps ``ahead`` bytes of all peers together that are ahead of it, and then has them hold. An operation, or a message
    from one rank to another, ends after ``deadline_s``. Members give signs of life every ``interval_s``, and whoever is
    silent for ``silence_s`` is at fault.
    """

    lanes: int = 1
    window: int = 512 << 10
    ahead: int = 64 << 20
    deadline_s: float = 300.0
    interval_s: float = 0.4
    silence_s: float = 1.5

"""Options of a communicator: plans, resources and time limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.input.problem import bad_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from syncline.input.words import Collective
    from syncline.plans import Plan
    from syncline.runtime.racks import RackMap

MAX_GBPS = 1e6
"""Maximum rate of a network, in Gb/s."""
MAX_US = 1e9
"""Maximum time of a network, in microseconds."""


@dataclass(frozen=True)
class Rule:
    """Selects the plan for a collective.

    ``algorithm`` is a name as in scenarios, or a plan of your own: a :class:`syncline.plans.Plan`, or the path of a
    plan file or an MSCCL program, whose name ends in ``.json`` or ``.xml``. Every rank proves the plan. The rule
    applies to vectors of more than ``above`` and at most ``up_to`` bytes, without these to any. Vectors are cut so that
    no message is larger than ``message`` bytes. With ``lanes`` only so many of the job's lanes work on them, and with
    ``window`` each lane sends so many bytes ahead (at most 4 MiB) instead of those in :class:`Resources`.
    """

    kind: Collective
    algorithm: str | Path | Plan
    up_to: int | None = None
    message: int = 64 << 10
    above: int = 0
    lanes: int | None = None
    window: int | None = None


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

    def as_dict(self) -> dict[str, int]:
        """Returns the network as data for the core, in whole bytes per second and nanoseconds."""
        far = self.gbps / 2 if self.far_gbps is None else self.far_gbps
        rates = {"gbps": self.gbps, "far_gbps": far}
        for name, value in rates.items():
            if not 0 < value <= MAX_GBPS:
                raise bad_value(
                    "a rate of the network is out of range",
                    f"{name}={value}",
                    allowed=f"above 0, at most {MAX_GBPS:g}",
                )
        times = {"latency_us": self.latency_us, "message_us": self.message_us}
        for name, value in times.items():
            if not 0 <= value <= MAX_US:
                raise bad_value("a time of the network is out of range", f"{name}={value}", allowed=f"0 to {MAX_US:g}")
        if not 0 <= self.buffer < 1 << 63:
            raise bad_value(
                "the buffer of a switch port is out of range", f"buffer={self.buffer}", allowed="at least 0 bytes"
            )
        return {
            "near_bytes_per_s": max(round(self.gbps * 125e6), 1),
            "far_bytes_per_s": max(round(far * 125e6), 1),
            "latency_ns": round(self.latency_us * 1000),
            "message_ns": round(self.message_us * 1000),
            "buffer": self.buffer,
        }


@dataclass(frozen=True, kw_only=True)
class Plans:
    """Selects the plans of a job or a group."""

    rules: Sequence[Rule] = ()
    """The first rule that fits selects the plan of a collective. If none fits, the quickest plan on ``network`` runs.
    """
    network: Network | None = None
    """The network between ranks. Without it, that of the job applies, or the default one."""
    order: Sequence[int] | None = None
    """The ranks in the order in which plans number them: it makes them neighbours in a ring and members of a group. By
    default, the order of their numbers."""
    racks: RackMap | None = None
    """Replaces ``order``: the rack of each rank, as a list, or as a file that lists the ranks of one rack in each line.
    Plans then number the ranks of a rack consecutively, and the plan ``two_level`` uses racks as its groups unless its
    rule gives a group size."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources that a rank uses: threads, memory, CPUs, transports."""

    lanes: int = 1
    """Threads that share the chunks of every vector; each has a connection to every peer."""
    window: int = 512 << 10
    """Bytes that a lane keeps in flight to each peer. It begins another chunk if fewer than two run, or if the largest
    messages of the running chunks add up to less than this. A window of the link's rate times the latency between
    ranks keeps the link busy (25 Gb/s and 100 us: 312 KB). More bytes only wait in the network's queues, and may be
    dropped there."""
    ahead: int = 64 << 20
    """Limit, over all peers, on the bytes of messages that a lane stores because they arrive before it needs them. At
    the limit, it asks the peers to hold further messages."""
    shared_memory: bool = True
    """Whether to share memory with ranks on the same machine. Both ranks must allow it, listen at the same address or
    at loopback addresses, and run as one user in one network namespace. All others connect by TCP."""
    pin: bool = True
    """Whether each lane's thread gets a CPU to itself, if there are enough: each rank on this machine gets an equal
    share of the CPUs that it may use, and leaves one CPU of its share free."""
    congestion: str | None = None
    """TCP's congestion control, such as ``cubic``; by default the system's."""
    poll_s: float = 0.0
    """How long a caller that waits polls before it sleeps, in seconds. Meanwhile it does the work of the lanes itself,
    so small operations need no change of threads, and its CPU is busy. A lane's thread goes on with operations for
    which nobody waits after this time. 0.001 suits small operations; 0 is kind to the processor. Callers do not poll if
    the ranks of this machine outnumber its CPUs."""


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """How long ranks wait, and when a silent rank is at fault."""

    wait_s: float = 60.0
    """Joining fails if not all ranks have joined within this time."""
    deadline_s: float = 300.0
    """An operation, or a message between ranks, fails after this time."""
    interval_s: float = 0.4
    """Interval between heartbeats."""
    silence_s: float = 1.5
    """A rank that is silent for this long is at fault."""

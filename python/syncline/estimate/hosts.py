"""The memory of hosts, to which jobs offload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline import _core
from syncline.input.units import bytes_per_s

if TYPE_CHECKING:
    from syncline.clusters.known import Cluster

CPU_UPDATE = 0.5
"""Part of the peak of a host's memory at which processors update parameters with Adam: an assumption.

DeepSpeed's figure for its vectorised Adam, 8.2 s for 11.6 billion parameters (pull request 735), is 40 GB/s on a host
that it does not name."""


@dataclass(frozen=True)
class Host:
    """The host's memory as each accelerator has it, while all others of the host use it too; None: not known."""

    to_host: float | None = None
    """Rate of copies to the host, in bytes per second."""
    to_device: float | None = None
    """Rate of copies from the host."""
    memory_bytes: float | None = None
    """Memory for each accelerator."""
    memory_bytes_per_s: float | None = None
    """Peak rate of that memory for each accelerator."""

    def changed(self, rate: float | None, memory: float | None, memory_rate: float | None) -> Host:
        """The same with other rates of copies in both directions, memory or rate of memory, where these are given."""
        return Host(
            self.to_host if rate is None else rate,
            self.to_device if rate is None else rate,
            self.memory_bytes if memory is None else memory,
            self.memory_bytes_per_s if memory_rate is None else memory_rate,
        )


UNKNOWN = Host()
"""A host of which nothing is known."""


def host_of(cluster: Cluster | None) -> Host:
    """The host's memory of a cluster, as far as it is known."""
    if cluster is None or cluster.host_memory is None:
        return UNKNOWN
    found = cluster.host_memory
    return Host(
        bytes_per_s(found.to_host),
        bytes_per_s(found.to_device),
        float(_core.parse_quantity("bytes", found.memory)),
        bytes_per_s(found.rate),
    )

"""Clusters as data: accelerators, scale-up domains and networks, each with its source.

The package's list is ``data/clusters.yaml``. Scenarios, estimates and validations all take clusters from it.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from syncline import _core
from syncline.codes import Code
from syncline.input.base import Strict
from syncline.input.check import Whole, collect, in_order
from syncline.input.limits import MAX_MODEL_FILE_BYTES
from syncline.input.problem import error, exception, nearest, raise_errors
from syncline.input.source import Source, read_file
from syncline.input.units import Bytes, Rate, bytes_per_s
from syncline.input.yaml import read
from syncline.models import accelerators
from syncline.models.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.errors import Diagnostic
    from syncline.models.accelerators import Accelerator

FILE = "clusters.yaml"
Count = Annotated[int, Field(ge=1, le=1 << 20)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
Ratio = Annotated[float, Field(ge=0.1, le=1000)]


class ClusterNetwork(Strict):
    """The switches between hosts, in two levels, or in three where two have too few ports."""

    rails: bool = False
    """Whether accelerators of the same number in all hosts are on leaves of their own."""
    group: Count
    """Hosts that share leaves."""
    ports: Count
    """Ports of a switch."""
    oversubscription: Ratio = 1.0
    """What a leaf can receive from hosts, over what it can send up."""
    pod: Count | None = None
    """Hosts of a pod; without it, as many as switches have ports for."""
    pod_oversubscription: Ratio = 1.0
    """What a pod's upper switches can receive from below, over what they can send to other pods."""
    source: Text
    """Where these numbers come from."""


class HostMemory(Strict):
    """The host's memory as each accelerator has it, while all others of the host use it too."""

    link: Text
    """What joins accelerator and host."""
    to_host: Rate
    """Measured rate of copies from an accelerator to the host."""
    to_device: Rate
    """Measured rate of copies from the host to an accelerator."""
    memory: Bytes
    """Memory of the host for each accelerator."""
    rate: Rate
    """Peak rate of that memory for each accelerator."""
    source: Text
    """Where these numbers come from."""


class Cluster(Strict):
    """A cluster."""

    accelerator: Text
    """A name of ``data/accelerators.yaml``; clusters whose accelerator is not there have no estimates."""
    aliases: list[Text] = []  # noqa: RUF012 - pydantic copies it
    """Other names of the cluster."""
    domain: Count
    """Accelerators that scale-up links join."""
    domain_in_use: Count | None = None
    """How many of them a job uses that needs several domains; absent: all."""
    host: Count
    """Accelerators of one server."""
    hosts: Count | None = None
    """Servers of the whole cluster; absent: as many as one likes."""
    scale_up_rate: Rate | None = None
    """Rate of an accelerator's scale-up links together, in one direction; absent: as the data sheet has it."""
    nic_rate: Rate
    """Rate of the network for each accelerator, in one direction."""
    nic: Text
    """The network interfaces."""
    host_memory: HostMemory | None = None
    """The host's memory; absent: not known, or that of the accelerator's commercial servers."""
    network: ClusterNetwork | None = None
    """The switches between hosts; absent: not published. One switch that is never the bottleneck stands for them."""
    memory: Bytes | None = None
    """Memory of an accelerator, where it differs from the data sheet's."""
    memory_rate: Rate | None = None
    """Rate of that memory, where it differs."""
    power_w: Annotated[float, Field(gt=0)] | None = None
    """Power limit of an accelerator, where it is below the data sheet's."""
    sustained: Annotated[float, Field(gt=0, le=2)] | None = None
    """Rate under sustained load, of matrix products of 16 bits and of cuDNN's attention, over that of the measured
    kernels, if it was measured there."""
    source: Text
    """Where these numbers come from."""
    assumed: list[Text] = []  # noqa: RUF012 - pydantic copies it
    """What no source says."""

    @cached_property
    def card(self) -> Accelerator | None:
        """The accelerator; None if the package does not describe it."""
        try:
            return accelerators.find(self.accelerator)
        except ModelError:
            return None

    @property
    def nic_bytes_per_s(self) -> float:
        """Rate of the network for each accelerator, in bytes per second."""
        return bytes_per_s(self.nic_rate)

    @property
    def scale_up_bits_per_s(self) -> int | None:
        """Rate of an accelerator's scale-up links together, in bits per second; None if it is unknown."""
        if self.scale_up_rate is not None:
            return _core.parse_quantity("rate", self.scale_up_rate)
        return None if self.card is None else 8 * self.card.scale_up.bytes_per_s

    @property
    def memory_bytes(self) -> float | None:
        """Memory of an accelerator; None if it is unknown."""
        if self.memory is not None:
            return float(_core.parse_quantity("bytes", self.memory))
        return None if self.card is None else float(self.card.memory_bytes)

    @property
    def memory_bytes_per_s(self) -> float | None:
        """Memory bandwidth of an accelerator; None if it is unknown."""
        if self.memory_rate is not None:
            return bytes_per_s(self.memory_rate)
        return None if self.card is None else float(self.card.memory_bytes_per_s)


def read_clusters(path: str) -> Mapping[str, Cluster]:
    """Reads the clusters of a file such as the package's, by their names and aliases.

    :raises SynclineError: the file cannot be read or is malformed.
    """
    root = read(read_file(path, MAX_MODEL_FILE_BYTES), path)
    found: dict[str, Cluster] = {}
    problems: list[Diagnostic] = []
    if not isinstance(root.value, dict):
        raise_errors(error(Code.BAD_SYNTAX, "the file is not a mapping of clusters", mark=root.mark))
    for name, node in root.value.items():
        made, wrong = collect(Source(node, path), Cluster, Whole(f"cluster `{name}`"))
        problems += wrong
        if made is None:
            continue
        for each in (name, *made.aliases):
            if each in found:
                problems.append(error(Code.BAD_VALUE, "two clusters have the same name", mark=node.mark, found=each))
            found[each] = made
    if problems:
        raise_errors(*in_order(problems))
    return found


@cache
def clusters() -> Mapping[str, Cluster]:
    """The clusters of the package, by their names and aliases."""
    return read_clusters(str(files("syncline") / "data" / FILE))


def find(
    name: str, help: str = "describe your own with `syncline convert`, which reads what a cluster prints"
) -> Cluster:
    """A cluster of the package by a name or an alias, ignoring case; ``help`` is what to do if there is none.

    :raises SynclineError: there is no such cluster.
    """
    known = clusters()
    for each, cluster in known.items():
        if each.lower() == name.lower():
            return cluster
    within = [each for each in known if name and name.lower() in each.lower()]
    raise exception(
        error(
            Code.BAD_VALUE,
            "no such cluster",
            key="cluster",
            found=name,
            allowed=", ".join(known),
            nearest=min(within, key=len, default=None) or nearest(name, known),
            help=help,
        )
    )

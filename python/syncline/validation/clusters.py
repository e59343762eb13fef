"""Machines: what ``clusters.yaml`` of a folder of measured runs describes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from syncline import _core
from syncline.codes import Code
from syncline.input.base import Strict
from syncline.input.check import Whole, collect, in_order
from syncline.input.limits import MAX_MODEL_FILE_BYTES
from syncline.input.problem import error, raise_errors
from syncline.input.source import Source, read_file
from syncline.input.units import Bytes, Rate, bytes_per_s
from syncline.input.yaml import read
from syncline.models import accelerators
from syncline.models.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.errors import Diagnostic
    from syncline.models.accelerators import Accelerator

Count = Annotated[int, Field(ge=1, le=1 << 20)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]


class Cluster(Strict):
    """A machine."""

    accelerator: Text
    """A name of ``data/accelerators.yaml``; the rows of a cluster whose accelerator is not there are not predicted."""
    domain: Count
    """Accelerators that scale-up links join."""
    domain_in_use: Count | None = None
    """How many of them a job uses that needs several domains; absent: all."""
    host: Count
    """Accelerators of one server."""
    nic_rate: Rate
    """Rate of the network for each accelerator, in one direction."""
    nic: Text
    memory: Bytes | None = None
    """Memory of an accelerator, where it differs from the data sheet's."""
    memory_rate: Rate | None = None
    power_w: Annotated[float, Field(gt=0)] | None = None
    """Power limit of an accelerator, where it is below the data sheet's."""
    source: Text
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
    """Reads the clusters of a file such as ``validation/clusters.yaml``.

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
        if made is not None:
            found[name] = made
    if problems:
        raise_errors(*in_order(problems))
    return found

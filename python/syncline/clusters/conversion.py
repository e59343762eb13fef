"""Recognises what a cluster printed, and converts it into a fabric."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from syncline.clusters import infiniband, nccl_topology, network, nodes, simai, slurm, slurm_yaml, smi
from syncline.clusters.printed import Printed
from syncline.input.dump import dump
from syncline.input.problem import raise_errors
from syncline.input.source import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from syncline.clusters.given import Given
    from syncline.clusters.nodes import Made

MAX_BYTES = 256 * 1024 * 1024
"""Largest text."""


@dataclass(frozen=True)
class Kind:
    """A kind of text."""

    name: str
    """What prints it."""
    begins: Callable[[Printed], bool]
    """Whether a text is of this kind."""
    fabric: Callable[[Printed, Given], Made]
    """Its fabric."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "nccl": Kind(
            "NCCL_TOPO_DUMP_FILE",
            lambda printed: nccl_topology.begins(printed.content),
            lambda printed, given: nodes.fabric(nccl_topology.read(printed), given),
        ),
        "infiniband": Kind(
            "ibnetdiscover",
            lambda printed: infiniband.begins(printed.lines),
            lambda printed, given: network.fabric(infiniband.read(printed, given), given),
        ),
        "simai": Kind("SimAI's topologies", lambda printed: simai.begins(printed.lines), simai.fabric),
        "slurm": Kind(
            "Slurm's topology.conf",
            lambda printed: slurm.begins(printed.lines),
            lambda printed, given: network.fabric(slurm.read(printed, given), given),
        ),
        "slurm_yaml": Kind(
            "Slurm's topology.yaml",
            lambda printed: slurm_yaml.begins(printed.lines),
            lambda printed, given: network.fabric(slurm_yaml.read(printed, given), given),
        ),
        "smi": Kind(
            "nvidia-smi topo -m",
            lambda printed: smi.begins(printed.lines),
            lambda printed, given: nodes.fabric(smi.read(printed), given),
        ),
    }
)
"""Texts that can be converted."""


@dataclass(frozen=True)
class Conversion:
    """A fabric in a file."""

    text: str
    """The file: YAML, or JSON."""
    notes: list[str]
    """Sentences: what was read, and what was left out."""


def recognise(path: str, *, yaml: bool = False) -> Printed | None:
    """The text, if a cluster printed it; with ``yaml``, only if it is YAML.

    :raises SynclineError: the file cannot be read.
    """
    printed = Printed(path, read_file(path, MAX_BYTES))
    known = KINDS["slurm_yaml"].begins(printed) if yaml else _kind(printed)
    return printed if known else None


def convert(printed: Printed, given: Given, *, as_json: bool = False) -> Conversion:
    """The file of the fabric that a text describes, for ``fabric: { file: ... }``.

    :raises SynclineError: the text is malformed, or a rate is missing.
    """
    kind = _kind(printed)
    if kind is None:
        raise_errors(
            printed.wrong("not a text that a cluster prints", allowed=", ".join(each.name for each in KINDS.values()))
        )
    made = kind.fabric(printed, given)
    given.refuse_unused()
    content = json.dumps(made.fabric, indent=1) + "\n" if as_json else dump(made.fabric)
    return Conversion(content, made.notes)


def _kind(printed: Printed) -> Kind | None:
    return next((kind for kind in KINDS.values() if kind.begins(printed)), None)

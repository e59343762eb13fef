"""Clusters for estimates: kernels and NCCL of an accelerator, and the network between NVLink domains."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from syncline.clusters.known import find
from syncline.codes import Code
from syncline.input.problem import error, exception, nearest
from syncline.models import accelerators
from syncline.nccl import load as load_nccl
from syncline.nccl.machine import to_core

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.clusters.known import Cluster

_KERNELS = files("syncline") / "data" / "kernels"


@dataclass(frozen=True)
class Measured:
    """What was measured on an accelerator."""

    kernels: str
    """The file of kernel models, which is named after the accelerator whose kernels were measured."""
    nccl: str
    """The machine of NCCL."""
    cluster: str
    """The cluster, by its name in ``data/clusters.yaml``, whose servers are those that are sold."""
    sustained: float = 1.0
    """Rate of matrix products of 16 bits under lasting load, at the clock that the power allows then, over that of the
    measured kernels, which ran in short bursts."""


MEASURED: Mapping[str, Measured] = {
    "A100-SXM4-40GB": Measured("A100-SXM4-80GB", "a100-sxm", "dgx-a100"),
    "A100-SXM4-80GB": Measured("A100-SXM4-80GB", "a100-sxm", "dgx-a100"),
    "H100-SXM5-80GB": Measured("H100-SXM5-80GB", "h100-sxm", "dgx-h100", 0.92),
    "H200-SXM-141GB": Measured("H100-SXM5-80GB", "h200-sxm", "dgx-h200", 0.964),
    "B200-SXM-180GB": Measured("B200-SXM-180GB", "b200-sxm", "dgx-b200", 0.92),
    "GB200-NVL72": Measured("B200-SXM-180GB", "gb200", "gb200-nvl72", 0.92),
}
"""Accelerators that estimates can be made for. An H200 has the kernels of an H100 with faster memory, and a GB200 those
of a B200.

`sustained` of H100 and H200 was measured with PyTorch 2.11 and CUDA 13.0 (SXM, 700 W). That of B200 and GB200 is
assumed: as an H100. An A100 throttles little: its measured kernels already hold it."""


@dataclass(frozen=True)
class Machine:
    """A cluster of one kind of accelerator."""

    accelerator: str
    """Its name, as in :data:`MEASURED`."""
    domain: int
    """Accelerators that NVLink joins."""
    nic_bytes_per_s: float
    """Rate of the network for each accelerator, in bytes per second."""
    memory_bytes: float
    """Memory of an accelerator, in bytes."""
    memory_bytes_per_s: float
    """Rate of that memory, in bytes per second."""
    used: int | None = None
    """How many accelerators of a domain jobs use that need several; without it, all."""
    sustained: float | None = None
    """Rate of matrix products under lasting load, if it was measured on this cluster; else that of :data:`MEASURED`."""

    def texts(self) -> tuple[str, str, float, str]:
        """Text and name of the file of kernel models, the ratio of memory rates, and NCCL's machine: for the core."""
        name = MEASURED[self.accelerator].kernels
        ratio = self.memory_bytes_per_s / accelerators.find(name).memory_bytes_per_s
        return _kernels(name), f"{name}.json", round(ratio, 3), self._nccl()

    def cluster(self) -> str:
        """The cluster for the core."""
        sustained = MEASURED[self.accelerator].sustained if self.sustained is None else self.sustained
        return json.dumps({"domain": self.used or self.domain, "sustained": sustained})

    def _nccl(self) -> str:
        """NCCL's constants within a domain, and this cluster's network."""
        machine = to_core(load_nccl(MEASURED[self.accelerator].nccl).content)
        own = {"gpus": self.domain, "nics": self.domain, "nic_rate": self.nic_bytes_per_s}
        return json.dumps({**machine, "network": {**machine["network"], **own}})


def machine(accelerator: str, *, nic_bytes_per_s: float | None = None, domain: int | None = None) -> Machine:
    """A cluster as it is sold, of an accelerator by any of its names, ignoring case.

    :raises SynclineError: no kernels of the accelerator were measured.
    """
    name = known(accelerator)
    sold, card = find(MEASURED[name].cluster), accelerators.find(name)
    return Machine(
        name,
        domain or sold.domain,
        sold.nic_bytes_per_s if nic_bytes_per_s is None else nic_bytes_per_s,
        card.memory_bytes,
        card.memory_bytes_per_s,
    )


def of_cluster(cluster: Cluster) -> Machine:
    """The machine of a known cluster.

    :raises SynclineError: no kernels of its accelerator were measured.
    """
    name = known(cluster.accelerator)
    card = accelerators.find(name)
    return Machine(
        name,
        cluster.domain,
        cluster.nic_bytes_per_s,
        cluster.memory_bytes or card.memory_bytes,
        cluster.memory_bytes_per_s or card.memory_bytes_per_s,
        cluster.domain_in_use,
        cluster.sustained,
    )


def known(accelerator: str) -> str:
    """The name of an accelerator in :data:`MEASURED`, by any of its names, ignoring case.

    :raises SynclineError: no kernels of the accelerator were measured.
    """
    for name in MEASURED:
        if accelerator.lower() in (each.lower() for each in (name, *accelerators.find(name).aliases)):
            return name
    names = [*MEASURED, *(alias for name in MEASURED for alias in accelerators.find(name).aliases)]
    raise exception(
        error(
            Code.BAD_VALUE,
            "no kernels of this accelerator were measured",
            key="accelerator",
            found=accelerator,
            allowed=", ".join(MEASURED),
            nearest=nearest(accelerator, names),
        )
    )


@cache
def _kernels(name: str) -> str:
    return (_KERNELS / f"{name}.json").read_text("utf-8")

"""Clusters for estimates: kernels and NCCL of an accelerator, and the network between NVLink domains."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from syncline import _core
from syncline.clusters.known import find
from syncline.codes import Code
from syncline.input.arguments import Arguments
from syncline.input.problem import error, exception, nearest
from syncline.input.units import bytes_per_s
from syncline.kernels.models import load as load_models
from syncline.kernels.models import names as _kernel_names
from syncline.models import ModelError, accelerators
from syncline.nccl import Machine as NcclMachine
from syncline.nccl import experts
from syncline.nccl import load as load_nccl
from syncline.nccl import names as nccl_names
from syncline.nccl.machine import to_core
from syncline.nccl.token_kernels import published

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.clusters.known import Cluster
    from syncline.kernels.models import KernelModels


@dataclass(frozen=True)
class Measured:
    """What was measured on an accelerator."""

    kernels: str
    """The file of kernel models: that of the accelerator whose kernels were measured, or one that follows from it."""
    nccl: str
    """The machine of NCCL."""
    cluster: str
    """The cluster, by its name in ``data/clusters.yaml``, of the commercial servers."""
    experts: str | None = None
    """Dedicated kernels that send tokens to experts: the machine with which DeepEP was measured, of
    :func:`syncline.nccl.experts.names`, or published ones, of :func:`syncline.nccl.token_kernels.published`."""
    sustained: float = 1.0
    """Rate of matrix products of 16 bits under lasting load, at the clock that the power allows then, over that of the
    measured kernels, which ran in short bursts."""
    low_precision_sustained: float = 1.0
    """The same for products of 8 and 4 bits, over that of an H100, whose loss under load is part of the constant
    ``low_precision_products`` of each framework."""
    fp8_sides: int = 2
    """Copies of weights in 8 bits that products need: 2 where tensor cores multiply such operands along rows alone."""


GB300_CLOCK = 1.22
"""Rate of products in jobs on GB300 over what constants of H100 and kernels of a B200 give.

Fitted to the rows of ``validation/runs.csv`` with ``gb300`` in ``calibrates``: Llama 3 70B in 8 bits, dense. On the
same mesh and release it takes 0.81 times as long as on GB200. Boards of 1,400 W need not lower their clock as those of
1,000 and 700 W do, of which the kernels and the constants are."""


MEASURED: Mapping[str, Measured] = {
    "A100-SXM4-40GB": Measured("A100-SXM4-80GB", "a100-sxm", "dgx-a100"),
    "A100-SXM4-80GB": Measured("A100-SXM4-80GB", "a100-sxm", "dgx-a100"),
    "H100-SXM5-80GB": Measured("H100-SXM5-80GB", "h100-sxm", "dgx-h100", "h100-sxm", 0.92),
    "H200-SXM-141GB": Measured("H100-SXM5-80GB", "h200-sxm", "dgx-h200", "h200-sxm", 0.964),
    "B200-SXM-180GB": Measured("B200-SXM-180GB", "b200-sxm", "dgx-b200", "hybridep", 0.92, fp8_sides=1),
    "GB200-NVL72": Measured("B200-SXM-180GB", "gb200", "gb200-nvl72", "hybridep", 0.92, fp8_sides=1),
    "B300-SXM-270GB": Measured("B300-SXM-270GB", "b300-sxm", "dgx-b300", "hybridep", 0.92, fp8_sides=1),
    "GB300-NVL72": Measured(
        "GB300-NVL72", "gb300", "gb300-nvl72", "hybridep", 0.92 * GB300_CLOCK, GB300_CLOCK, fp8_sides=1
    ),
    "H800-SXM5-80GB": Measured("H800-SXM5-80GB", "h800-sxm", "hgx-h800", "deepep-h800", 0.92),
    "H20-SXM5-96GB": Measured("H20-SXM5-96GB", "h100-sxm", "hgx-h20", "h100-sxm"),
}
"""Accelerators that estimates can be made for. An H200 has the kernels of an H100 with faster memory, and a GB200 those
of a B200; those of B300, GB300, H800 and H20 follow from a B200 or an H100 (:mod:`syncline.kernels.derived`).

`fp8_sides` follows from compute capabilities: 2 below 10 (``is_non_tn_fp8_gemm_supported`` of Transformer Engine).

`sustained` of H100 and H200 was measured with PyTorch 2.11 and CUDA 13.0 (SXM, 700 W). That of B200, GB200, B300 and
H800 is assumed: as an H100. That of a GB300 is :data:`GB300_CLOCK` times as much. An H20 draws too little power to
throttle. An A100 throttles little: its measured kernels already hold it."""


CPU_UPDATE = 0.5
"""Part of the peak of a host's memory at which processors update parameters with Adam: an assumption.

DeepSpeed's figure for its vectorised Adam, 8.2 s for 11.6 billion parameters (pull request 735), is 40 GB/s on a host
that it does not name."""


PHASES: tuple[experts.Phase, ...] = get_args(experts.Phase)


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


@dataclass(frozen=True)
class Own:
    """What was measured on an accelerator by a user."""

    file: str
    """The file of kernel models."""
    models: KernelModels
    """The models in it."""


@dataclass(frozen=True)
class Machine:
    """A cluster of one kind of accelerator.

    :raises SynclineError: a number is none, or none that a cluster has.
    """

    accelerator: str
    """Its name, as in :data:`MEASURED`, or that of a file of kernel models."""
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
    nccl: str | None = None
    """A machine of NCCL, or the file of one; without it, that of :data:`MEASURED`."""
    own: Own | None = None
    """Kernel models of a file; without it, those of :data:`MEASURED`."""
    host: Host = Host()
    """The host's memory."""

    def __post_init__(self) -> None:
        """Checks the numbers."""
        with Arguments() as check:
            if self.own is None:
                check.word("accelerator", self.accelerator, MEASURED)
            check.whole("domain", self.domain, most=100_000)
            check.number("nic_bytes_per_s", self.nic_bytes_per_s, most=1e15)
            check.number("memory_bytes", self.memory_bytes, most=1e18)
            check.number("memory_bytes_per_s", self.memory_bytes_per_s, most=1e18)
            if self.used is not None:
                check.whole("used", self.used, most=100_000)
            if self.sustained is not None:
                check.number("sustained", self.sustained, most=10)

    @property
    def card(self) -> accelerators.Accelerator | None:
        """The data sheet of the accelerator; None if it is not known."""
        return _card(self.accelerator)

    @property
    def derived(self) -> str | None:
        """That kernels follow from those of another accelerator, as a sentence; None if they were measured."""
        if self.own is not None or self.accelerator not in _kernel_names():
            return None
        origin = load_models(self.accelerator).derived_from
        if origin is None:
            return None
        return f"No kernel of {self.accelerator} was measured; times follow from those of {origin} by data sheets."

    @property
    def precisions(self) -> list[str]:
        """Data types that linear layers may have: those of the tensor cores, as far as their kernels were measured."""
        card = _card(self.accelerator)
        # Products of fp16 take the time of those of bf16.
        able = None if card is None else [each for each in card.precisions if each != "fp16"]
        if self.own is None:
            return able or []
        types = set(self.own.models.gemm_types)
        # Those of MXFP8 take the time of those of fp8.
        measured: list[str] = [*(each for each in ("bf16", "fp8", "nvfp4") if each in types)]
        if able is None:
            return measured
        return [each for each in able if ("fp8" if each == "mxfp8" else each) in measured]

    @property
    def peak_flop_per_s(self) -> float | None:
        """Peak FLOP per second in bf16 by the data sheet; None if that is not known."""
        card = _card(self.accelerator)
        return None if card is None else card.peak_flop_per_s["bf16"]

    def texts(self) -> tuple[str, str, float, str]:
        """Text and name of the file of kernel models, the ratio of memory rates, and NCCL's machine: for the core."""
        if self.own is not None:
            return self.own.models.text, self.own.file, self.own.models.memory_ratio, self._nccl()
        name = MEASURED[self.accelerator].kernels
        models = load_models(name)
        ratio = models.memory_ratio * self.memory_bytes_per_s / accelerators.find(name).memory_bytes_per_s
        return models.text, f"{name}.json", round(ratio, 3), self._nccl()

    def cluster(self) -> str:
        """The cluster for the core."""
        measured = MEASURED.get(self.accelerator)
        sold = 1.0 if measured is None else measured.sustained
        sustained = sold if self.sustained is None else self.sustained
        low_precision = 1.0 if measured is None else measured.low_precision_sustained
        host = None
        if self.host.to_host is not None and self.host.to_device is not None:
            update = CPU_UPDATE * (self.host.memory_bytes_per_s or 0.0)
            host = {"to_host": self.host.to_host, "to_device": self.host.to_device, "update": update}
        return json.dumps(
            {
                "domain": self.used or self.domain,
                "sustained": sustained,
                "low_precision_sustained": low_precision,
                "host": host,
                "token_kernels": self._token_kernels(),
                "fp8_sides": 2 if measured is None else measured.fp8_sides,
            }
        )

    def _token_kernels(self) -> dict[str, Any] | None:
        """Kernels that send tokens to experts, for the core; None: not measured."""
        measured = MEASURED.get(self.accelerator)
        if self.own is not None or measured is None or measured.experts is None:
            return None
        known = published()
        others = known.kernels.get(measured.experts)
        one_way: dict[str, dict[str, float]] = {
            phase: experts.exchange(measured.experts, "normal", phase).to_other_gpus()
            if others is None
            else getattr(others, phase).constants()
            for phase in PHASES
        }
        rate = known.network.part * self.nic_bytes_per_s
        multiprocessors = load_models(measured.kernels).document["multiprocessors"]
        return {**one_way, "network_rate": rate, "multiprocessors": multiprocessors}

    @property
    def nccl_name(self) -> str:
        """The machine of NCCL, by its name, or its file."""
        return self.nccl or MEASURED[self.accelerator].nccl

    @property
    def nccl_machine(self) -> NcclMachine:
        """NCCL within a domain, and on this cluster's network."""
        content = load_nccl(self.nccl_name).content
        if content.network is None:
            return NcclMachine(content)
        rate = f"{round(self.nic_bytes_per_s)}B/s"
        own = {"gpus": self.domain, "nics": self.domain, "nic_rate": rate}
        return NcclMachine(content.model_copy(update={"network": content.network.model_copy(update=own)}))

    def check_network(self, ranks: int) -> None:
        """Checks that NCCL was measured between NVLink domains, if a job of this many ranks spans several.

        :raises SynclineError: it has none.
        """
        inside = self.used or self.domain
        if ranks <= inside or self.nccl_machine.content.network is not None:
            return
        able = [name for name in nccl_names() if load_nccl(name).content.network is not None]
        raise exception(
            error(
                Code.BAD_VALUE,
                f"the machine of NCCL was measured in one node, and {ranks:,} accelerators need several",
                key="nccl",
                found=self.nccl_name,
                allowed=", ".join(able),
                help=f"name one of these, use {inside:,} accelerators or fewer, or calibrate the network too: let "
                "`syncline calibrate` read times of several nodes, with --nics and --nic-rate",
            )
        )

    def _nccl(self) -> str:
        return json.dumps(to_core(self.nccl_machine.content))


def machine(
    accelerator: str,
    *,
    nic_bytes_per_s: float | None = None,
    domain: int | None = None,
    memory_bytes: float | None = None,
    nccl: str | None = None,
    host_bytes_per_s: float | None = None,
    host_memory_bytes: float | None = None,
    host_memory_bytes_per_s: float | None = None,
) -> Machine:
    """A cluster as it is sold, of an accelerator by any of its names, ignoring case; or of one that you measured.

    :param accelerator: a name such as ``H100``, or a file of models by ``syncline kernels fit``, which ends in .json.
    :param nic_bytes_per_s: rate of the network for each accelerator, in bytes per second.
    :param domain: accelerators that NVLink, or whatever is as fast, joins.
    :param memory_bytes: memory of an accelerator.
    :param nccl: a machine of :func:`syncline.nccl.names`, or a file of ``syncline calibrate``, which ends in .yaml.
    :param host_bytes_per_s: rate of copies between an accelerator and its host, in each direction.
    :param host_memory_bytes: memory of the host for each accelerator.
    :param host_memory_bytes_per_s: peak rate of that memory for each accelerator.
    :raises SynclineError: no kernels of the accelerator were measured; a number is none that a cluster has; or neither
        the arguments nor the accelerator's name or file say one of them.
    """
    own = None
    if isinstance(accelerator, str) and accelerator.endswith(".json"):
        own = Own(accelerator, load_models(accelerator))
        name = own.models.accelerator
    else:
        name = known(accelerator)
    if nccl is not None:
        with Arguments() as check:
            check.instance("nccl", nccl, str, "a name of a machine, or a file that ends in .yaml")
        load_nccl(nccl)
    with Arguments() as check:
        given = {
            "host_bytes_per_s": host_bytes_per_s,
            "host_memory_bytes": host_memory_bytes,
            "host_memory_bytes_per_s": host_memory_bytes_per_s,
        }
        for key, value in given.items():
            if value is not None:
                check.number(key, value, most=1e18)
    measured, card = MEASURED.get(name), _card(name)
    sold = None if measured is None else find(measured.cluster)
    size = None if own is None else own.models.document.get("memory_bytes")
    found = {
        "domain": domain if domain is not None or sold is None else sold.domain,
        "nic_bytes_per_s": nic_bytes_per_s if nic_bytes_per_s is not None or sold is None else sold.nic_bytes_per_s,
        "memory_bytes": memory_bytes if memory_bytes is not None else size if card is None else card.memory_bytes,
        "nccl": nccl if nccl is not None or measured is None else measured.nccl,
    }
    if missing := [key for key, value in found.items() if value is None]:
        _raise_missing(name, missing)
    # The models of a file hold the rate of its memory.
    rate = card.memory_bytes_per_s if card is not None else 1.0
    host = _host(sold).changed(host_bytes_per_s, host_memory_bytes, host_memory_bytes_per_s)
    return Machine(name, memory_bytes_per_s=rate, own=own, host=host, **found)  # type: ignore[arg-type]


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
        host=_host(cluster if cluster.host_memory else find(MEASURED[name].cluster)),
    )


def _host(cluster: Cluster | None) -> Host:
    """The host's memory of a cluster, as far as it is known."""
    if cluster is None or cluster.host_memory is None:
        return Host()
    found = cluster.host_memory
    return Host(
        bytes_per_s(found.to_host),
        bytes_per_s(found.to_device),
        float(_core.parse_quantity("bytes", found.memory)),
        bytes_per_s(found.rate),
    )


_OPTIONS = {"domain": "--domain", "nic_bytes_per_s": "--nic-rate", "memory_bytes": "--memory", "nccl": "--nccl"}
"""Options of commands by the arguments of :func:`machine`."""


def _raise_missing(name: str, missing: list[str]) -> NoReturn:
    meanings = {
        "domain": "how many accelerators NVLink, or whatever is as fast, joins",
        "nic_bytes_per_s": "the rate of the network for each accelerator",
        "memory_bytes": "the memory of an accelerator",
        "nccl": "a machine for the times of NCCL, or a file of `syncline calibrate`",
    }
    raise exception(
        *(
            error(
                Code.MISSING_KEY,
                f"nothing says {meanings[key]}",
                key=key,
                found=name,
                help=f"give it as {key}, or on the command line as {_OPTIONS[key]}",
            )
            for key in missing
        )
    )


def _card(name: str) -> accelerators.Accelerator | None:
    """The data sheet of an accelerator; None if it is not known."""
    try:
        return accelerators.find(name)
    except ModelError:
        return None


def known(accelerator: str) -> str:
    """The name of an accelerator in :data:`MEASURED`, by any of its names, ignoring case.

    :raises SynclineError: no kernels of the accelerator were measured.
    """
    with Arguments() as check:
        check.instance("accelerator", accelerator, str, "a name such as H100")
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
            help="name one of these, or a .json file of `syncline kernels fit`",
        )
    )

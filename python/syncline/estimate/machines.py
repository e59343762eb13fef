"""Clusters for estimates: kernels and NCCL of an accelerator, and the network between NVLink domains."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from syncline.clusters.known import find
from syncline.codes import Code
from syncline.estimate.hosts import CPU_UPDATE, UNKNOWN, Host, host_of
from syncline.estimate.measured import MEASURED, data_sheet, known
from syncline.input.arguments import Arguments
from syncline.input.problem import error, exception
from syncline.kernels.models import load as load_models
from syncline.kernels.models import names as _kernel_names
from syncline.models import accelerators
from syncline.nccl import Machine as NcclMachine
from syncline.nccl import experts
from syncline.nccl import load as load_nccl
from syncline.nccl import names as nccl_names
from syncline.nccl.generations import generation
from syncline.nccl.machine import to_core
from syncline.nccl.token_kernels import published

if TYPE_CHECKING:
    from syncline.clusters.known import Cluster
    from syncline.kernels.models import KernelModels


PHASES: tuple[experts.Phase, ...] = get_args(experts.Phase)


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
    """Rate under sustained load, if it was measured on this cluster; else that of :data:`MEASURED`."""
    nccl: str | None = None
    """A machine of NCCL, or the file of one; without it, that of :data:`MEASURED`."""
    own: Own | None = None
    """Kernel models of a file; without it, those of :data:`MEASURED`."""
    host: Host = UNKNOWN
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
        return data_sheet(self.accelerator)

    @property
    def derived(self) -> str | None:
        """That kernels follow from those of another accelerator, as a sentence; None if they were measured."""
        if self.own is not None or self.accelerator not in _kernel_names():
            return None
        origin = load_models(self.accelerator).derived_from
        if origin is None:
            return None
        return f"Times of kernels of {self.accelerator} follow from those measured on {origin}, by data sheets."

    @property
    def precisions(self) -> list[str]:
        """Data types that linear layers may have: those of the tensor cores, as far as their kernels were measured."""
        card = data_sheet(self.accelerator)
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
        card = data_sheet(self.accelerator)
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
        clock = 1.0 if measured is None or self.own is not None else measured.clock
        copies = None if measured is None else measured.fp8_weight_copies
        host = None
        if self.host.to_host is not None and self.host.to_device is not None:
            update = CPU_UPDATE * (self.host.memory_bytes_per_s or 0.0)
            host = {"to_host": self.host.to_host, "to_device": self.host.to_device, "update": update}
        return json.dumps(
            {
                "domain": self.used or self.domain,
                "sustained": sustained,
                "clock": clock,
                "host": host,
                "token_kernels": self._token_kernels(),
                **({} if copies is None else {"fp8_weight_copies": copies}),
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
    def own_kernels(self) -> str | None:
        """The file of a user's own kernel models; None if those of the package count."""
        return None if self.own is None else self.own.file

    @property
    def chosen_nccl(self) -> bool:
        """Whether the machine of NCCL is another one than that of the accelerator."""
        measured = MEASURED.get(self.accelerator)
        return self.nccl is not None and (measured is None or self.nccl != measured.nccl)

    def calibrated(self, ranks: int) -> str:
        """By what, when and with which errors times of collectives are calibrated, in a job of this many ranks."""
        return self.nccl_machine.calibrated(several=ranks > (self.used or self.domain))

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
        _check_attention(own)
        name = own.models.accelerator
    else:
        name = known(accelerator)
    if nccl is not None:
        with Arguments() as check:
            check.instance("nccl", nccl, str, "a name of a machine, or a file that ends in .yaml")
        check_nccl(name, nccl)
    with Arguments() as check:
        given = {
            "host_bytes_per_s": host_bytes_per_s,
            "host_memory_bytes": host_memory_bytes,
            "host_memory_bytes_per_s": host_memory_bytes_per_s,
        }
        for key, value in given.items():
            if value is not None:
                check.number(key, value, most=1e18)
    measured, card = MEASURED.get(name), data_sheet(name)
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
    host = host_of(sold).changed(host_bytes_per_s, host_memory_bytes, host_memory_bytes_per_s)
    return Machine(name, memory_bytes_per_s=rate, own=own, host=host, **found)  # type: ignore[arg-type]


def _check_attention(own: Own) -> None:
    """Checks that models of a file are enough for a job.

    :raises SynclineError: they lack attention.
    """
    if "bf16" in own.models.attention_types:
        return
    from syncline.kernels.fitting.document import FEWEST_ROWS

    raise exception(
        error(
            Code.BAD_VALUE,
            "the file has no model of attention in bf16, which jobs need",
            key="accelerator",
            found=own.file,
            help=f"measure attention, too, and fit again: `syncline kernels fit` needs {FEWEST_ROWS} forward passes",
        )
    )


def check_nccl(accelerator: str, nccl: str) -> None:
    """Checks that a machine of NCCL has accelerators like this one.

    :raises SynclineError: it has those of another generation, or there is no such machine.
    """
    gpu = load_nccl(nccl).content.gpu
    own, other = generation(accelerator), generation(gpu)
    if None in (own, other) or own == other:
        return
    alike = [each for each in nccl_names() if generation(load_nccl(each).content.gpu) == own]
    raise exception(
        error(
            Code.BAD_VALUE,
            f"a machine of NCCL with other GPUs than {accelerator}",
            key="nccl",
            found=f"{nccl} ({gpu})",
            allowed=", ".join(alike) or f"a file that `syncline calibrate` wrote on {accelerator}",
            help="name a machine with GPUs of the same generation, or calibrate your own",
        )
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
        host=host_of(cluster if cluster.host_memory else find(MEASURED[name].cluster)),
    )


_OPTIONS = {"domain": "--domain", "nic_bytes_per_s": "--nic-rate", "memory_bytes": "--memory", "nccl": "--nccl"}
"""Options of commands by the arguments of :func:`machine`."""


def _raise_missing(name: str, missing: list[str]) -> NoReturn:
    meanings = {
        "domain": "the number of accelerators in a domain of NVLink, or of links as fast",
        "nic_bytes_per_s": "the rate of the network for each accelerator",
        "memory_bytes": "the memory of an accelerator",
        "nccl": "a machine for the times of NCCL, or a file of `syncline calibrate`",
    }
    raise exception(
        *(
            error(
                Code.MISSING_KEY,
                f"missing: {meanings[key]}",
                key=key,
                found=name,
                help=f"give it as {key}, or on the command line as {_OPTIONS[key]}",
            )
            for key in missing
        )
    )

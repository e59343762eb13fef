"""Files of machines: constants of each operation in a node and of the network between nodes, with their sources."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from syncline import _core
from syncline.files import write_whole
from syncline.input import yaml
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.dump import dump
from syncline.input.problem import bad_value, cannot_write, nearest, raise_errors
from syncline.input.source import Source, from_file
from syncline.input.units import Bytes, Rate, Time, bytes_per_s
from syncline.nccl.not_machines import remedy
from syncline.schemas import NCCL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_Count = Annotated[int, Field(ge=1, le=1_000_000)]
_Fraction = Annotated[float, Field(ge=0)]


class Errors(Strict):
    """How far estimates are from measured times: ``|estimated / measured - 1|``."""

    rows: Annotated[int, Field(ge=1)]
    """Measured times."""
    median: _Fraction
    """Median error."""
    p90: _Fraction
    """90th percentile."""
    largest: _Fraction
    """Largest error."""


class LowLatency(Strict):
    """Constants of the protocol LL."""

    hop: Time
    """Latency of a hop."""
    rate: Rate
    """Rate at which a GPU passes the bytes of a call; for all-to-all, those of one peer."""


class LowLatency128(Strict):
    """Constants of the protocol LL128."""

    hop: Time
    """Latency of a hop that no transfer hides."""
    pace: Time = "0us"
    """Shortest time between two hops of a piece of data."""
    rate: Rate
    """Rate at which a GPU passes the bytes of a call."""
    all_channels_from: Bytes
    """Size from which a call uses all channels; the transfer of smaller calls takes as long as that of this one."""
    narrow_rate: Rate | None = None
    """Rate of the additional work for elements of 1 byte, if they are summed."""


class Simple(Strict):
    """Constants of the protocol Simple."""

    launch: Time
    """Time that depends on neither bytes nor hops."""
    hop: Time
    """Cost of sending a piece of data over a hop."""
    pace: Time
    """Shortest time between two hops of a piece of data."""
    local_rate: Rate
    """Rate at which a GPU copies or sums the bytes of a call."""
    bus_rate: Rate
    """Rate of the links."""
    narrow_rate: Rate | None = None
    """Rate of the additional work for elements of 1 byte, if they are summed."""


class SimpleFrom(Strict):
    """Where NCCL changes to the protocol Simple: at ``gpus * bytes_per_gpu * (1 + launch_hops / hops)``."""

    bytes_per_gpu: Bytes
    """Bytes for each GPU."""
    launch_hops: Annotated[float, Field(ge=0)] = 0.0
    """Hops that take as long as the difference of the launches of both protocols."""


class Nvls(Strict):
    """Constants of NVLink SHARP."""

    latency: Time
    """Time that does not depend on bytes."""
    rate: Rate
    """Rate of the links of a GPU."""
    from_: Annotated[Bytes, Field(alias="from")]
    """Size from which NCCL uses it."""
    gpus: _Count
    """Smallest number of GPUs that use it."""


class InNode(Strict):
    """Constants of one operation among the GPUs of a node."""

    launch: Time
    """Time of the low-latency protocols that depends on neither bytes nor hops."""
    ll: LowLatency
    """The protocol LL."""
    ll128: LowLatency128
    """The protocol LL128."""
    simple: Simple
    """The protocol Simple."""
    simple_from: SimpleFrom
    """Where NCCL changes to Simple."""
    nvls: Nvls | None = None
    """NVLink SHARP, where it is used."""
    gpus: list[_Count] = Field(default_factory=list)
    """Numbers of GPUs that were measured."""
    sizes: list[Bytes] = Field(default_factory=list)
    """The smallest and the largest size that was measured."""
    errors: Errors | None = None
    """Errors of these constants on the times that they were calibrated with."""


class Hops(Strict):
    """Latency of a hop between nodes, by protocol; none for a protocol that the network does not use."""

    ll: Time | None = None
    """The protocol LL."""
    ll128: Time | None = None
    """The protocol LL128."""
    simple: Time | None = None
    """The protocol Simple."""


class Network(Strict):
    """The network between nodes."""

    gpus: _Count
    """GPUs of a node."""
    nics: _Count
    """Network interfaces of a node."""
    nic_rate: Rate
    """Rate of one interface."""
    efficiency: Annotated[float, Field(gt=0, le=1)]
    """Part of that rate that NCCL reaches."""
    hop: Hops
    """Latency of a hop."""
    source: str = ""
    """Where these constants come from: what is measured, and what is assumed."""
    errors: Errors | None = None
    """Errors of these constants on the times that they were calibrated with."""


class Operations(Strict):
    """Constants in a node, by operation."""

    all_reduce: InNode | None = None
    all_gather: InNode | None = None
    reduce_scatter: InNode | None = None
    all_to_all: InNode | None = None
    broadcast: InNode | None = None
    send_recv: InNode | None = None


class MachineFile(Strict):
    """A file of a machine."""

    schema_: Annotated[Literal["syncline-nccl/1"], Field(alias="schema")] = NCCL
    """Version of the schema."""
    name: str = ""
    """Name of the machine."""
    gpu: str = ""
    """The accelerator."""
    software: str = ""
    """Library and version."""
    date: str = ""
    """Day of the calibration, such as 2026-11-28."""
    source: list[str] = Field(default_factory=list)
    """Where the measured times come from."""
    in_node: Operations
    """Constants in a node, by operation."""
    network: Network | None = None
    """The network between nodes."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time of a collective, and why."""

    algorithm: str
    """The algorithm that NCCL chooses, such as ``ring``."""
    protocol: str
    """The protocol that NCCL chooses, such as ``LL128``."""
    launch_s: float
    """What depends on neither bytes nor hops, seconds."""
    latency_s: float
    """What grows with hops, seconds."""
    transfer_s: float
    """What grows with bytes, seconds."""

    @property
    def seconds(self) -> float:
        """The time, seconds."""
        return self.launch_s + self.latency_s + self.transfer_s


class Machine:
    """A machine whose collectives have times."""

    def __init__(self, content: MachineFile) -> None:
        self.content = content
        self._core = json.dumps(to_core(content))

    @property
    def name(self) -> str:
        """Name of the machine."""
        return self.content.name

    def calibrated(self, *, several: bool) -> str:
        """By what, when and with which errors times are calibrated, in the words of a run's summary.

        ``several`` says whether collectives span nodes.
        """
        content = self.content
        known = ", ".join(each for each in (content.software, content.date) if each)
        said = f"collectives by {content.name}{f' ({known})' if known else ''}"
        errors = [each.errors for _, each in content.in_node if each is not None and each.errors is not None]
        if errors:
            said += f"; errors in a node {_range(errors)}"
        if several:
            network = None if content.network is None else content.network.errors
            said += "; between nodes not measured" if network is None else f"; between nodes {_range([network])}"
        return said

    def time(
        self,
        operation: str,
        nbytes: int,
        *,
        gpus_per_node: int,
        nodes: int = 1,
        element_bytes: int = 2,
        concurrent: int = 1,
    ) -> Prediction | None:
        """The time of one collective; None if the machine has no constants for it.

        ``nbytes`` counts the vector of an all-reduce, broadcast or reduce-scatter, the gathered vector of an
        all-gather, and what one GPU sends in an all-to-all. ``concurrent`` groups of this shape share the network
        interfaces.
        """
        return self.times(operation, [(nbytes, element_bytes, gpus_per_node, nodes, concurrent)])[0]

    def times(self, operation: str, calls: Iterable[tuple[int, int, int, int, int]]) -> list[Prediction | None]:
        """The times of several calls: ``(nbytes, element_bytes, gpus_per_node, nodes, concurrent)``."""
        if operation not in (known := _core.nccl_operations()):
            raise bad_value("unknown operation", operation, allowed=", ".join(known), nearest=nearest(operation, known))
        found = _core.nccl_times(self._core, operation, list(calls))
        return [None if each is None else Prediction(*each) for each in found]

    def save(self, path: str | Path) -> None:
        """Writes the machine to a file.

        :raises SynclineError: the file cannot be written.
        """
        content = self.content.model_dump(by_alias=True, exclude_none=True)
        try:
            write_whole(path, dump({"schema": NCCL, **{key: each for key, each in content.items() if each}}))
        except OSError as problem:
            raise_errors(cannot_write(path, problem))


def names() -> list[str]:
    """Names of the machines that come with the package."""
    return sorted(_packaged())


def load(name: str) -> Machine:
    """A machine of the package by its name, or the machine of a file.

    :raises SynclineError: there is no such machine, or the file is malformed.
    """
    packaged = _packaged()
    if name in packaged:
        return Machine(_read(Source(yaml.read(packaged[name], f"{name}.yaml"), f"{name}.yaml")))
    if not name.endswith((".yaml", ".yml")):
        help = remedy(name)
        raise bad_value(
            "unknown machine" if help is None else "not a machine, but an algorithm or a library",
            name,
            allowed=f"{', '.join(packaged)}, or a file that ends in .yaml",
            nearest=nearest(name, packaged, likeness=0.4) if help is None else None,
            help=help,
        )
    return Machine(_read(from_file(name)))


def _read(source: Source) -> MachineFile:
    return check(source, MachineFile, Whole("the file of a machine"))


@cache
def _packaged() -> Mapping[str, str]:
    folder = files("syncline") / "data" / "nccl"
    found = {
        each.name.removesuffix(".yaml"): each.read_text(encoding="utf-8")
        for each in folder.iterdir()
        if each.name.endswith(".yaml")
    }
    return dict(sorted(found.items()))


def _range(all_errors: Sequence[Errors]) -> str:
    def of(values: list[float]) -> str:
        least, most = (f"{100 * value:.1f}" for value in (min(values), max(values)))
        return f"{most} %" if least == most else f"{least} to {most} %"

    medians, ends = [each.median for each in all_errors], [each.p90 for each in all_errors]
    return f"median {of(medians)}, 90th percentile {of(ends)}"


def to_core(content: MachineFile) -> dict[str, Any]:
    """A machine as the core reads it: seconds, bytes, and bytes per second."""
    made: dict[str, Any] = {name: _constants(each) for name, each in content.in_node if isinstance(each, InNode)}
    if content.network is not None:
        network = content.network
        hops = (network.hop.ll, network.hop.ll128, network.hop.simple)
        made["network"] = {
            "gpus": network.gpus,
            "nics": network.nics,
            "nic_rate": bytes_per_s(network.nic_rate),
            "efficiency": network.efficiency,
            "hop_s": [None if hop is None else seconds(hop) for hop in hops],
        }
    return made


def _constants(each: InNode) -> dict[str, Any]:
    made: dict[str, Any] = {
        "launch_s": seconds(each.launch),
        "low_latency": {"hop_s": seconds(each.ll.hop), "rate": bytes_per_s(each.ll.rate)},
        "low_latency_128": {
            "hop_s": seconds(each.ll128.hop),
            "pace_s": seconds(each.ll128.pace),
            "rate": bytes_per_s(each.ll128.rate),
            "all_channels_from": _bytes(each.ll128.all_channels_from),
            "narrow_s": _inverse(each.ll128.narrow_rate),
        },
        "simple": {
            "launch_s": seconds(each.simple.launch),
            "hop_s": seconds(each.simple.hop),
            "pace_s": seconds(each.simple.pace),
            "local_rate": bytes_per_s(each.simple.local_rate),
            "bus_rate": bytes_per_s(each.simple.bus_rate),
            "narrow_s": _inverse(each.simple.narrow_rate),
        },
        "simple_from": {
            "bytes_per_gpu": _bytes(each.simple_from.bytes_per_gpu),
            "launch_hops": each.simple_from.launch_hops,
        },
    }
    if each.nvls is not None:
        nvls = each.nvls
        made["nvls"] = {
            "latency_s": seconds(nvls.latency),
            "rate": bytes_per_s(nvls.rate),
            "from": _bytes(nvls.from_),
            "gpus": nvls.gpus,
        }
    return made


def from_core(constants: Mapping[str, Any]) -> dict[str, Any]:
    """Constants of one operation as a file holds them, from those of the core: four digits each."""
    ll, ll128, simple = constants["low_latency"], constants["low_latency_128"], constants["simple"]
    made: dict[str, Any] = {
        "launch": time_text(constants["launch_s"]),
        "ll": {"hop": time_text(ll["hop_s"]), "rate": rate_text(ll["rate"])},
        "ll128": {
            "hop": time_text(ll128["hop_s"]),
            "pace": time_text(ll128["pace_s"]),
            "rate": rate_text(ll128["rate"]),
            "all_channels_from": _size(ll128["all_channels_from"]),
            **_narrow(ll128["narrow_s"]),
        },
        "simple": {
            "launch": time_text(simple["launch_s"]),
            "hop": time_text(simple["hop_s"]),
            "pace": time_text(simple["pace_s"]),
            "local_rate": rate_text(simple["local_rate"]),
            "bus_rate": rate_text(simple["bus_rate"]),
            **_narrow(simple["narrow_s"]),
        },
        "simple_from": {
            "bytes_per_gpu": _size(constants["simple_from"]["bytes_per_gpu"]),
            "launch_hops": constants["simple_from"]["launch_hops"],
        },
    }
    if (nvls := constants.get("nvls")) is not None:
        made["nvls"] = {
            "latency": time_text(nvls["latency_s"]),
            "rate": rate_text(nvls["rate"]),
            "from": _size(nvls["from"]),
            "gpus": nvls["gpus"],
        }
    return made


def seconds(time: str) -> float:
    """A time, such as ``0.5us``, in seconds."""
    return _core.parse_quantity("time", time) / 1e12


def _bytes(size: str) -> float:
    return float(_core.parse_quantity("bytes", size))


def _inverse(rate: str | None) -> float:
    return 0.0 if rate is None else 1 / bytes_per_s(rate)


_LARGEST = 1e15
"""Rates and sizes beyond are as good as infinite."""


def time_text(seconds: float) -> str:
    """A time with four digits."""
    # Whole picoseconds: the grammar knows no less.
    return f"{float(f'{round(seconds * 1e12) / 1e6:.4g}'):g}us" if seconds >= 1e-9 else "0us"


def rate_text(bytes_per_second: float) -> str:
    """A rate with four digits."""
    return f"{min(bytes_per_second, _LARGEST) / 1e9:.4g}GB/s"


def _size(count: float) -> str:
    return f"{round(float(f'{min(count, _LARGEST):.4g}'))}B"


def _narrow(seconds_per_byte: float) -> dict[str, str]:
    # Slower by less than a thousandth of what links need does not count.
    return {"narrow_rate": rate_text(1 / seconds_per_byte)} if seconds_per_byte > 1e-15 else {}

"""Dispatch and combine of mixtures of experts by DeepEP, on machines that were measured.

``data/deepep.yaml`` holds the constants of each machine, kernels, direction and number of nodes, with their errors.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from syncline import _core
from syncline.input import yaml
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.problem import bad_value, nearest
from syncline.input.source import Source
from syncline.input.units import Rate, Time, bytes_per_s
from syncline.nccl.machine import Errors, seconds
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

Kernels = Literal["normal", "low_latency"]
"""Kernels for training, which send a token once to each GPU, and those for decoding, once to each expert."""
Phase = Literal["dispatch", "combine"]
"""To the experts, and back."""

_Count = Annotated[int, Field(ge=1)]


class OneWay(Strict):
    """Constants of dispatches, or of combines."""

    launch: Time
    """Time of an exchange of no token."""
    token: Time
    """Time of a token apart from its bytes."""
    sm_rate: Rate | None = None
    """Rate of a streaming multiprocessor; none for kernels that use all."""
    link_rate: Rate
    """Rate of the links of a GPU."""

    def constants(self) -> dict[str, float]:
        """The constants as the core reads them: seconds, and bytes per second."""
        return {
            "launch_s": seconds(self.launch),
            "token_s": seconds(self.token),
            "sm_rate": bytes_per_s(self.sm_rate or self.link_rate),
            "link_rate": bytes_per_s(self.link_rate),
        }


class Exchange(OneWay):
    """Dispatches, or combines, that were measured on a machine."""

    kernels: Kernels
    """Which kernels."""
    phase: Phase
    """Which direction."""
    nodes: _Count
    """Nodes that were measured."""
    gpus: _Count
    """GPUs in all nodes."""
    errors: Errors
    """Errors on the times that they were calibrated with."""

    def to_other_gpus(self) -> dict[str, float]:
        """The same with rates of the bytes that go to other GPUs alone, which are all but a part of each GPU."""
        others = (self.gpus - 1) / self.gpus
        rates = {"sm_rate", "link_rate"}
        return {name: value * others if name in rates else value for name, value in self.constants().items()}

    def times(self, calls: Sequence[tuple[int, int, int, int]]) -> list[float]:
        """Seconds of several exchanges: ``(tokens of a GPU, bytes of a token, its experts, multiprocessors)``."""
        known = self.constants()
        constants = (known["launch_s"], known["token_s"], known["sm_rate"], known["link_rate"])
        low_latency = self.kernels == "low_latency"
        return _core.deepep_times(
            constants,
            low_latency,
            [(tokens, size, experts, self.gpus, 0 if low_latency else sms) for tokens, size, experts, sms in calls],
        )


class Experts(Strict):
    """A machine."""

    gpu: str
    """The accelerator."""
    software: str
    """Library and version."""
    date: str
    """Day of the calibration."""
    source: list[str]
    """Where the measured times come from."""
    exchanges: list[Exchange]
    """Constants."""


class ExpertsFile(Strict):
    """The file of all machines."""

    machines: dict[str, Experts]
    """Machines by name."""


def token_bytes(hidden: int, phase: Phase) -> int:
    """Bytes of a token as it was measured: FP8 with a scale of 4 bytes for 128 elements to the experts, BF16 back."""
    return hidden + hidden // 32 if phase == "dispatch" else 2 * hidden


def exchange(machine: str, kernels: Kernels, phase: Phase, nodes: int = 1) -> Exchange:
    """The constants of a machine.

    :raises SynclineError: they were not measured.
    """
    known = machines()
    if machine not in known:
        raise bad_value("unknown machine", machine, allowed=", ".join(known), nearest=nearest(machine, known))
    for each in known[machine].exchanges:
        if (each.kernels, each.phase, each.nodes) == (kernels, phase, nodes):
            return each
    measured = sorted({_named(each.kernels, each.phase, each.nodes) for each in known[machine].exchanges})
    raise bad_value("not measured on this machine", _named(kernels, phase, nodes), allowed=", ".join(measured))


def _named(kernels: str, phase: str, nodes: int) -> str:
    return f"{kernels} {phase} of {counted(nodes, 'node')}"


def names() -> list[str]:
    """Names of the machines that have constants."""
    return list(machines())


@cache
def machines() -> dict[str, Experts]:
    """The machines that have constants, by name."""
    text = (files("syncline") / "data" / "deepep.yaml").read_text(encoding="utf-8")
    source = Source(yaml.read(text, "deepep.yaml"), "deepep.yaml")
    return check(source, ExpertsFile, Whole("the file of expert exchanges")).machines

"""All-reduces in one shot or two, by kernels of inference frameworks, on machines that were measured.

``data/shots.yaml`` holds the constants of each machine and framework, with their errors. They count in one node, for up
to 8 MiB: beyond, the frameworks use NCCL. Launches are those of CUDA graphs.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from syncline import _core
from syncline.input import yaml
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.problem import bad_value, nearest
from syncline.input.source import Source
from syncline.input.units import Rate, Time, bytes_per_s
from syncline.nccl.machine import Errors, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST = 8 * 2**20
"""Largest vector, bytes."""


class Shots(Strict):
    """Constants of the kernels of a framework on a machine."""

    framework: str
    """Framework and version, such as ``vLLM 0.24.0``."""
    one_launch: Time
    """Launch of one shot."""
    one_rate: Rate
    """Rate at which a GPU reads the vectors of all others."""
    two_launch: Time
    """Launch of two shots."""
    two_rate: Rate
    """Rate of two shots in bytes on the bus."""
    gpus: list[Annotated[int, Field(ge=2)]]
    """Numbers of GPUs that were measured."""
    date: str
    """Day of the calibration."""
    source: list[str]
    """Where the measured times come from."""
    errors: Errors
    """Errors on the times that they were calibrated with."""

    def times(self, calls: Sequence[tuple[int, int]]) -> list[tuple[float, int]]:
        """Seconds and number of shots of several all-reduces: ``(gpus, bytes)``."""
        constants = self.constants()
        return _core.shots_times(
            (constants["one_launch_s"], constants["one_rate"], constants["two_launch_s"], constants["two_rate"]),
            list(calls),
        )

    def constants(self) -> dict[str, float]:
        """The constants as the core reads them: seconds, and bytes per second."""
        return {
            "one_launch_s": seconds(self.one_launch),
            "one_rate": bytes_per_s(self.one_rate),
            "two_launch_s": seconds(self.two_launch),
            "two_rate": bytes_per_s(self.two_rate),
        }


class ShotsFile(Strict):
    """The file of all machines."""

    machines: dict[str, list[Shots]]
    """Frameworks by machine."""


def find(machine: str, framework: str) -> Shots:
    """The constants of a framework on a machine; without a version, those of the newest that was measured.

    :raises SynclineError: they were not measured.
    """
    known = _machines()
    if machine not in known:
        raise bad_value("unknown machine", machine, allowed=", ".join(known), nearest=nearest(machine, known))
    named = framework.casefold()
    found = [each for each in known[machine] if named in _names(each.framework)]
    if found:
        return max(found, key=lambda each: _version(each.framework))
    measured = [each.framework for each in known[machine]]
    raise bad_value(
        "not measured on this machine",
        framework,
        allowed=", ".join(measured),
        nearest=nearest(framework, measured),
    )


def _names(framework: str) -> tuple[str, str]:
    """What a framework may be called, in small letters: with its version, and without."""
    full = framework.casefold()
    return full, full.partition(" ")[0]


def _version(framework: str) -> list[int]:
    """The numbers of a version, so that 0.5.14 is newer than 0.5.9."""
    return [int(each) for each in re.findall(r"\d+", framework)]


def names() -> dict[str, list[str]]:
    """Frameworks that have constants, by machine."""
    return {machine: [each.framework for each in frameworks] for machine, frameworks in _machines().items()}


@cache
def _machines() -> dict[str, list[Shots]]:
    text = (files("syncline") / "data" / "shots.yaml").read_text(encoding="utf-8")
    return check(Source(yaml.read(text, "shots.yaml"), "shots.yaml"), ShotsFile, Whole("the file of shots")).machines

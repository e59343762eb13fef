"""A machine of GPUs: NVLinks, PCIe, network interfaces and processors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Kind(StrEnum):
    """What a part of a machine is."""

    GPU = "GPU"
    NIC = "NIC"
    SWITCH = "PCIe switch"
    CPU = "processor"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a machine that PCIe joins to others."""

    name: str
    kind: Kind
    parent: int | None
    """The part above it; None for a processor."""
    rate: int | None = None
    """Rate of the PCIe link to that part, one direction, in bits per second; None if it was not printed."""
    host: int = 0
    """The host that it is in, if NVSwitches join several."""


@dataclass(frozen=True)
class Machine:
    """A machine. Processors are joined with each other."""

    parts: tuple[Part, ...]
    """GPUs first, then NICs, then PCIe switches and processors."""
    direct: Mapping[tuple[int, int], int]
    """NVLinks that join two GPUs, the lower number first, and how many."""
    switched: Mapping[int, int]
    """NVLinks that join a GPU with NVSwitches."""
    nvlink_rate: int | None = None
    """Rate of one NVLink, one direction, in bits per second; None if it was not printed."""
    nic_rates: Mapping[int, int] | None = None
    """Rate of each NIC, in bits per second; None if they were not printed."""

    @cached_property
    def gpus(self) -> list[int]:
        """Numbers of the GPUs."""
        return self._of(Kind.GPU)

    @cached_property
    def nics(self) -> list[int]:
        """Numbers of the NICs."""
        return self._of(Kind.NIC)

    @cached_property
    def cpus(self) -> list[int]:
        """Numbers of the processors."""
        return self._of(Kind.CPU)

    @cached_property
    def joined(self) -> set[tuple[int, int]]:
        """Pairs of GPUs that NVLinks join, directly or over NVSwitches, the lower number first."""
        return {*self.direct, *((a, b) for a in self.switched for b in self.switched if a < b)}

    def above(self, part: int) -> list[int]:
        """The part and all parts above it, lowest first."""
        found = [part]
        while (parent := self.parts[found[-1]].parent) is not None:
            found.append(parent)
        return found

    def path(self, start: int, end: int) -> list[int]:
        """The parts of the PCIe path between two parts."""
        up, down = self.above(start), self.above(end)
        shared = set(up) & set(down)
        up, down = (
            up[: next((at + 1 for at, part in enumerate(up) if part in shared), len(up))],
            down[: next((at for at, part in enumerate(down) if part in shared), len(down))],
        )
        return up + down[::-1]

    def nearest_nics(self, gpu: int) -> list[int]:
        """The NICs that have the lowest part above them in common with a GPU; all NICs if none has any."""

        def apart(nic: int) -> int:
            beside = set(self.above(nic))
            return next((at for at, part in enumerate(self.above(gpu)) if part in beside), len(self.parts))

        least = min(map(apart, self.nics), default=0)
        return [nic for nic in self.nics if apart(nic) == least]

    def without_nics(self) -> Machine:
        """The machine as if it were alone."""
        return self._keeping({*self.gpus, *self.cpus, *self._of(Kind.SWITCH)})

    def with_nics(self, names: list[str]) -> Machine:
        """The machine with only these NICs."""
        others = {nic for nic in self.nics if self.parts[nic].name not in names}
        return self._keeping({*range(len(self.parts))} - others)

    def flattened(self) -> Machine:
        """The machine without PCIe switches that join PCIe switches: what these carry meets at the processor."""
        outer = {
            part.parent
            for part in self.parts
            if part.kind == Kind.SWITCH and part.parent is not None and self.parts[part.parent].kind == Kind.SWITCH
        }
        return self._keeping({*range(len(self.parts))} - outer)

    def _keeping(self, kept: set[int]) -> Machine:
        """The machine with some of its parts, without PCIe switches that then join fewer than two."""

        def parent(at: int) -> int | None:
            return next((each for each in self.above(at)[1:] if each in kept), None)

        while True:
            below = Counter(parent(at) for at in kept)
            lone = {at for at in kept if self.parts[at].kind == Kind.SWITCH and below[at] < 2}
            if not lone:
                break
            # What is below a switch of one part moves up, so count again after each.
            kept = kept - {max(lone)}
        order = sorted(kept)
        number = {old: new for new, old in enumerate(order)}
        parts = []
        for at in order:
            above = parent(at)
            parts.append(replace(self.parts[at], parent=None if above is None else number[above]))
        rates = self.nic_rates and {number[at]: rate for at, rate in self.nic_rates.items() if at in number}
        return replace(self, parts=tuple(parts), nic_rates=rates)

    def _of(self, kind: Kind) -> list[int]:
        return [at for at, part in enumerate(self.parts) if part.kind == kind]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All pairs of GPUs."""
        yield from ((a, b) for a in self.gpus for b in self.gpus if a < b)

"""Accelerators: peak rates, memory, scale-up links and power, with their sources.

The numbers are in ``data/accelerators.yaml`` beside this package, where every group of them names its source.
Rates are peaks from the vendor's data sheet, for dense operands; programs do not reach them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from syncline.input import yaml
from syncline.input.units import decimal
from syncline.models.data_types import DATA_TYPES
from syncline.models.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.models.types import Types


_BLOCK_SCALED = ("B200-SXM-180GB", "B300-SXM-270GB", "GB200-NVL72", "GB300-NVL72")
"""Accelerators whose tensor cores take MXFP8 and NVFP4."""


@dataclass(frozen=True)
class ScaleUp:
    """The links that join an accelerator to its peers."""

    name: str
    """Name of the links, such as ``NVLink 3``."""
    links: int
    """Links of one accelerator."""
    link_bytes_per_s: int
    """Bytes per second of one link in one direction."""

    @property
    def bytes_per_s(self) -> int:
        """Bytes per second that an accelerator can send over all its links, and receive at the same time."""
        return self.links * self.link_bytes_per_s


@dataclass(frozen=True)
class Accelerator:
    """One accelerator."""

    name: str
    """Name of the accelerator."""
    aliases: tuple[str, ...]
    """Other names for it."""
    vendor: str
    """Its manufacturer."""
    peak_flop_per_s: Mapping[str, int]
    """Peak FLOP per second with dense operands, by data type, on the fastest unit that takes the type."""
    memory_bytes: int
    """Memory capacity in bytes."""
    memory_bytes_per_s: int
    """Memory bandwidth in bytes per second."""
    scale_up: ScaleUp
    """Links to its peers."""
    board_w: int
    """What its board draws at most, in watts: with its memory, without the rest of the server."""
    sources: Mapping[str, str]
    """Sources of ``peak``, ``memory``, ``scale_up`` and ``power``."""

    @property
    def precisions(self) -> list[str]:
        """Data types that its tensor cores take for training: bf16, fp16, fp8, mxfp8, nvfp4, or some of them."""
        narrow = ["mxfp8", "nvfp4"] if self.name in _BLOCK_SCALED else []
        return [*(each for each in ("bf16", "fp16", "fp8") if each in self.peak_flop_per_s), *narrow]

    def roofline(self, types: Types) -> dict[str, Any]:
        """Returns the accelerator as the compute model of a scenario.

        Raises :class:`~.errors.ModelError` if it does not compute in these types.
        """
        others = [types.others] if types.others is not None else []
        for data_type in (types.compute, *others):
            if data_type not in self.peak_flop_per_s:
                raise unknown_name("precision", data_type, self.peak_flop_per_s)
        peaks = {each: decimal(self.peak_flop_per_s[each], "FLOP/s") for each in others}
        return {
            "model": "roofline",
            "accelerator": self.name,
            "peak": decimal(self.peak_flop_per_s[types.compute], "FLOP/s"),
            **({"peaks": peaks} if peaks else {}),
            "memory": decimal(self.memory_bytes_per_s, "B/s"),
        }


def load() -> dict[str, Accelerator]:
    """Every accelerator by its name, in the order of the file."""
    return dict(_load())


def find(name: str) -> Accelerator:
    """Finds an accelerator by name or alias, ignoring case. Raises :class:`~.errors.ModelError` for an unknown name."""
    known = _load()
    for accelerator in known.values():
        names = (accelerator.name, *accelerator.aliases)
        if str(name).lower() in (each.lower() for each in names):
            return accelerator
    # Names of different products are similar, so suggest a name only for an obvious typing error.
    all_names = [*known, *(alias for each in known.values() for alias in each.aliases)]
    raise unknown_name("accelerator", name, all_names, likeness=0.8)


@cache
def _load() -> Mapping[str, Accelerator]:
    text = (files("syncline") / "data" / "accelerators.yaml").read_text(encoding="utf-8")
    entries: dict[str, dict[str, Any]] = yaml.read(text, "accelerators.yaml").to_python()
    return MappingProxyType({name: _accelerator(name, entry) for name, entry in entries.items()})


def _accelerator(name: str, entry: Mapping[str, Any]) -> Accelerator:
    peak, memory, scale_up = entry["peak"], entry["memory"], entry["scale_up"]
    return Accelerator(
        name=name,
        aliases=tuple(entry["aliases"]),
        vendor=entry["vendor"],
        peak_flop_per_s=MappingProxyType(
            {data_type: _amount(peak[data_type], "FLOP/s") for data_type in DATA_TYPES if data_type in peak}
        ),
        memory_bytes=_amount(memory["capacity"], "B"),
        memory_bytes_per_s=_amount(memory["rate"], "B/s"),
        scale_up=ScaleUp(scale_up["name"], scale_up["links"], _amount(scale_up["link_rate"], "B/s")),
        board_w=_amount(entry["power"]["board"], "W"),
        sources=MappingProxyType({key: entry[key]["source"] for key in ("peak", "memory", "scale_up", "power")}),
    )


_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "Gi": 2**30}


def _amount(text: str, unit: str) -> int:
    """``"19.5TFLOP/s"`` as a whole number of base units."""
    found = re.fullmatch(rf"([0-9]+(?:\.[0-9]+)?)([kMTP]?|Gi?){re.escape(unit)}", text)
    if found is None:
        raise ValueError(f"{text!r} is not an amount of {unit}")
    amount = Fraction(found[1]) * _PREFIXES[found[2]]
    if amount.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of {unit}")
    return int(amount)

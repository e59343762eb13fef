"""Optical switches that join servers directly, and how fast they change circuits (topoopt2022 Table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.input import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class OpticalSwitch:
    """A technology of optical switches."""

    name: str
    """Name in specs."""
    title: str
    """Name for people."""
    ports: int
    """Duplex ports of one switch."""
    reconfiguration: str
    """Time to change circuits, with its unit."""
    insertion_loss_db: tuple[float, float]
    """Lowest and highest loss, in decibels."""
    port_usd: float | None
    """Price of a port; None if the technology is not sold."""

    @property
    def reconfiguration_s(self) -> float:
        """Seconds to change circuits."""
        return _core.parse_quantity("time", self.reconfiguration) * 1e-12


@cache
def known_switches() -> Mapping[str, OpticalSwitch]:
    """All technologies by name, in the order of the table."""
    text = (files("syncline") / "data" / "optical-switches.yaml").read_text(encoding="utf-8")
    entries: dict[str, dict[str, Any]] = yaml.read(text, "optical-switches.yaml").to_python()["switches"]
    return {
        name: OpticalSwitch(
            name,
            entry["title"],
            int(entry["ports"]),
            entry["reconfiguration"],
            (float(entry["insertion_loss_db"][0]), float(entry["insertion_loss_db"][1])),
            float(entry["port_usd"]) if "port_usd" in entry else None,
        )
        for name, entry in entries.items()
    }

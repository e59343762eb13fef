"""A chart of the report: what it says, how to read it, and its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Chart:
    """One chart with its words. All text is plain; whoever writes it into a page escapes it."""

    name: str
    """By which ``Result.plot`` and the page's script know it."""
    title: str
    """Its heading."""
    finding: str
    """What it says about this run, in a sentence or two."""
    reading: str
    """What is drawn, and the terms used."""
    data: dict[str, Any]
    """What the script draws."""
    notes: tuple[str, ...] = ()
    """What is left out."""


def rounded(values: list[float]) -> list[float]:
    """Values to six significant digits: more cannot be seen in a chart."""
    return [float(f"{value:.6g}") for value in values]

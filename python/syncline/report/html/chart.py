"""A chart of the report: its finding, how to read it, and its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Chart:
    """One chart with its texts. All texts are plain; the code that writes them into a page escapes them."""

    name: str
    """Its name for ``Result.plot`` and in the page's script."""
    title: str
    """Its heading."""
    finding: str
    """What it shows about this run, in a sentence or two."""
    reading: str
    """How to read it: what is drawn, and the terms used."""
    data: dict[str, Any]
    """The data that the script draws."""
    notes: tuple[str, ...] = ()
    """Sentences about what is left out."""


def rounded(values: list[float]) -> list[float]:
    """Rounds values to six significant digits, since a chart cannot show more."""
    return [float(f"{value:.6g}") for value in values]

"""The report's charts, in the order in which they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.report.html.collectives import collectives, phases
from syncline.report.html.contention import contention
from syncline.report.html.cost import cost
from syncline.report.html.layers import communication, layers
from syncline.report.html.moments import critical_path, timeline
from syncline.report.html.network import activity, dimensions, fabric
from syncline.report.html.packets import losses, queues, round_trips
from syncline.report.html.pipeline import pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.report.html.chart import Chart
    from syncline.report.html.source import Source

CHARTS: dict[str, Callable[[Source], Chart | None]] = {
    "layers": layers,
    "pipeline": pipeline,
    "timeline": timeline,
    "communication": communication,
    "collectives": collectives,
    "phases": phases,
    "dimensions": dimensions,
    "activity": activity,
    "contention": contention,
    "losses": losses,
    "queues": queues,
    "round_trips": round_trips,
    "fabric": fabric,
    "cost": cost,
    "critical_path": critical_path,
}
"""Functions that make the charts, by name. Each returns None if the run has no data for it."""

MAIN = ("layers", "collectives", "dimensions")
"""A notebook shows the first of these charts that the run has data for."""


def all_of(source: Source) -> list[Chart]:
    """Every chart for which the run has data."""
    made = (make(source) for make in CHARTS.values())
    return [chart for chart in made if chart is not None]

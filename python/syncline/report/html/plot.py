"""One chart for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline import _core
from syncline.report.html.charts import CHARTS, MAIN
from syncline.report.html.head import head
from syncline.report.html.page import document, section
from syncline.report.html.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from syncline.report.html.chart import Chart
    from syncline.run import Run


class Plot:
    """A chart that notebooks display; ``save`` writes it as a page of its own."""

    def __init__(self, chart: Chart) -> None:
        self.name = chart.name
        """The chart's name."""
        self.finding = chart.finding
        """What the chart shows, in words."""
        self.html = document(chart.title, "plot", f"<main>{section(chart)}</main>", [chart]).decode()
        """The chart's page."""

    def save(self, path: str | Path) -> None:
        """Writes the chart as a self-contained HTML file."""
        from syncline.files import write_whole

        write_whole(path, self.html)

    def __repr__(self) -> str:
        return f"<Plot {self.name}: {self.finding}>"

    def _repr_html_(self) -> str:
        return frame(self.html, self.name, 640)


def plot(result: Run, what: str) -> Plot:
    """The chart with this name. Raises ``ValueError`` for an unknown name, and for a chart without data in this run."""
    if what not in CHARTS:
        near = _core.nearest(what, list(CHARTS))
        hint = f" Did you mean {near!r}?" if near else ""
        raise ValueError(f"there is no chart {what!r}, only {', '.join(CHARTS)}.{hint}")
    chart = CHARTS[what](Source(result))
    if chart is None:
        here = [name for name, make in CHARTS.items() if make(Source(result))]
        raise ValueError(f"this result has no data for the chart {what!r}, only for {', '.join(here) or 'none'}")
    return Plot(chart)


def overview(result: Run) -> str:
    """The answer and the main chart, for a notebook."""
    source = Source(result)
    made = (CHARTS[name](source) for name in MAIN)
    chart = next((each for each in made if each is not None), None)
    charts = [chart] if chart else []
    body = f"<main>{head(result)}{''.join(section(each) for each in charts)}</main>"
    return frame(document("result", "plot", body, charts).decode(), "result", 900 if charts else 320)


def frame(page: str, name: str, height: int) -> str:
    """An inline frame that holds a page, so that its style and script stay separate from those of the notebook."""
    return (
        f'<iframe srcdoc="{escape(page)}" title="syncline {escape(name)}" sandbox="allow-scripts" loading="lazy"'
        f' style="width:100%;height:{height}px;border:0"></iframe>'
    )

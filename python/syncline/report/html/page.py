"""The report as one document: template, style, texts, data, script. The page loads nothing from elsewhere."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from syncline.report import subject
from syncline.report.html.charts import all_of
from syncline.report.html.head import head
from syncline.report.html.nccl import nccl
from syncline.report.html.origin import origin
from syncline.report.html.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.report.html.chart import Chart
    from syncline.run import Run

FILE = "report.html"
"""Name of the report in the folder of a run."""


def report(result: Run) -> bytes:
    """The HTML of the whole report."""
    charts = all_of(Source(result))
    title = subject.name(result)
    facts = ", ".join(subject.facts(result))
    links = "".join(f'<li><a href="#{chart.name}">{escape(chart.title)}</a></li>' for chart in charts)
    choices = nccl(result)
    links += '<li><a href="#nccl">What NCCL chooses</a></li>' if choices else ""
    body = f"""<header class="top">
<div><p class="brand">syncline report</p><h1>{escape(title)}</h1><p class="facts">{escape(facts)}</p></div>
<div class="tools" id="tools"></div>
</header>
<main>
{head(result)}
<nav aria-label="Contents"><ol>{links}<li><a href="#origin">How the numbers were obtained</a></li></ol></nav>
{"".join(section(chart) for chart in charts)}
{choices}<section id="origin"><h2>How the numbers were obtained</h2>
{origin(result)}
</section>
</main>
"""
    return document(f"{title}: syncline report", "report", body, charts)


def section(chart: Chart) -> str:
    """HTML of a chart's section: heading, finding, place for the chart, notes, how to read it, table."""
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in chart.notes)
    return f"""<section id="{chart.name}" class="chart" data-chart="{chart.name}">
<h2>{escape(chart.title)}</h2>
<p class="finding">{escape(chart.finding)}</p>
<div class="place"></div>
{notes}<details class="reading"><summary>How to read this</summary><p>{escape(chart.reading)}</p></details>
<details class="numbers"><summary>The numbers as a table</summary><div class="scroll"></div></details>
</section>
"""


def document(title: str, kind: str, body: str, charts: Sequence[Chart]) -> bytes:
    """A page that runs the bundled script on the charts' data; its content policy allows no other script."""
    script = asset("report.js")
    data = {chart.name: {"title": chart.title, "finding": chart.finding, "data": chart.data} for chart in charts}
    page = Template(asset("page.html")).substitute(
        title=escape(title),
        kind=kind,
        style=asset("report.css"),
        body=body,
        data=embedded(data),
        script=script,
        hash=_hash(script),
    )
    return page.encode()


def embedded(value: object) -> str:
    """JSON that is safe in a script element: it contains no ``<``."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def asset(name: str) -> str:
    """A file that is bundled with the package."""
    return (files("syncline.report") / "assets" / name).read_text("utf-8")


@cache
def _hash(script: str) -> str:
    return b64encode(sha256(script.encode()).digest()).decode()

"""A comparison as one self-contained HTML file, in the style of ``report.html``."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline.comparison.charts import all_of
from syncline.comparison.facts import fact
from syncline.comparison.inputs import foremost, tally
from syncline.comparison.pairs import steps
from syncline.quantity import counted, digits, signed, time, worth
from syncline.report import subject
from syncline.report.html.head import step_bar
from syncline.report.html.page import document, section
from syncline.report.html.plot import frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from syncline.comparison.comparison import Comparison
    from syncline.comparison.pairs import CostPair, Pair
    from syncline.report.html.chart import Chart


def page(found: Comparison) -> bytes:
    """The HTML of the whole page."""
    charts = all_of(found)
    links = "".join(f'<li><a href="#{chart.name}">{escape(chart.title)}</a></li>' for chart in charts)
    titles = "".join(
        f'<p class="facts"><b>{letter}</b> {escape(label)} ({escape(", ".join(subject.facts(result)))})</p>'
        for letter, label, result in zip("AB", found.labels, (found.a, found.b), strict=True)
    )
    body = f"""<header class="top">
<div><p class="brand">syncline comparison</p><h1>{escape(_title(found))}</h1>{titles}</div>
<div class="tools" id="tools"></div>
</header>
<main>
{_head(found)}
<nav aria-label="Contents"><ol><li><a href="#inputs">Inputs</a></li>{links}<li><a href="#facts">What else differs</a>\
</li></ol></nav>
{_inputs(found)}
{"".join(section(chart) for chart in charts)}
{_facts(found)}
</main>
"""
    return document(f"{_title(found)}: syncline comparison", "report", body, charts)


def overview(found: Comparison) -> str:
    """The answer and the main chart, for a notebook."""
    charts: Sequence[Chart] = all_of(found)[:1]
    body = f"<main>{_head(found)}{''.join(section(each) for each in charts)}</main>"
    html = document("comparison", "plot", body, charts).decode()
    return frame(html, "comparison", 900 if charts else 360)


def _title(found: Comparison) -> str:
    names = [subject.name(each) for each in (found.a, found.b)]
    return " and ".join(found.labels if names[0] == names[1] else names)


def _head(found: Comparison) -> str:
    """Warnings, the answer, the steps as bars on one scale, and a table of their parts."""
    lead, *more = found.sentences
    lines = [f'<p class="banner" role="note">{escape(each)}</p>' for each in found.warnings]
    lines += [
        '<section id="answer" aria-label="The answer">',
        f'<p class="lead">{escape(lead)}</p>',
        f'<p class="reason">{escape(" ".join(more))}</p>',
        *_bars(found),
        "</section>",
    ]
    return "\n".join(lines)


def _bars(found: Comparison) -> Iterator[str]:
    longest = max(found.step.a_s, found.step.b_s)
    if not longest or not any(each.summary.compute_s for each in (found.a, found.b)):
        if found.cost_and_performance:
            yield _parts(found)
        return
    yield '<div class="runs">'
    for letter, result in zip("AB", (found.a, found.b), strict=True):
        width = 100 * result.summary.total_time_s / steps(result.summary) / longest
        yield f'<b>{letter}</b><div style="width:{width:.4f}%">{step_bar(result.summary)}</div>'
    yield "</div>"
    yield _parts(found)


_COLOURS = {
    "compute": "compute",
    "exposed communication": "exposed",
    "bubble": "bubble",
    "skew": "skew",
    "exposed memory": "memory",
    "idle": "idle",
}
"""Classes of the style sheet, by parts of a step."""


def _parts(found: Comparison) -> str:
    def row(each: Pair) -> list[str]:
        dot = f'<i class="{_COLOURS[each.name]}"></i>' if each.name in _COLOURS else ""
        ratio = "-" if each.ratio is None else f"{digits(each.ratio)}x"
        return [f"{dot}{escape(each.name)}", time(each.a_s), time(each.b_s), signed(each.difference_s), ratio]

    rows = [row(each) for each in (*found.parts, *found.per_work)] + [
        _cost_row(each) for each in found.cost_and_performance
    ]
    return _table("parts", ["", "A", "B", "difference", "B / A"], rows)


def _cost_row(each: CostPair) -> list[str]:
    """A row about the cost of the fabric, or about performance per dollar or watt."""
    difference = "-" if each.difference is None else worth(each.key, each.difference, signed=True)
    ratio = "-" if each.ratio is None else f"{digits(each.ratio)}x"
    return [escape(each.name), worth(each.key, each.a), worth(each.key, each.b), difference, ratio]


def _table(kind: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are HTML."""
    first = "".join(f'<th scope="col">{each}</th>' for each in head)
    lines = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{each}</td>" for each in cells)}</tr>' for name, *cells in rows
    )
    return (
        f'<div class="scroll open"><table class="{kind}"><thead><tr>{first}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _inputs(found: Comparison) -> str:
    if found.changes is None:
        text = "<p>It is not known whether the inputs differ: one of the runs has no scenario.</p>"
    elif not found.changes:
        text = "<p>The resolved scenarios are the same, key by key.</p>"
    else:
        shown, more = foremost(found.changes)
        rows = []
        for each in shown:
            where = f"<br><small>in {escape(each.where)}</small>" if each.entries else ""
            example = "" if each.uniform else ", ..."
            factor = "" if each.uniform or not each.factor else f"<br><small>all times {each.factor:g}</small>"
            name = f"<code>{escape(each.key)}</code>{where}"
            rows.append([name, escape(each.a + example), f"{escape(each.b + example)}{factor}"])
        text = f"<p>The resolved scenarios differ in {tally(found.changes)}.</p>"
        text += _table("changes", ["key", "A", "B"], rows)
        if more:
            text += f'<p class="note">{counted(more, "other key")}; <code>syncline compare --json</code> lists all.</p>'
    return f'<section id="inputs"><h2>What differs in the inputs</h2>{text}</section>'


def _facts(found: Comparison) -> str:
    rows = [[escape(each.name), *(escape(fact(each.key, value)) for value in (each.a, each.b))] for each in found.facts]
    text = _table("changes", ["", "A", "B"], rows) if rows else "<p>Models, assumptions and versions are the same.</p>"
    a, b = ((each.summary.network_model, each.summary.compute_model) for each in (found.a, found.b))
    who = "Both were" if a == b else "A was"
    return (
        f'<section id="facts"><h2>What else differs</h2>{text}'
        f"<p>{who} obtained by network {escape(a[0])} and compute {escape(a[1])}."
        " Times are per step, and means over ranks. All times are simulated; none is measured."
        " The <code>report.html</code> of each run shows that run alone.</p></section>"
    )

"""The results of a search as one self-contained HTML file, in the style of a run's ``report.html``."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline.design.joint.charts import all_of
from syncline.design.joint.sentences import answer, models, strategy_rows, topology
from syncline.input.units import bytes_per_s
from syncline.quantity import counted, digits, money, rate, time
from syncline.report.html.head import figure
from syncline.report.html.page import document, section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.design.joint.answer import Found

FILE = "report.html"


def page_of(found: Found) -> bytes:
    """The HTML of the whole page."""
    charts = all_of(found)
    request, spec = found.request, found.request.spec
    links = "".join(f'<li><a href="#{chart.name}">{escape(chart.title)}</a></li>' for chart in charts)
    server = f"{counted(spec.servers, 'server')} of {spec.server.accelerators} {request.accelerator.name}"
    interfaces = f"{counted(spec.degree, 'interface')} of {rate(bytes_per_s(spec.link))} each"
    facts = f"{request.model.name} on {server}, {interfaces}, {spec.precision}"
    body = f"""<header class="top">
<div><p class="brand">syncline design</p><h1>{escape(request.name)}</h1><p class="facts">{escape(facts)}</p></div>
<div class="tools" id="tools"></div>
</header>
<main>
{_head(found)}
<nav aria-label="Contents"><ol>{links}<li><a href="#strategy">The strategy</a></li>\
<li><a href="#origin">How the numbers were obtained</a></li></ol></nav>
{"".join(section(chart) for chart in charts)}
{_strategy(found)}
{_origin(found)}
</main>
"""
    return document(f"{request.name}: syncline design", "report", body, charts)


def _head(found: Found) -> str:
    return "\n".join(
        (
            '<section id="answer" aria-label="The answer">',
            f'<p class="lead">{escape(answer(found))}</p>',
            f'<p class="reason">{escape(topology(found))}</p>',
            *_figures(found),
            "</section>",
        )
    )


def _figures(found: Found) -> Iterator[str]:
    best = found.answer
    yield '<dl class="figures">'
    simulated = "" if found.simulated_s is None else f"simulated: {time(found.simulated_s)}"
    yield figure("Step time, predicted", time(best.step_s), simulated, "step_s", best.step_s)
    yield figure("Price of the direct links", money(found.usd), _each(found), "usd", found.usd)
    for each in found.others:
        ratio = each.answer.step_s / best.step_s
        yield figure(
            escape(each.baseline.title[0].upper() + each.baseline.title[1:]),
            time(each.answer.step_s),
            f"{digits(ratio)}x the step of direct links"
            + ("" if each.baseline.usd is None else f", for {money(each.baseline.usd)}"),
            f"{each.baseline.name}_step_s",
            each.answer.step_s,
        )
    yield "</dl>"


def _each(found: Found) -> str:
    return f"{money(found.usd / found.request.spec.servers)} per server"


def _strategy(found: Found) -> str:
    heads = ("operators", "number", "batch splits", "parameter splits", "servers")
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for name, *cells in strategy_rows(found)
    )
    return (
        '<section id="strategy"><h2>The strategy</h2><p class="finding">How each kind of operator is split, and how'
        " many servers compute it. The file <code>design.json</code> lists the servers of each operator.</p>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>'
    )


def _origin(found: Found) -> str:
    request = found.request
    times = (
        "Operators take the times of a table that was measured."
        if request.measured is not None
        else "An operator takes as long as the slower of compute (FLOP / peak rate) and memory (bytes / bandwidth)."
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    return (
        '<section id="origin"><h2>How the numbers were obtained</h2>'
        f"<p>{escape(models(found))} {times} Prices are those of the spec, or of Table 3 of Wang et al. (2022)."
        " All times are predicted or simulated; none of a whole step is measured.</p>"
        "<p>To simulate the answer again, packet by packet: "
        "<code>syncline simulate scenario.yaml --set network=packet</code></p>"
        f"{f'<ul>{notes}</ul>' if notes else ''}</section>"
    )

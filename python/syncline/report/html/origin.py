"""How the numbers were obtained: models, what was simulated, assumptions, warnings. Works without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline import _core
from syncline.report import subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.run import Run


def origin(result: Run) -> str:
    """HTML of the section: a list of terms, then notes and warnings."""
    return "\n".join(_lines(result))


def _lines(result: Run) -> Iterator[str]:
    summary = result.summary
    some = subject.simulated(summary)
    rows = [
        ("Network model", summary.network_model),
        ("Compute model", summary.compute_model),
        ("Calibrated against measurements", summary.calibrated),
        (
            "Simulated",
            f"{', '.join(some)}; each of the others is equal to one of them" if some else "every rank and iteration",
        ),
        ("Seed", str(result.scenario.get("seed", 0)) if result.scenario else ""),
        ("Version", f"syncline {_core.version()}"),
    ]
    yield '<dl class="origin">'
    for term, text in rows:
        if text:
            yield f"<div><dt>{term}</dt><dd>{escape(text)}</dd></div>"
    yield "</dl>"
    if summary.notes:
        yield f"<h3>Assumptions</h3><ul>{''.join(f'<li>{escape(note)}</li>' for note in summary.notes)}</ul>"
    if result.warnings:
        found = [f"<code>{escape(str(each['code']))}</code> {escape(str(each['message']))}" for each in result.warnings]
        yield f"<h3>Warnings</h3><ul>{''.join(f'<li>{each}</li>' for each in found)}</ul>"
    yield (
        "<p>Times are means over ranks unless said otherwise. All times are simulated; none is measured."
        " The tables beside this file hold every number of these charts. <code>scenario.resolved.yaml</code> is the"
        " scenario that was simulated; <code>syncline simulate</code> with this folder repeats the run.</p>"
    )

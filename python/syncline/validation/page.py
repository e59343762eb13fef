"""A validation as one self-contained HTML file: figures, scatter plots, outliers, excluded rows."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from syncline.quantity import percent
from syncline.validation.drawing import scatter
from syncline.validation.groups import GROUPS, grouped
from syncline.validation.groups import group as group_of
from syncline.validation.screen import answer, bar_text, remark, sets_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from syncline.validation.figures import Figures, Validation

_CSS = """
:root { color-scheme: light dark; --ink: #1f2429; --faint: #6b737c; --line: #d5d9de; --paper: #fffffe }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --faint: #9aa3ad; --line: #343b44; --paper: #15191e }
  figure { background: #fffffe }
}
body { margin: 0 auto; max-width: 72rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child, td.text { text-align: left }
th { color: var(--faint); font-weight: 600 }
tr.missed td:first-child::after { content: " (bar missed)"; color: #d55e00 }
figure { margin: 1rem 0; display: inline-block; max-width: 100%; padding: .5rem }
figure svg { max-width: 100%; height: auto }
"""

_KEYS = ("median", "mean", "p90", "largest")


def page(found: Validation) -> str:
    """The HTML of the page."""
    parts = "\n".join(_parts(found))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>syncline validation</title><style>{_CSS}</style></head>\n<body>\n{parts}\n</body></html>\n"
    )


def _parts(found: Validation) -> Iterator[str]:
    yield "<h1>Predicted and measured training steps</h1>"
    yield f"<p>{escape(answer(found))}</p>"
    yield "<p>Errors are |predicted / measured - 1|. Dashed lines mark where a row counts as an outlier.</p>"
    yield "<h2>Groups</h2>"
    yield _figures(found.groups, "group")
    yield "<h2>Sources</h2>"
    yield _figures(found.sources, "source")
    if found.cells:
        yield "<h2>Fastest configurations</h2>"
        yield _table(
            ("model", "servers", "configurations", "fastest", "predicted", "slower by", "rank of the fastest"),
            (
                (
                    each.model,
                    each.servers,
                    each.rows,
                    each.fastest.run.id,
                    each.chosen.run.id,
                    percent(each.loss),
                    each.rank,
                )
                for each in found.cells
            ),
        )
    rows = grouped(found.outcomes)
    yield "<h2>Scatter plots</h2>"
    for group in GROUPS:
        if any(each.error is not None for each in rows.get(group.name, ())):
            yield f'<figure id="{group.name}">{_inline(scatter(group, rows[group.name]), group.name)}</figure>'
    yield "<h2>Outliers</h2>"
    yield _table(
        ("row", "group", "model", "error", "explanation"),
        (
            (
                each.outcome.run.id,
                group_of(each.group).title,
                each.outcome.run.model,
                f"{100 * each.error:+.1f} %",
                remark(each),
            )
            for each in found.outliers
        ),
    )
    refused = [each for each in found.outcomes if each.refused]
    if refused:
        yield "<h2>Rows that are not predicted</h2>"
        yield _table(("row", "reason"), ((each.run.id, each.refused) for each in refused))
    yield "<h2>Excluded rows</h2>"
    yield _table(("row", "model", "reason"), ((each.id, each.model, each.reason) for each in found.excluded))


def _figures(figures: Sequence[Figures], heading: str) -> str:
    head = (
        heading,
        "rows",
        "not predicted",
        *_KEYS,
        "memory, median",
        "fits right",
        "fits wrong",
        "fitted to",
        "bars in %",
    )
    rows, missed = [], []
    for each in figures:
        step = ["", "", "", ""] if each.step is None else [percent(getattr(each.step, key)) for key in _KEYS]
        memory = "" if each.memory is None else percent(each.memory.median)
        fits = ["", ""] if each.fits is None else [str(each.fits.right), str(each.fits.wrong)]
        used = sets_text(each)
        rows.append((each.title, each.rows, each.refused or "", *step, memory, *fits, used, bar_text(each)))
        missed.append(bool(each.missed))
    return _table(head, rows, missed)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], missed: Sequence[bool] = ()) -> str:
    first = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = []
    for at, row in enumerate(rows):
        cells = "".join(_cell(each) for each in row)
        lines.append(f'<tr class="missed">{cells}</tr>' if at < len(missed) and missed[at] else f"<tr>{cells}</tr>")
    if not lines:
        return "<p>None.</p>"
    return f'<div class="scroll"><table><tr>{first}</tr>\n' + "\n".join(lines) + "</table></div>"


def _cell(value: object) -> str:
    text = str(value)
    number = isinstance(value, int) or re.fullmatch(r"[-+]?[\d.]+( %)?", text) or not text
    return f"<td>{escape(text)}</td>" if number else f'<td class="text">{escape(text)}</td>'


def _inline(svg: str, name: str) -> str:
    """The element of an SVG file, with ids that differ from those of other pictures on the page."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', element)
    element = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", element)
    return re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', element)

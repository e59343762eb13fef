"""A validation as one self-contained HTML file: figures, scatter plots, outliers, excluded rows."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from syncline.quantity import percent
from syncline.validation.drawing import scatter
from syncline.validation.groups import GROUPS, grouped
from syncline.validation.groups import group as group_of
from syncline.validation.screen import FEW, answer, fits_of_runs, fits_text, remark, row_columns, sets_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from syncline.validation.figures import Figures, Validation

_CSS = """
:root { color-scheme: light dark; --ink: #1f2429; --faint: #5b6673; --line: #d7dde4; --paper: #f3f5f8; --card: #ffffff;
  --missed: #b34700 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebf1; --faint: #9fabb8; --line: #36414d; --paper: #0f141a; --card: #171d24; --missed: #ff8c42 }
  figure svg { filter: invert(.91) hue-rotate(180deg) }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1160px; padding: 20px; font: 15px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper) }
h1 { margin: 0 0 12px; font-size: 26px; line-height: 1.2 }
h2 { margin: 0 0 6px; font-size: 18px }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px;
  margin: 0 0 16px }
p { margin: 0 0 8px; max-width: 78ch }
p.faint, small { color: var(--faint) }
small { font-size: 12px; font-weight: 400 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child, td.text, th.text { text-align: left }
td.wide { white-space: normal; min-width: 20em; text-align: left }
tr > td { vertical-align: top }
th { color: var(--faint); font-weight: 600 }
td.missed, .missed { color: var(--missed); font-weight: 600 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 12px }
figure { margin: 0; max-width: 700px }
figure svg { width: 100%; height: auto }
details { margin-top: 6px }
summary { cursor: pointer; color: var(--faint) }
@media (max-width: 560px) { body { padding: 10px } section { padding: 14px 12px } h1 { font-size: 22px }
  td:first-child { white-space: normal; min-width: 9em } }
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


class _Html(str):
    """A cell that is HTML already."""

    __slots__ = ()


def _parts(found: Validation) -> Iterator[str]:
    yield "<h1>Predicted and measured training steps</h1>"
    rows = grouped(found.outcomes)
    bars = any(each.bar is not None for each in found.groups)
    legend = f'<p class="faint">{_ERRORS}{_BARS if bars else ""}</p>'
    yield _section("", f"<p>{escape(answer(found))}</p><p>{escape(fits_of_runs(found))}</p>{legend}")
    yield _section("Groups", _figures(found.groups, "group"))
    plots = "".join(
        f'<figure id="{group.name}">{_inline(scatter(group, rows[group.name]), group.name)}</figure>'
        for group in GROUPS
        if any(each.error is not None for each in rows.get(group.name, ()))
    )
    yield _section(
        "Scatter plots",
        f'<p class="faint">{_POINTS}{_DASHED if bars else ""}.</p><div class="plots">{plots}</div>',
    )
    yield _section("Sources", _figures(found.sources, "source"))
    if len(found.outcomes) <= FEW:
        columns = row_columns(found.outcomes)
        yield _section("Rows", _table(tuple(columns), zip(*columns.values(), strict=True)))
    if found.cells:
        yield _section("Fastest configurations", _CELLS + _cells(found))
    yield _section("Outliers", _OUTLIERS + _outliers(found))
    refused = [each for each in found.outcomes if each.refused]
    if refused:
        yield _section(
            "Rows that are not predicted", _by_reason([(each.refused, each.run.id, each.run.model) for each in refused])
        )
    yield _section("Excluded rows", _by_reason([(each.reason, each.id, each.model) for each in found.excluded]))


_ERRORS = "The error of a row is |predicted / measured - 1| of the time of a step; p90 is the 90th percentile."
_BARS = (
    " A bar, such as <small>of 3.5</small>, is the largest error that a group may have; an error in colour misses it."
)
_POINTS = "A point is a measured step. On the line, prediction and measurement agree"
_DASHED = "; beyond the dashed lines, a row counts as an outlier"
_CELLS = (
    '<p class="faint">Of each model and number of servers: which configuration ran fastest, which was predicted to, how'
    " much longer that one takes, and the place of the fastest one in the predicted order.</p>"
)
_OUTLIERS = '<p class="faint">A sign says whether the prediction is too long.</p>'


def _section(title: str, content: str) -> str:
    return f"<section>{f'<h2>{escape(title)}</h2>' if title else ''}{content}</section>"


def _cells(found: Validation) -> str:
    return _table(
        ("model", "servers", "configurations", "fastest", "predicted", "slower by", "place"),
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


def _outliers(found: Validation) -> str:
    """Outliers by group and what is known of them."""
    together: dict[tuple[str, str], list[str]] = {}
    for each in found.outliers:
        said = f"{each.outcome.run.id} {100 * each.error:+.0f} %"
        together.setdefault((group_of(each.group).title, remark(each)), []).append(said)
    rows = ((title, _wide(", ".join(named)), _wide(known)) for (title, known), named in together.items())
    return _table(("group", "rows", "what is known"), rows)


def _by_reason(rows: Iterable[tuple[str, str, str]]) -> str:
    """Reasons with how many rows have them, and which in what can be opened."""
    together: dict[str, list[str]] = {}
    for reason, name, model in rows:
        together.setdefault(reason, []).append(f"{name} ({model})")
    ordered = sorted(together.items(), key=lambda each: (-len(each[1]), each[0]))
    listed = [(_wide(reason), len(named), _names(named)) for reason, named in ordered]
    return _table(("reason", "count", "rows"), listed)


def _names(named: Sequence[str]) -> _Html:
    text = escape(", ".join(named))
    if len(named) <= _OPEN:
        return _Html(f'<td class="wide">{text}</td>')
    return _Html(f'<td class="wide"><details><summary>list</summary>{text}</details></td>')


_OPEN = 3
"""The most rows that are listed without a click."""


def _wide(text: str) -> _Html:
    return _Html(f'<td class="wide">{escape(text)}</td>')


def _figures(figures: Sequence[Figures], heading: str) -> str:
    columns: dict[str, list[object]] = {heading: [], "rows": [], "not predicted": []}
    columns |= {key: [] for key in (*_KEYS, "memory, median", "fits right", "fitted to")}
    for each in figures:
        said = escape(each.title)
        columns[heading].append(_Html(f'<td class="missed">{said}</td>') if each.missed else each.title)
        columns["rows"].append(each.rows)
        columns["not predicted"].append(each.refused or "")
        for key in _KEYS:
            columns[key].append("" if each.step is None else _error(each, key, getattr(each.step, key)))
        columns["memory, median"].append("" if each.memory is None else percent(each.memory.median))
        columns["fits right"].append(_Html(f"<td>{fits_text(each.fits)}</td>"))
        columns["fitted to"].append(sets_text(each))
    kept = {name: cells for name, cells in columns.items() if any(_shown(cell) for cell in cells)}
    return _table(tuple(kept), zip(*kept.values(), strict=True))


def _shown(cell: object) -> bool:
    return cell not in ("", "<td></td>")


def _error(figures: Figures, key: str, error: float) -> _Html:
    """An error beside its bar."""
    most = None if figures.bar is None else getattr(figures.bar, key)
    bar = "" if most is None else f" <small>of {100 * most:g}</small>"
    missed = ' class="missed"' if key in figures.missed else ""
    return _Html(f"<td{missed}>{escape(percent(error))}{bar}</td>")


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [[_cell(each) for each in row] for row in rows]
    if not lines:
        return "<p>None.</p>"
    words = [all(_words(cell) for cell in column) for column in zip(*lines, strict=True)]
    first = "".join(
        f'<th class="text">{escape(each)}</th>' if text else f"<th>{escape(each)}</th>"
        for each, text in zip(head, words, strict=True)
    )
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in lines)
    return f'<div class="scroll"><table><tr>{first}</tr>\n{body}</table></div>'


def _words(cell: str) -> bool:
    """Whether a cell holds words, which begin at the left."""
    return cell.startswith(('<td class="text"', '<td class="wide"')) or cell == "<td></td>"


def _cell(value: object) -> str:
    if isinstance(value, _Html):
        return value
    text = str(value)
    number = isinstance(value, int) or re.fullmatch(r"(< )?[-+]?[\d.]+( %)?", text) or not text
    return f"<td>{escape(text)}</td>" if number else f'<td class="text">{escape(text)}</td>'


def _inline(svg: str, name: str) -> str:
    """The element of an SVG file, with ids that differ from those of other pictures on the page."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', element)
    element = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", element)
    return re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', element)

"""Measured parts of the pages of experiments match the runs. ``UPDATE=1`` rewrites them."""

from __future__ import annotations

import re

import pytest

from experiments.harness import library
from tests.docs.pages import ROOT, UPDATE
from tests.experiments.conftest import figures_with_slow_ones, judged, papers_with_slow_ones, studied

_MEASURED = re.compile(r"(?<=<!-- measured: )(?P<name>\w+)(?P<open> -->\n)(?P<text>.*?)(?=<!-- end -->)", re.S)


def markdown(headings, rows, numbers=()):
    """A Markdown table; columns of numbers are right-aligned."""
    rule = ["---:" if heading in numbers else "---" for heading in headings]
    lines = [headings, rule, *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def verdicts(study):
    """Claims, measured values, verdicts and reasons."""
    parts = [""]
    for each in study.verdicts:
        parts.append(f"**{each.claim.id}**, {each.claim.where}: {each.claim.text}")
        parts.append(f"- measured: {each.measured}")
        parts.append(f"- **{each.word}**. {each.why}\n")
    return "\n".join(parts)


def table(study, name):
    """A table of a figure as Markdown; None if the data that it needs is not here."""
    (found,) = [each for each in study.tables if each.name == name]
    if found.missing:
        return None
    headings, rows = found.headings(), found.shown()
    numbers = [
        heading
        for heading, column in zip(headings, zip(*found.rows, strict=True), strict=True)
        if any(isinstance(value, int | float) for value in column)
    ]
    title = "" if name == "sensitivity" else f"\n{found.title}:\n"
    return title + markdown(headings, rows, numbers)


def claims(name, verdicts):
    """A figure's rows in the overview of its paper."""
    return [
        [f"[{each.claim.where}]({name}/README.md)", each.claim.id, each.claim.text, f"**{each.word}**", each.measured]
        for each in verdicts
    ]


def overview(paper):
    """All claims of a paper with their verdicts."""
    rows = [row for name in library.figures(paper) for row in claims(name, judged(paper, name))]
    return markdown(["figure", "claim", "what the paper says", "verdict", "measured"], rows)


def compare(page, measured):
    """Compares the marked parts of a page with measurements, or rewrites them; returns the names of the parts.

    ``measured`` returns None for parts to be left as they are.
    """
    written = page.read_text("utf-8")

    def replaced(found):
        text = measured(found["name"])
        return found["name"] + found["open"] + (found["text"] if text is None else text)

    current = _MEASURED.sub(replaced, written)
    if UPDATE:
        page.write_text(current, "utf-8")
    else:
        assert current == written, f"UPDATE=1 rewrites {page.relative_to(ROOT)} if the change is meant"
    return [found["name"] for found in _MEASURED.finditer(written)]


@pytest.mark.parametrize("experiment", figures_with_slow_ones())
def test_the_page_of_a_figure_shows_its_tables_and_verdicts(experiment):
    study = studied(experiment.paper, experiment.name)
    parts = compare(
        experiment.folder / "README.md", lambda name: verdicts(study) if name == "verdicts" else table(study, name)
    )
    listed = [each.name for each in study.tables if each.listed]
    assert parts == ["verdicts", *listed], "a page shows every table that the terminal shows, in order"
    page = (library.ROOT / experiment.paper / "README.md").read_text("utf-8")
    rows = [f"| {' | '.join(row)} |\n" for row in claims(experiment.name, study.verdicts)]
    assert UPDATE or "".join(rows) in page, "the overview of the paper has the same rows"


@pytest.mark.parametrize("paper", papers_with_slow_ones())
def test_the_page_of_a_paper_shows_its_overview(paper):
    assert compare(library.ROOT / paper / "README.md", lambda _: overview(paper)) == ["overview"]

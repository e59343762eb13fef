"""The pictures on the page about fabrics match the example."""

from __future__ import annotations

import re

import pytest

from syncline.report.drawings.svg import svg
from tests.docs.pages import ROOT, UPDATE
from tests.docs.reference import FAMILIES, family

PAGE = ROOT / "docs/reference/fabrics.md"
FOLDER = ROOT / "docs/reference/fabrics"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_picture_is_current(name):
    made, file = svg(family(name), name), FOLDER / f"{name}.svg"
    if UPDATE:
        FOLDER.mkdir(exist_ok=True)
        file.write_text(made, "utf-8")
    assert file.read_text("utf-8") == made, "UPDATE=1 pytest tests/docs redraws it"


def test_every_scenario_is_on_the_page_with_its_picture():
    scenarios = {path.stem for path in (ROOT / "examples/fabrics").glob("*.yaml")}
    assert scenarios == set(FAMILIES) == {path.stem for path in FOLDER.glob("*.svg")}
    assert re.findall(r"\(fabrics/([\w-]+)\.svg\)", PAGE.read_text("utf-8")) == list(FAMILIES)


def test_every_heading_is_linked():
    headings = set(re.findall(r"^## (.+)$", PAGE.read_text("utf-8"), re.M))
    assert {words[:1].upper() + words[1:] for words in FAMILIES.values()} <= headings

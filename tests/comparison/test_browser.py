"""A comparison in a browser: there is no error, and every chart is drawn with the numbers of the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline.comparison.page import page
from syncline.quantity import signed, time
from tests.comparison.runs import alone, job
from tests.conftest import ROOT
from tests.report.browser import LOOKS, PAINTED, Page, needed

pytestmark = needed


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[syncline.Comparison, Path]:
    scenario = ROOT / "examples" / "transformer-hybrid" / "scenario.yaml"
    runs = [syncline.simulate(scenario, set=changed) for changed in ({}, {"workload.batch_per_npu": 16})]
    found = syncline.compare(*runs)
    file = tmp_path_factory.mktemp("comparison") / "compare.html"
    found.save(file)
    return found, file


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_chart_is_drawn(browser: Any, example: tuple[syncline.Comparison, Path], width: int, scheme: str) -> None:
    opened = Page(browser, example[1], width, scheme)
    charts = opened.charts()
    assert set(charts) == {
        "compare_difference",
        "compare_layers",
        "compare_collectives",
        "compare_phases",
        "compare_dimensions",
    }
    for name, section in charts.items():
        assert section.query_selector(".canvas canvas").evaluate(PAINTED) > 20, name
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.page.evaluate("document.documentElement.dataset.theme") == scheme
    # No text at the top of the page is cut off.
    for table in opened.page.query_selector_all(".scroll.open"):
        assert table.evaluate("box => box.scrollWidth <= box.clientWidth")
    assert not opened.complaints


def test_charts_show_the_numbers_of_the_runs(browser: Any, example: tuple[syncline.Comparison, Path]) -> None:
    found, file = example
    opened = Page(browser, file)
    opened.charts()
    assert opened.page.text_content(".lead") == found.sentences[0]
    rows = opened.page.eval_on_selector_all(
        "table.parts tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert [row[:4] for row in rows] == [
        [each.name, time(each.a_s), time(each.b_s), signed(each.difference_s)]
        for each in (*found.parts, *found.per_work)
    ]
    # The page's script writes the tables below charts; their digits equal those on the terminal.
    layers = opened.table("compare_layers")[1:]
    assert [row[0] for row in layers] == [each.name for each in found.model]
    assert [row[2] for row in layers] == [time(each.exposed.a_s) for each in found.model]
    assert [row[4] for row in layers] == [time(each.exposed.b_s) for each in found.model]
    # The longer run has the longer bar.
    widths = opened.page.eval_on_selector_all(".runs .step", "bars => bars.map(bar => bar.clientWidth)")
    assert widths[1] / widths[0] == pytest.approx(found.step.ratio, rel=0.02)
    assert not opened.complaints


def test_every_chart_has_a_name_and_a_table(browser: Any, example: tuple[syncline.Comparison, Path]) -> None:
    opened = Page(browser, example[1])
    for name, section in opened.charts().items():
        canvas = section.query_selector(".canvas")
        assert canvas.get_attribute("role") == "img"
        assert len(canvas.get_attribute("aria-label")) > 40
        assert len(opened.table(name)) > 1, name


def test_pages_of_unusual_pairs_fit_a_narrow_screen(browser: Any, tmp_path: Path) -> None:
    pairs = {
        "alone": (alone(), alone("50GB/s")),
        "unlike": (job(), alone()),
        "cut": (job(), job(limits__events=2000)),
    }
    for name, (a, b) in pairs.items():
        file = tmp_path / f"{name}.html"
        file.write_bytes(page(syncline.compare(a, b)))
        opened = Page(browser, file, 390)
        assert opened.charts()
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert not opened.complaints

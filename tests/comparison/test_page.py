"""The page of a comparison."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import syncline
from syncline.comparison.page import page
from tests.comparison.runs import alone, job
from tests.report.runs import HOSTILE, SMALL, embedded


@pytest.fixture(scope="module")
def found() -> syncline.Comparison:
    return syncline.compare(job(), job(fabric__dims__ring__rate="50GB/s"))


def test_the_page_contains_the_answer_and_the_numbers(found: syncline.Comparison) -> None:
    html = page(found).decode()
    for sentence in found.sentences:
        assert sentence.replace(">", "&gt;") in html
    data = {name: chart["data"] for name, chart in embedded(html).items()}
    series = {each["name"]: each["values"] for each in data["compare_layers"]["series"]}
    layers = job().table("layers")
    assert data["compare_layers"]["label"] == layers["layer"]
    assert series["A exposed communication"] == pytest.approx(layers["exposed_communication_s"], rel=1e-5)
    differences = {each["name"]: each["values"] for each in data["compare_difference"]["series"]}
    whole = sum(sum(values) for values in differences.values())
    assert whole == pytest.approx(found.step.difference_s, rel=1e-3)


def test_only_charts_with_data_are_shown(found: syncline.Comparison) -> None:
    assert list(embedded(page(found).decode())) == [
        "compare_difference",
        "compare_layers",
        "compare_collectives",
        "compare_phases",
        "compare_dimensions",
    ]
    communication = page(syncline.compare(alone(), alone("50GB/s"))).decode()
    assert set(embedded(communication)) == {"compare_collectives", "compare_phases", "compare_dimensions"}
    same = page(syncline.compare(job(), job(name="other"))).decode()
    assert set(embedded(same)) == {"compare_layers", "compare_dimensions"}
    assert "A and B are the same in every number" in same


def test_warnings_come_before_the_answer() -> None:
    html = page(syncline.compare(job(), job(fabric__dims__ring__size=2))).decode()
    assert html.index("A has 8 ranks and B 4") < html.index('id="answer"')


def test_names_are_escaped_in_the_page() -> None:
    other = syncline.simulate(SMALL, set={"fabric.rate": "50GB/s"})
    html = page(syncline.compare(syncline.simulate(SMALL), other)).decode()
    assert HOSTILE not in html
    assert html.count("</script>") == 2
    assert HOSTILE in embedded(html)["compare_layers"]["data"]["label"]


def test_the_page_loads_nothing_from_elsewhere(found: syncline.Comparison) -> None:
    html = page(found).decode()
    tags = re.findall(r"<[a-z][^>]*>", html[: html.index('<script type="application/json"')])
    assert not [tag for tag in tags if re.search(r"(?:src|href)=\"?[^\"#]", tag)]
    assert "default-src 'none'" in html


def test_the_page_is_the_same_every_time(found: syncline.Comparison) -> None:
    assert page(found) == page(syncline.compare(found.a, found.b))


def test_a_page_is_saved(found: syncline.Comparison, tmp_path: Path) -> None:
    found.save(tmp_path / "compare.html")
    assert (tmp_path / "compare.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_notebook_shows_the_answer_and_a_chart(found: syncline.Comparison) -> None:
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "data-chart=&quot;compare_difference&quot;" in shown
    assert "B is 1.2x faster" in shown
    assert str(found).startswith("A  job")
    assert repr(found).startswith("<Comparison: B is 1.2x faster")

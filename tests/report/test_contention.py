"""The report's charts of links that delay messages."""

from __future__ import annotations

import pytest

import syncline
from syncline.report.html import contention
from syncline.report.html.charts import CHARTS
from syncline.report.html.page import report
from syncline.report.html.source import Source
from tests.report.runs import HOSTILE, SMALL, embedded, flows


@pytest.fixture(scope="module")
def shared() -> syncline.Result:
    return flows()


def test_delays_match_the_table(shared: syncline.Result) -> None:
    table, data = shared.table("contention"), embedded(report(shared).decode())["contention"]["data"]
    by_link: dict[str, float] = {}
    for row, waited in enumerate(table["waiting_s"]):
        link = f"{table['from'][row]} to {table['to'][row]}"
        by_link[link] = by_link.get(link, 0.0) + waited
    drawn = {link: sum(cause["waiting"][at] for cause in data["causes"]) for at, link in enumerate(data["link"])}
    assert drawn == pytest.approx(by_link, rel=1e-5)
    assert list(drawn.values()) == sorted(drawn.values(), reverse=True)
    assert sum(data["messages"]) == sum(table["messages"])
    assert sum(data["bytes"]) == sum(table["sent_bytes"])
    assert {cause["name"] for cause in data["causes"]} == {
        f"{name}, all-to-all" for name in (HOSTILE, "second", "third")
    }


def test_the_worst_link_is_named_with_its_layer(shared: syncline.Result) -> None:
    chart = CHARTS["contention"](Source(shared))
    assert chart is not None
    # Three hosts of a rack send to three of the other over half the rate of one of them.
    assert "leaf" in chart.data["link"][0]
    assert "spine" in chart.data["link"][0]
    assert chart.finding.startswith(f"The link from {chart.data['link'][0]} ")
    most = max(chart.data["causes"], key=lambda cause: cause["waiting"][0])
    assert f"are those of {most['name']}, the most of any layer." in chart.finding


def test_only_the_main_causes_and_links_are_listed(shared: syncline.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CHARTS["contention"](Source(shared))
    monkeypatch.setattr(contention, "CAUSES", 1)
    monkeypatch.setattr(contention, "LINKS", 2)
    cut = CHARTS["contention"](Source(shared))
    assert whole is not None
    assert cut is not None
    assert cut.data["link"] == whole.data["link"][:2]
    assert [cause["name"] for cause in cut.data["causes"]][1:] == ["others"]
    for at in range(2):
        whole_sum, cut_sum = (sum(cause["waiting"][at] for cause in chart.data["causes"]) for chart in (whole, cut))
        assert cut_sum == pytest.approx(whole_sum, rel=1e-5)
    assert cut.notes == (f"{len(whole.data['link']) - 2} links more with shorter delays are not drawn.",)


def test_runs_without_flows_have_no_such_chart() -> None:
    assert CHARTS["contention"](Source(syncline.simulate(SMALL))) is None

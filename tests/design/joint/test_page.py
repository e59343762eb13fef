"""The page of a search: its charts are drawn, and its numbers are those of the search."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncline.design.joint import Found, Traffic, page_of, traffic_of
from syncline.design.joint.charts import all_of, blocks
from syncline.quantity import size, time
from tests.design.joint.test_search import found
from tests.report.browser import LOOKS, PAINTED, Page, needed

__all__ = ["found"]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@needed
def test_every_chart_is_drawn(browser: Any, found: Found, tmp_path: Path, width: int, scheme: str) -> None:
    (file := tmp_path / "report.html").write_bytes(page_of(found))
    opened = Page(browser, file, width, scheme)
    charts = opened.charts()
    assert set(charts) == {"design_networks", "design_topology", "design_traffic", "design_progress"}
    for section in charts.values():
        assert opened.page.evaluate(PAINTED, section.query_selector("canvas")) > 2
    # By load, and by each purpose.
    select = charts["design_topology"].query_selector("select")
    for option in range(len(select.query_selector_all("option"))):
        select.select_option(str(option))
    assert not opened.complaints


@needed
def test_tables_show_the_numbers_of_the_search(browser: Any, found: Found, tmp_path: Path) -> None:
    (file := tmp_path / "report.html").write_bytes(page_of(found))
    opened = Page(browser, file)
    rows = {name: opened.table(name)[1:] for name in opened.charts()}
    assert rows["design_networks"][0][:3] == ["direct links", time(found.answer.step_s), time(found.answer.start_s)]
    assert [row[1] for row in rows["design_networks"][1:]] == [time(each.answer.step_s) for each in found.others]
    assert len(rows["design_topology"]) == len(found.topology.links)
    sent = traffic_of(found)
    largest = max(sent.total(a, b) for a in range(8) for b in range(8))
    first = rows["design_traffic"][0]
    assert sent.total(int(first[0]), int(first[1])) == largest
    assert first[2] == size(sent.all_reduces[int(first[0])][int(first[1])]) or first[2] == "0 B"


def test_the_page_says_what_the_files_say(found: Found) -> None:
    text = page_of(found).decode()
    values = dict(re.findall(r'data-key="(\w+)" data-value="([^"]+)"', text))
    assert float(values["step_s"]) == found.answer.step_s
    assert float(values["usd"]) == found.usd
    assert {key for key in values if key.endswith("_step_s")} == {
        f"{each.baseline.name}_step_s" for each in found.others
    }


def test_links_have_a_purpose_and_a_load(found: Found) -> None:
    data = next(chart.data for chart in all_of(found) if chart.name == "design_topology")
    for ends in (data["from"], data["to"]):
        used: Counter[int] = Counter()
        for server, count in zip(ends, data["count"], strict=True):
            used[server] += count
        assert set(used) == set(range(8)) and max(used.values()) == 3
    assert set(data["purpose"]) == set(range(len(data["purposes"])))
    assert found.result is not None
    links = found.result.table("links")
    assert sorted(data["busy"]) == pytest.approx(sorted(links["utilization"]), rel=1e-5)
    # A ring of stride p contains, for each server, the link to the server p further on.
    for place, name in enumerate(data["purposes"]):
        if name.startswith("ring of stride "):
            ends = zip(data["from"], data["to"], data["purpose"], strict=True)
            steps = {(target - source) % 8 for source, target, purpose in ends if purpose == place}
            assert steps == {int(name.rsplit(" ", 1)[1])}


def test_blocks_of_servers_keep_the_sums() -> None:
    servers = 300
    matrix = [[(a * 7 + b) % 5 if a != b else 0 for b in range(servers)] for a in range(servers)]
    sent = Traffic(matrix, [[0] * servers for _ in range(servers)])
    block, cells = blocks(sent)
    assert block == 3
    assert sum(cells["transfers"]) == sum(map(sum, matrix))
    at = list(zip(cells["row"], cells["column"], strict=True)).index((2, 99))
    assert cells["transfers"][at] == sum(matrix[a][b] for a in range(6, 9) for b in range(297, 300))


def test_names_are_escaped_in_the_page(found: Found) -> None:
    spec = found.request.spec.model_copy(update={"name": "<script>alert(1)</script>"})
    text = page_of(replace(found, request=replace(found.request, spec=spec))).decode()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert set(json.loads(data[1])) == {chart.name for chart in all_of(found)}

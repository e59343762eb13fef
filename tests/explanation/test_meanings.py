"""Meanings of names in results match the tables' own descriptions, and names are found."""

from __future__ import annotations

import re

import pytest

import syncline
from syncline.explanation import meanings
from syncline.report.html.charts import CHARTS
from syncline.report.html.source import Source
from tests.conftest import ROOT
from tests.docs.reference import manifest


def plain(kind: str) -> str:
    """The type of a column without the prefix that marks optional columns, which depends on the run."""
    return kind.removeprefix("optional_")


def test_columns_match_a_manifest() -> None:
    listed = [
        (table["name"], column["name"], plain(column["type"]), column["meaning"], table["meaning"])
        for table in manifest()["tables"]
        for column in table["columns"]
    ]
    found = [(each.table, each.name, plain(each.type), each.meaning, each.row) for each in meanings.everything()]
    assert [each for each in found if each[0] != meanings.SUMMARY] == listed


@pytest.mark.parametrize("each", meanings.everything(), ids=lambda each: each.full_name)
def test_the_page_for_each_name_has_its_heading(each: meanings.Meaning) -> None:
    page, heading = each.page
    assert re.search(rf"^#+ {re.escape(heading)}$", (ROOT / page).read_text("utf-8"), re.M)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("queue_delay_s", ["phases.queue_delay_s"]),
        ("phases.queue_delay_s", ["phases.queue_delay_s"]),
        ("exposed_fraction", ["summary.exposed_fraction"]),
        ("summary.exposed_fraction", ["summary.exposed_fraction"]),
        ("dims.carried_bytes", ["summary.dims[].carried_bytes"]),
        ("summary.dims[].carried_bytes", ["summary.dims[].carried_bytes"]),
        ("utilization", ["summary.dims[].utilization", "links.utilization"]),
        ("compute_s", ["summary.compute_s", "summary.jobs[].compute_s", "layers.compute_s", "ranks.compute_s"]),
        ("phases.nothing", []),
    ],
)
def test_a_name_finds_its_columns(name: str, found: list[str]) -> None:
    # Later tables may have a column of the same name.
    assert [each.full_name for each in meanings.find(name)][: len(found) or None] == found


def test_the_name_of_a_table_finds_all_its_columns() -> None:
    assert {each.table for each in meanings.find("links.parquet")} == {"links"}
    assert {each.table for each in meanings.find("phases")} == {"phases"}
    # Columns of the same name take precedence over the table.
    assert {each.name for each in meanings.find("ranks")} == {"ranks", "jobs[].ranks"}
    assert len(meanings.find("ranks.parquet")) > 5


def test_units_follow_from_the_names() -> None:
    (rate,) = meanings.find("links.rate_bytes_per_s")
    (share,) = meanings.find("links.utilization")
    (count,) = meanings.find("links.messages")
    assert [each.unit for each in (rate, share, count)] == ["bytes per second", "fraction", ""]


def test_every_listed_name_is_found() -> None:
    assert all(meanings.find(name) for name in meanings.names())


def test_sent_and_carried_bytes_differ() -> None:
    """A message counts once in sent bytes, and on each link in carried bytes: twice through a switch."""
    result = syncline.simulate(
        workload={"collective": "all_reduce", "bytes": "4MB"},
        fabric={"shape": "Switch(4)", "rate": "10GB/s", "latency": "1us"},
    )
    (dim,) = result.summary.dims
    assert sum(result.table("ranks")["sent_bytes"]) == result.summary.bytes
    assert sum(result.table("links")["carried_bytes"]) == dim.carried_bytes == 2 * result.summary.bytes
    shown = CHARTS["dimensions"](Source(result))
    assert shown is not None and shown.data["bytes"] == [dim.carried_bytes]
    screen = str(result)
    assert "carried" in screen and "sent" not in screen

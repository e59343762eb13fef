"""The report's charts of tiers of links, and the times in which they are full."""

from __future__ import annotations

import pytest

import syncline
from syncline.explanation.explanation import explain
from syncline.report.html.charts import CHARTS
from syncline.report.html.source import Source
from tests.report.runs import SMALL, flows


@pytest.fixture(scope="module")
def racks() -> syncline.Result:
    return flows()


def lanes(result: syncline.Result) -> dict[str, dict[str, list[float]]]:
    chart = CHARTS["activity"](Source(result))
    assert chart is not None
    return {lane["name"]: lane for lane in chart.data["lanes"]}


def test_each_tier_has_a_lane_for_each_direction(racks: syncline.Result) -> None:
    table, drawn = racks.table("tiers"), lanes(racks)
    assert list(drawn) == ["compute", "host-leaf up", "host-leaf down", "leaf-spine up", "leaf-spine down"]
    for name, lane in drawn.items():
        if name == "compute":
            assert "dimension" not in lane
            continue
        tier, _, way = name.partition(" ")
        rows = [row for row, each in enumerate(zip(table["tier"], table["way"], strict=True)) if each == (tier, way)]
        assert lane["mean"] == pytest.approx([table["utilization"][row] for row in rows], rel=1e-5)
        assert lane["busiest"] == pytest.approx([table["busiest_utilization"][row] for row in rows], rel=1e-5)
    # Both directions of a tier have the same colour; tiers have different ones.
    assert [lane.get("dimension") for lane in drawn.values()] == [None, 0, 0, 1, 1]


def test_a_full_tier_is_reported_with_its_time(racks: syncline.Result) -> None:
    """Three hosts of a rack send to three of the other over half the rate of one host: only uplinks are full."""
    chart, table = CHARTS["activity"](Source(racks)), racks.table("tiers")
    assert chart is not None
    assert "All 2 leaf-spine links up are full from " in chart.finding
    full = [row for row, name in enumerate(table["tier"]) if (name, table["way"][row]) == ("leaf-spine", "up")]
    full = [row for row in full if table["full_links"][row] == 2]
    assert len(full) > 10
    assert all(table["utilization"][row] >= 0.99 for row in full)
    assert not any(
        number for number, tier in zip(table["full_links"], table["tier"], strict=True) if tier == "host-leaf"
    )


def test_without_a_full_link_the_largest_utilisation_is_reported(racks: syncline.Result) -> None:
    calm = syncline.simulate(
        workload={"collective": "all_to_all", "bytes": "1kB"},
        fabric={"leaf_spine": {"leaves": 2, "hosts_per_leaf": 2, "spines": 1, "rate": "100Gb/s", "latency": "50us"}},
        network="flow",
    )
    chart = CHARTS["activity"](Source(calm))
    assert chart is not None
    assert "No link is ever full. The network is used most at " in chart.finding


def test_strips_of_links_are_grouped_by_tier(racks: syncline.Result) -> None:
    chart, links = CHARTS["fabric"](Source(racks)), racks.table("links")
    assert chart is not None
    counts = {strip["name"]: strip["links"] for strip in chart.data["strips"]}
    assert counts == {"host-leaf up": 6, "host-leaf down": 6, "leaf-spine up": 2, "leaf-spine down": 2}
    assert set(zip(links["tier"], links["way"], strict=True)) == {tuple(name.split(" ")) for name in counts}
    assert "All links of a tier carry about the same." in chart.finding


def test_regular_fabrics_keep_their_dimensions() -> None:
    result = syncline.simulate(SMALL)
    assert "tiers" not in result.tables
    assert list(lanes(result)) == ["compute", "dim1", "dim2"]
    links = result.table("links")
    assert links["tier"] == links["dimension"]
    assert set(zip(links["tier"], links["way"], strict=True)) == {("dim1", ""), ("dim2", "up"), ("dim2", "down")}


def test_the_busiest_link_of_a_tier_is_reported_if_known() -> None:
    """With `analytical`, messages do not queue on uplinks, so the busy time of uplinks is unknown."""
    built = {
        "leaf_spine": {
            "leaves": 2,
            "hosts_per_leaf": 4,
            "spines": 1,
            "rate": "100Gb/s",
            "uplink_rate": "100Gb/s",
            "latency": "1us",
        }
    }
    workload = {"collective": "all_to_all", "bytes": "8MB"}
    for network, outside in (("analytical", " outside leaf-spine"), ("queued", "")):
        result = syncline.simulate(workload=workload, fabric=built, network=network)
        chart = CHARTS["dimensions"](Source(result))
        assert chart is not None
        busy = [dim.busiest_link_busy for dim in result.summary.dims]
        assert chart.data["busiest"] == busy
        assert (busy[1] is None) == bool(outside)
        assert f"The busiest link{outside}, " in chart.finding
        assert f"The busiest link{outside} is " in "".join(
            line for section in explain(result) for line in section.paragraphs
        )
        for dim, share in zip(result.summary.dims, busy, strict=True):
            assert share is None or share > dim.utilization - 1e-12 > 0.1

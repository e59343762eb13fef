"""The report's charts of packets."""

from __future__ import annotations

from typing import Any

import pytest

import syncline
from syncline.report.html.packets import _percentiles
from syncline.report.html.page import report
from tests.report.runs import OF_PACKETS, SMALL, embedded, incast, packets


@pytest.fixture(scope="module")
def lossy() -> syncline.Result:
    return packets()


def chart(result: syncline.Result, name: str) -> dict[str, Any]:
    found: dict[str, Any] = embedded(report(result).decode())[name]
    return found


def rows(result: syncline.Result, dimension: str) -> dict[str, list[Any]]:
    """The rows of the table of queues for a dimension."""
    table = result.table("queues")
    kept = [row for row, name in enumerate(table["dimension"]) if name == dimension]
    return {column: [values[row] for row in kept] for column, values in table.items()}


def test_losses_match_the_tables(lossy: syncline.Result) -> None:
    found = chart(lossy, "losses")
    assert {dim["name"] for dim in found["data"]["dims"]} == {"up", "out"}
    for dim in found["data"]["dims"]:
        table = rows(lossy, dim["name"])
        assert dim["dimension"] == ["up", "out"].index(dim["name"])
        # Kinds of events that did not occur are left out.
        assert set(dim["counts"]) == {"timeouts", "retransmissions", "dropped"}
        assert all(dim["counts"][kind] == table[kind] for kind in dim["counts"])
        assert dim["start"] == pytest.approx(table["start_s"], rel=1e-5)
        assert len(dim["utilization"]["mean"]) == len(dim["utilization"]["busiest"]) > 10
    # The worst dimension comes first, with its sums.
    (worst, other), counts = found["data"]["dims"], found["data"]["dims"][0]["counts"]
    assert sum(counts["timeouts"]) >= sum(other["counts"]["timeouts"])
    said = f"In dimension {worst['name']}: {sum(counts['timeouts'])} time-outs, "
    assert found["finding"].startswith(f"{said}{sum(counts['retransmissions'])} segments sent again and ")
    assert found["finding"].endswith(f"Also in dimension {other['name']}.")
    assert "first two iterations" in report(lossy).decode()


def test_idle_time_of_the_network_is_reported() -> None:
    result = incast(buffer="1MiB", initial_window=100, min_timeout="1ms")
    finding = chart(result, "losses")["finding"]
    table = result.table("activity")
    still = sum(
        end - start
        for start, end, busiest in zip(table["start_s"], table["end_s"], table["busiest_utilization"], strict=True)
        if busiest < 0.1
    )
    share = 100 * still / result.summary.total_time_s
    assert share > 30
    assert f"For {share:.1f} % of the time, no link there carries more than a tenth" in finding
    # With only one dimension, its name is left out.
    assert "In dimension" not in finding


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (lambda: packets(mark="5kB", buffer="16MiB"), "marked"),
        (lambda: incast(transport="rdma", congestion="none", buffer="512KiB"), "pauses"),
    ],
    ids=["marks", "pauses"],
)
def test_marks_and_pauses_are_not_reported_as_losses(run: Any, kind: str) -> None:
    result = run()
    found = chart(result, "losses")
    assert found["title"] == "Congestion over time"
    assert found["finding"].startswith("Nothing is lost. ")
    assert {each for dim in found["data"]["dims"] for each in dim["counts"]} == {kind}
    assert sum(sum(dim["counts"][kind]) for dim in found["data"]["dims"]) == sum(result.table("queues")[kind])


def test_queues_and_their_limits_match_the_tables(lossy: syncline.Result) -> None:
    found = chart(lossy, "queues")
    for lane in found["data"]["lanes"]:
        table = rows(lossy, lane["name"])
        assert lane["longest"] == table["longest_queue_bytes"]
        assert lane["mean"] == pytest.approx(table["mean_queue_bytes"], rel=1e-5)
        # A switch of four ports.
        assert lane["limit"] == 8 * 1024
        assert max(lane["longest"]) <= lane["limit"]
    ports = lossy.table("ports")
    switches = [row for row, name in enumerate(ports["from"]) if not name.startswith("NPU")]
    row = max(switches, key=lambda row: (ports["longest_queue_bytes"][row], -row))
    assert f"from {ports['from'][row]} to {ports['to'][row]}" in found["finding"]
    assert "8 KiB that it may hold" in found["finding"]


def test_unlimited_queues_show_no_limit() -> None:
    for result in (
        packets(buffer="unlimited"),
        packets(sharing="dynamic", buffer="1MiB"),
        incast(transport="rdma", congestion="none", buffer="512KiB"),
    ):
        found = chart(result, "queues")
        assert all("limit" not in lane for lane in found["data"]["lanes"])
        assert "may hold" not in found["finding"]


def test_round_trips_match_the_summary(lossy: syncline.Result) -> None:
    found, answer = chart(lossy, "round_trips")["data"], lossy.summary.packets
    assert answer is not None
    curves = {curve["name"]: curve for curve in found["curves"]}
    assert list(curves) == ["up", "out", "all connections"]
    values = curves["all connections"]["values"]
    assert (len(values), values) == (100, sorted(values))
    assert values[49] == pytest.approx(answer.rtt_p50_s, rel=1e-5)
    assert values[98] == pytest.approx(answer.rtt_p99_s, rel=1e-5)
    trips = [trip for trip in lossy.table("flows")["rtt_s"] if trip]
    assert values[-1] == pytest.approx(max(trips), rel=1e-5)
    assert (found["mean"], sum(trips) / len(trips)) == (answer.rtt_mean_s, pytest.approx(answer.rtt_mean_s))
    assert curves["up"]["count"] + curves["out"]["count"] == len(trips)


def test_a_connection_belongs_to_the_highest_dimension_on_its_path(lossy: syncline.Result) -> None:
    """Dimension `up` joins four consecutively numbered NPUs."""
    flows = lossy.table("flows")
    pods = [[int(name.removeprefix("NPU ")) // 4 for name in flows[end]] for end in ("from", "to")]
    assert flows["dimension"] == ["up" if start == end else "out" for start, end in zip(*pods, strict=True)]
    assert set(flows["dimension"]) == {"up", "out"}


def test_connections_have_the_names_of_their_ends() -> None:
    result = syncline.simulate(
        workload={"collective": "all_to_all", "bytes": "64kB"},
        fabric={
            "npus": ["ada", "bob"],
            "switches": ["top"],
            "links": [{"from": name, "to": "top", "rate": "100Gb/s"} for name in ("ada", "bob")],
        },
        network="packet",
    )
    flows = result.table("flows")
    assert set(zip(flows["from"], flows["to"], strict=True)) == {("ada", "bob"), ("bob", "ada")}
    assert set(flows["dimension"]) == {"network"}


def test_percentiles_use_the_nearest_rank() -> None:
    assert _percentiles([3.0, 1.0, 2.0])[:34] == [1.0] * 33 + [2.0]
    assert _percentiles([5.0]) == [5.0] * 100
    assert _percentiles([float(value) for value in range(1, 201)]) == [float(value) for value in range(2, 201, 2)]


def test_a_lossless_run_has_only_queues_and_round_trips() -> None:
    found = embedded(report(packets(buffer="unlimited")).decode())
    assert [name in found for name in OF_PACKETS] == [False, True, True]
    # Without switches there are no queues of switches.
    ring = syncline.simulate(
        workload={"collective": "all_reduce", "bytes": "1MB"},
        fabric={"shape": "Ring(4)", "rate": "25GB/s"},
        network="packet",
    )
    found = embedded(report(ring).decode())
    assert [name in found for name in OF_PACKETS] == [False, False, True]
    assert found["round_trips"]["finding"].startswith("All of 8 connections have round trips of about ")


def test_other_models_have_no_charts_of_packets() -> None:
    result = syncline.simulate(SMALL)
    assert not {*OF_PACKETS} & {*embedded(report(result).decode())}
    with pytest.raises(ValueError, match="no data for the chart 'losses'"):
        result.plot("losses")


def test_each_chart_is_available_as_a_plot(lossy: syncline.Result) -> None:
    for name in OF_PACKETS:
        plot = lossy.plot(name)
        assert list(embedded(plot.html)) == [name]
        assert plot.finding == chart(lossy, name)["finding"]

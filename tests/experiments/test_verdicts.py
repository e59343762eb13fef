"""Both outcomes of each verdict, on made-up tables."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from experiments.astra2020 import fig09, fig10, fig12, fig17, training
from experiments.astra2020.bandwidth_test import MIB, SIZES
from experiments.astra2020.delays import PARTS
from experiments.dlrm2020 import all_reduce
from experiments.dlrm2020 import fig07 as dlrm07
from experiments.dlrm2020 import fig08 as dlrm08
from experiments.dlrm2020 import fig09 as dlrm09
from experiments.dlrm2020 import fig10 as dlrm10
from experiments.dlrm2020.apart import Draws
from experiments.harness.runner import Runner
from experiments.harness.table import Table, share

RUNNER = Runner(quick=True)


def alltoall_against_torus(ratios):
    """A table of Figure 9 with these ratios at the sizes of a quick run."""
    table = fig09.measure(RUNNER).table("times")
    rows = []
    for kind in ("all_to_all", "all_reduce"):
        sizes = table.column("size_bytes", collective=kind)
        rows += [(kind, size, 1.0, ratio, ratio) for size, ratio in zip(sizes, ratios, strict=True)]
    table.rows = rows
    return table


@pytest.mark.parametrize(
    ("ratios", "all_to_all", "all_reduce"),
    [
        ((3.0, 2.0, 1.5), True, False),
        ((3.0, 1.2, 0.9), False, True),
        ((3.0, 2.0, 2.5), False, False),
        ((0.9, 0.8, 0.7), False, False),
        ((3.0, 0.9, 1.1), False, False),
    ],
)
def test_the_verdicts_of_figure_9_follow_the_ratios(ratios, all_to_all, all_reduce):
    table = alltoall_against_torus(ratios)
    assert fig09._all_to_all(RUNNER, table).holds == all_to_all
    assert fig09._all_reduce(RUNNER, table).holds == all_reduce


def dimensions(faster_up_to):
    """Tables of Figure 10 in which 4x4x4 is faster than 1x8x8 up to a size."""
    times = Table("times", "", ("collective", "size_bytes", *(f"{name}_s" for name in fig10.TOPOLOGIES)))
    for size in SIZES:
        times.add("all_reduce", size, 4.0, 2.0, 3.0, 1.0 if size <= faster_up_to else 2.5)
    links = fig10.measure(RUNNER).table("links")
    return times, links


def test_the_verdicts_of_figure_10_follow_the_times():
    assert fig10._up_to(*dimensions(4 * MIB)).holds
    assert not fig10._up_to(*dimensions(2 * MIB)).holds
    assert not fig10._up_to(*dimensions(SIZES[-1])).holds
    times, links = dimensions(4 * MIB)
    assert fig10._order(times, links).holds
    times.rows[3] = ("all_reduce", SIZES[3], 1.0, 2.0, 3.0, 2.5)
    verdict = fig10._order(times, links)
    assert not verdict.holds
    assert "1x8x8 faster than 1x64x1 at 256 KiB" in verdict.measured


@pytest.mark.parametrize(("queue", "holds"), [(5.0, True), (0.5, False)])
def test_the_verdict_of_figure_12_follows_the_queue(queue, holds):
    shares = Table("delays", "", ("size_bytes", "system", *PARTS))
    for system in ("2x4x2", "2x4x4"):
        shares.add(MIB, system, *(queue if part == "queue_P2_s" else 1.0 for part in PARTS))
    assert fig12._queue(shares).holds == holds


@pytest.mark.parametrize(("exposed", "holds"), [((1.0, 2.0, 3.0), True), ((1.0, 3.0, 3.0), False)])
def test_the_verdict_of_figure_17_follows_the_exposed_time(exposed, holds):
    answers = training.shares("systems", "", "system")
    for system, time in zip(fig17.SYSTEMS, exposed, strict=False):
        answers.add(system, 1.0, 1.0, time, 5.0, time / 10, "compute")
    assert fig17._grows(answers).holds == holds


class Grid:
    """Made-up runs of Figures 7 to 10, by algorithm, buffer and size in MB.

    A list has one entry for each seed. Runs that are not given have default values.
    """

    sizes = all_reduce.SIZES[:3]

    def __init__(self, **runs):
        self.runs = runs

    def __getitem__(self, which):
        algorithm, buffer, size = which
        runs = self.runs.get(f"{algorithm}{buffer[0]}_{size // all_reduce.MB}", {})
        return Draws([self._made(which, run) for run in (runs if isinstance(runs, list) else [runs])])

    def _made(self, which, run):
        size = which[2]
        made = {"ratio": 1.1, "used": 0.97, "again": 0, "timeouts": 0, "rtt": 1e-4, **run}
        packets = SimpleNamespace(
            dropped=made["again"],
            retransmissions=made["again"],
            timeouts=made["timeouts"],
            rtt_mean_s=made["rtt"],
        )
        took = made["ratio"] * 2 * size / all_reduce.BYTES_PER_S
        # Nodes start after a tenth of the time.
        summary = SimpleNamespace(
            total_time_s=took / 0.9, dims=[SimpleNamespace(utilization=0.9 * made["used"])], packets=packets
        )
        tables = {
            "collectives": {"duration_s": [took], "issue_s": [took / 9]},
            "ports": {"from": ["NPU 0", "switch 0"], "longest_queue_bytes": [1 << 30, 4000]},
        }
        return all_reduce.Single(*which, SimpleNamespace(summary=summary, table=tables.get))

    line = all_reduce.Grid.line


LOSS = {"again": 5000, "timeouts": 1000}


@pytest.mark.parametrize(
    ("judge", "runs", "holds"),
    [
        (dlrm07._mild, {"A2A6_8": {"ratio": 1.4}}, True),
        (dlrm07._mild, {"A2A6_8": {"ratio": 1.05}}, False),
        (dlrm07._mild, {"A2A1_8": {"ratio": 1.37}}, False),
        (dlrm07._collapse, {"A2A6_16": {"ratio": 51, **LOSS}}, True),
        (dlrm07._collapse, {"A2A6_16": {"ratio": 49, **LOSS}}, False),
        (dlrm07._collapse, {"A2A6_16": [{"ratio": ratio, **LOSS} for ratio in (1, 60, 55)]}, True),
        (dlrm07._collapse, {"A2A6_16": [{"ratio": ratio, **LOSS} for ratio in (1, 300, 40)]}, False),
        (dlrm07._crossing, {"A2A6_8": {"ratio": 1.2}, "A2A6_32": {"ratio": 1.2}}, False),
        (dlrm07._crossing, {"A2A6_8": {"ratio": 1.2}, "DBT6_16": {"ratio": 2}, "DBT6_32": {"ratio": 9}}, True),
        (dlrm07._crossing, {"A2A6_16": {"ratio": 1.2}}, False),
        (dlrm07._crossing, {f"A2A6_{size}": {"ratio": 9} for size in (8, 16, 32)}, False),
        (dlrm07._close, {}, True),
        (dlrm07._close, {"DBT1_32": {"ratio": 1.17}}, False),
        (dlrm07._close, {"DBT1_32": [{"ratio": 1.1}, {"ratio": 1.1}, {"ratio": 1.17}]}, False),
        (dlrm07._close, {"DBT1_16": {"again": 1}}, False),
        (dlrm07._close, {"DBT1_8": {"used": 0.9}}, False),
        (dlrm08._used, {"A2A6_8": {"used": 0.8}}, True),
        (dlrm08._used, {"A2A6_8": {"used": 1.0}}, False),
        (dlrm08._timeouts, {"A2A6_16": {"timeouts": 2000}}, True),
        (dlrm08._timeouts, {"A2A6_16": {"timeouts": 200}}, False),
        (dlrm08._handful, {"DBT6_32": {"timeouts": 4, "used": 0.1}, "A2A6_32": {"timeouts": 1900, "used": 0.08}}, True),
        (dlrm08._handful, {"DBT6_32": {"timeouts": 4, "used": 0.1}, "A2A6_32": {"timeouts": 1900, "used": 0.2}}, False),
        (dlrm08._handful, {"DBT6_32": {"timeouts": 4, "used": 0.9}, "A2A6_32": {"timeouts": 1900, "used": 0.1}}, False),
        (
            dlrm08._handful,
            {"DBT6_32": {"timeouts": 90, "used": 0.1}, "A2A6_32": {"timeouts": 1900, "used": 0.1}},
            False,
        ),
        (dlrm08._half, {"A2A1_32": {"used": 0.5}}, True),
        (dlrm08._half, {"A2A6_32": {"used": 0.5}}, False),
        (dlrm09._shoots_up, {"A2A6_16": {"rtt": 3e-4}}, True),
        (dlrm09._shoots_up, {"A2A6_16": {"rtt": 1.5e-4}}, False),
        (dlrm10._again, {"A2A6_8": {"again": 500}}, True),
        (dlrm10._again, {"A2A6_8": {"again": 500, "timeouts": 1}}, False),
        (dlrm10._again, {"A2A6_8": {"again": 50}}, False),
        (dlrm10._shoots_up, {"A2A6_8": {"again": 500}, "A2A6_16": {"again": 5000}}, True),
        (dlrm10._shoots_up, {"A2A6_8": {"again": 500}, "A2A6_16": {"again": 600}}, False),
        (dlrm10._shoots_up, {}, False),
    ],
)
def test_the_verdicts_of_a_single_all_reduce_follow_its_runs(judge, runs, holds):
    assert judge(Grid(**runs)).holds == holds


def test_a_sentence_says_where_packets_are_lost():
    grid = Grid(A2A6_8=LOSS)
    assert "5000 packets find the 512 KiB buffer of their port full" in all_reduce.lost(grid["A2A", "64 MB", 8_000_000])
    kept = all_reduce.lost(grid["A2A", "1 GB", 8_000_000])
    assert kept == "No packet is lost: the longest queue of a port is 4 kB of 8 MiB."


def test_measurements_give_the_range_of_several_runs():
    several = Draws([3.0, 1.0, 2.0])
    assert several.said(float, "{:.0f} ms".format) == "2 ms (1 ms to 3 ms)"
    assert (several.typical(float), several.least(float), several.most(float)) == (2, 1, 3)
    assert Draws([1.0, 1.0]).said(float, "{:.0f}".format) == "1 (all of 2 seeds)"
    assert Draws([1.0]).said(float, "{:.0f}".format) == "1"


def test_scenarios_of_an_all_reduce_match_the_paper():
    for scenario in all_reduce.SCENARIOS.values():
        resolved = Runner().case(scenario).loaded.resolved
        (dim,) = resolved["fabric"]["dims"]
        assert (dim["size"], dim["rate"], dim["latency"]) == (all_reduce.NODES, "100Gb/s", "0.5us")
        assert all_reduce.BYTES_PER_S == 100e9 / 8
        network = resolved["network"]
        assert (network["window"], network["min_timeout"]) == ("512KiB", "50ms")
        # ns-3's point-to-point links frame a packet with the 2 bytes of PPP.
        assert (network["mtu"], network["framing"]) == ("1500B", "point_to_point")
        assert all_reduce.FRAME == 1500 + 2


def test_start_times_differ_by_at_most_the_given_time():
    changes = all_reduce.apart(2e-6)
    factors = [each["factor"] for each in changes["faults"]]
    assert changes["workload.layers.matrix.weight_grad"] == "2000000ps"
    assert len(set(factors)) > 120
    assert 1 <= min(factors) < 1.05 < 1.95 < max(factors) <= 2


def test_overlapping_spans_are_counted():
    assert training.overlapping([]) == 0
    assert training.overlapping([(0, 1), (1, 2), (2, 3)]) == 0
    assert training.overlapping([(4, 5), (0, 3), (1, 2), (2, 4)]) == 2


def test_cells_are_formatted_for_people():
    table = Table("t", "", ("kind", "size_bytes", "time_s", "busy_fraction", "exposed_share", "a_over_b_ratio", "n"))
    table.add("x", 4 * MIB, 1.5e-6, 0.5, 1.63e-4, 1.96957, None)
    assert table.headings() == ["kind", "size", "time", "busy", "exposed", "a over b", "n"]
    assert table.shown() == [["x", "4 MiB", "1.5 us", "50.0 %", "0.0163 %", "1.97", ""]]
    assert share(0.376) == "37.6 %"
    with pytest.raises(ValueError, match="2 values for 7 columns"):
        table.add("x", 1)

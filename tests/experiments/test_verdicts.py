"""Verdicts can go either way: claims judged on tables that were made up."""

from __future__ import annotations

import pytest

from experiments.astra2020 import fig09, fig10, fig12, fig17, training
from experiments.astra2020.bandwidth_test import MIB, SIZES
from experiments.astra2020.delays import PARTS
from experiments.harness.runner import Runner
from experiments.harness.table import Table, share

RUNNER = Runner("queued", quick=True)


def alltoall_against_torus(ratios):
    """The table of Figure 9 with these ratios at the sizes of a quick run."""
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
def test_figure_9(ratios, all_to_all, all_reduce):
    table = alltoall_against_torus(ratios)
    assert fig09._all_to_all(RUNNER, table).holds == all_to_all
    assert fig09._all_reduce(RUNNER, table).holds == all_reduce


def dimensions(faster_up_to):
    """The tables of Figure 10 where 4x4x4 is faster than 1x8x8 up to a size."""
    times = Table("times", "", ("collective", "size_bytes", *(f"{name}_s" for name in fig10.TOPOLOGIES)))
    for size in SIZES:
        times.add("all_reduce", size, 4.0, 2.0, 3.0, 1.0 if size <= faster_up_to else 2.5)
    links = fig10.measure(RUNNER).table("links")
    return times, links


def test_figure_10():
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
def test_figure_12(queue, holds):
    shares = Table("delays", "", ("size_bytes", "system", *PARTS))
    for system in ("2x4x2", "2x4x4"):
        shares.add(MIB, system, *(queue if part == "queue_P2_s" else 1.0 for part in PARTS))
    assert fig12._queue(shares).holds == holds


@pytest.mark.parametrize(("exposed", "holds"), [((1.0, 2.0, 3.0), True), ((1.0, 3.0, 3.0), False)])
def test_figure_17(exposed, holds):
    answers = training.shares("systems", "", "system")
    for system, time in zip(fig17.SYSTEMS, exposed, strict=False):
        answers.add(system, 1.0, 1.0, time, 5.0, time / 10, "compute")
    assert fig17._grows(answers).holds == holds


def test_spans_that_overlap():
    assert training.overlapping([]) == 0
    assert training.overlapping([(0, 1), (1, 2), (2, 3)]) == 0
    assert training.overlapping([(4, 5), (0, 3), (1, 2), (2, 4)]) == 2


def test_cells_as_people_read_them():
    table = Table("t", "", ("kind", "size_bytes", "time_s", "busy_fraction", "exposed_share", "a_over_b_ratio", "n"))
    table.add("x", 4 * MIB, 1.5e-6, 0.5, 1.63e-4, 1.96957, None)
    assert table.headings() == ["kind", "size", "time", "busy", "exposed", "a over b", "n"]
    assert table.shown() == [["x", "4 MiB", "1.5 us", "50.0 %", "0.0163 %", "1.97", ""]]
    assert share(0.376) == "37.6 %"
    with pytest.raises(ValueError, match="2 values for 7 columns"):
        table.add("x", 1)

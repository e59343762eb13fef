"""EqualBW, MessageBW and SmartBW, compared with the optimum and with an independent calculation."""

from __future__ import annotations

import csv
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncline.design.bandwidth import schemes
from syncline.design.bandwidth.demand import Demand, Exchange, together
from syncline.design.bandwidth.limits import Limits
from syncline.design.bandwidth.optimum import optimum
from tests.conftest import ROOT

pytest.importorskip("cvxpy")
pytestmark = pytest.mark.timeout(300)

EXPECTED = ROOT.parent / "shared" / "data" / "hier2021" / "expected_allocations.csv"


def free(dims: int, rate: float = 1e11) -> Limits:
    """No limits but a budget."""
    names = tuple(f"dim{at}" for at in range(1, dims + 1))
    return Limits(names, (1e3,) * dims, (math.inf,) * dims, False, rate, None)


def two(first: tuple[float, ...], second: tuple[float, ...], compute: float = 0.1) -> Demand:
    exchanges = (Exchange("data", second), Exchange("tensor", first))
    return Demand(compute, tuple(each for each in exchanges if any(each.bytes)))


def test_equal_gives_every_dimension_the_same_share() -> None:
    assert schemes.equal(4).shares == (0.25,) * 4


def test_message_is_proportional_to_bytes() -> None:
    division = schemes.message(two((6e9, 1e9, 0.0), (0.0, 1e9, 2e9)))
    assert division is not None
    assert division.shares == pytest.approx((0.6, 0.2, 0.2))


def test_smart_without_a_shared_dimension_is_proportional_to_square_roots() -> None:
    """hier2021 Eq. 5 and 6."""
    division = schemes.smart(two((9e9, 0.0), (0.0, 4e9)))
    assert isinstance(division, schemes.Division)
    assert division.shares == pytest.approx((3 / 5, 2 / 5))
    assert division.case == "no shared dimension"


@pytest.mark.parametrize(
    ("first", "second", "case", "sized_by"),
    [
        ((9e9, 1e9, 0), (0, 1e8, 1e9), "A", ("tensor",)),
        ((9e9, 1e8, 0), (0, 5e9, 1e9), "B", ("data",)),
        ((1e9, 1e9, 0), (0, 1e9, 1e9), "C", ("tensor", "data")),
    ],
)
def test_smart_with_a_shared_dimension_is_the_optimum(
    first: tuple[float, ...], second: tuple[float, ...], case: str, sized_by: tuple[str, ...]
) -> None:
    job = two(first, second)
    division = schemes.smart(job)
    assert isinstance(division, schemes.Division)
    assert (division.case, division.sized_by) == (case, sized_by)
    best = optimum([(1.0, job)], free(3))
    assert job.time([share * 1e11 for share in division.shares]) == pytest.approx(job.time(best), rel=1e-6)


sizes = st.floats(1e6, 1e11)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    first=st.lists(sizes, min_size=1, max_size=3), second=st.lists(sizes, min_size=1, max_size=3), shared=st.booleans()
)
def test_smart_is_the_optimum(first: list[float], second: list[float], shared: bool) -> None:
    """SmartBW is optimal for two roles that share at most one dimension."""
    dims = len(first) + len(second) - shared
    job = two(
        tuple(first) + (0.0,) * (dims - len(first)),
        (0.0,) * (dims - len(second)) + tuple(second),
    )
    division = schemes.smart(job)
    assert isinstance(division, schemes.Division)
    assert math.isclose(sum(division.shares), 1.0)
    best = job.time(optimum([(1.0, job)], free(dims)))
    smart = job.time([share * 1e11 for share in division.shares])
    assert smart == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (Demand(1.0, ()), "nothing is exchanged"),
        (two((1e9, 1e9), (1e9, 1e9)), "2 dimensions are shared"),
        (Demand(0.0, (Exchange("a", (1e9,)), Exchange("b", (1e9,)), Exchange("c", (1e9,)))), "3 kinds of groups"),
        (
            Demand(0.0, (Exchange("data", (1e9, 0.0)), Exchange("tensor", (1e9, 0.0)), Exchange("tensor", (1e9, 1e9)))),
            "different proportions",
        ),
    ],
)
def test_if_smart_does_not_apply_the_reason_is_given(job: Demand, reason: str) -> None:
    found = schemes.smart(job)
    assert isinstance(found, str)
    assert reason in found


def test_several_jobs_are_weighted() -> None:
    """A job given twice equals the job with twice the weight."""
    a, b = two((6e9, 0.0), (0.0, 1e9)), two((1e9, 0.0), (0.0, 3e9), 0.5)
    assert together([(2.0, a), (1.0, b)]) == together([(1.0, a), (1.0, b), (1.0, a)])
    once, twice = optimum([(2.0, a), (1.0, b)], free(2)), optimum([(1.0, a), (1.0, a), (1.0, b)], free(2))
    assert once == pytest.approx(twice, rel=1e-4)


@pytest.mark.skipif(not EXPECTED.is_file(), reason="the independent calculation is not at hand")
def test_allocations_match_hier2021() -> None:
    """All 27 allocations with the paper's message sizes: shares within 0.1 %, times within 0.01 %."""
    rows = list(csv.DictReader(EXPECTED.read_text("utf-8").splitlines()))
    assert len(rows) == 27
    for row in rows:
        dims = int(row["topology"][0])

        def sizes_of(kind: str, row: dict[str, str] = row, dims: int = dims) -> tuple[float, ...]:
            return tuple(float(row[f"M_{kind}_dim{at}_MB"]) * 1e6 for at in range(1, dims + 1))

        job = two(sizes_of("MP"), sizes_of("DP"), float(row["compute_ms_per_layer"]) / 1e3)
        found = {"EqualBW": schemes.equal(dims), "MessageBW": schemes.message(job), "SmartBW": schemes.smart(job)}
        division = found[row["scheme"]]
        assert isinstance(division, schemes.Division)
        expected = [float(row[f"share_dim{at}"]) for at in range(1, dims + 1)]
        assert division.shares == pytest.approx(expected, rel=1e-3), row
        assert 1e3 * job.time([share * 300e9 for share in division.shares]) == pytest.approx(
            float(row["total_ms_300"]), rel=1e-4
        )
        if row["scheme"] == "SmartBW":
            assert division.case in (row["case"], "no shared dimension", None)
            best = optimum([(1.0, job)], free(dims, 300e9))
            assert best == pytest.approx([share * 300e9 for share in expected], rel=1e-3)

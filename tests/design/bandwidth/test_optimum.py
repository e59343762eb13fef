"""The optimum under constraints, compared with closed forms and with a search."""

from __future__ import annotations

import itertools
import math

import pytest

from syncline.design.bandwidth.demand import Demand, Exchange
from syncline.design.bandwidth.limits import Limits
from syncline.design.bandwidth.optimum import optimum
from syncline.design.bandwidth.price import Price

pytest.importorskip("cvxpy")
pytestmark = pytest.mark.timeout(300)

JOB = Demand(0.01, (Exchange("data", (0.0, 2e9)), Exchange("tensor", (8e9, 0.0))))
NAMES = ("dim1", "dim2")


def limits(**changes: object) -> Limits:
    given: dict[str, object] = {
        "names": NAMES,
        "least": (1e6, 1e6),
        "most": (math.inf, math.inf),
        "descending": False,
        "rate": 1e11,
        "usd": None,
        "price": None,
        **changes,
    }
    return Limits(**given)  # type: ignore[arg-type]


def test_the_optimum_is_proportional_to_square_roots_of_bytes() -> None:
    assert optimum([(1.0, JOB)], limits()) == pytest.approx([2 / 3 * 1e11, 1 / 3 * 1e11], rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "expected", "reached"),
    [
        ({"most": (5e10, math.inf)}, [5e10, 5e10], "bandwidth.dim1.max"),
        ({"least": (1e6, 6e10)}, [4e10, 6e10], "bandwidth.dim2.min"),
        ({"least": (1e6, 6e10), "descending": True, "rate": 2e11}, [1e11 * 4 / 3, 1e11 * 2 / 3], "budget.rate_per_npu"),
    ],
)
def test_bounds_limit_the_optimum(changes: dict[str, object], expected: list[float], reached: str) -> None:
    within = limits(**changes)
    assert within.problem() is None
    found = optimum([(1.0, JOB)], within)
    assert found == pytest.approx(expected, rel=1e-5)
    assert reached in within.reached(found)
    assert within.broken(found) == []


def test_the_order_limits_the_optimum() -> None:
    turned = Demand(0.0, (Exchange("data", (2e9, 0.0)), Exchange("tensor", (0.0, 8e9))))
    within = limits(descending=True)
    found = optimum([(1.0, turned)], within)
    assert found == pytest.approx([5e10, 5e10], rel=1e-5)
    assert "order (dim2)" in within.reached(found)


def test_a_budget_in_dollars_divides_by_square_roots_of_bytes_over_prices() -> None:
    """Under only a budget c1 b1 + c2 b2 in dollars, rates are proportional to the square roots of bytes over prices."""
    within = limits(rate=None, usd=1000.0, price=Price(0.0, (1e-9, 4e-9)))
    found = optimum([(1.0, JOB)], within)
    root = math.sqrt(8e9 / 1e-9) * 1e-9 + math.sqrt(2e9 / 4e-9) * 4e-9
    assert found == pytest.approx([math.sqrt(8e9 / 1e-9) * 1000 / root, math.sqrt(2e9 / 4e-9) * 1000 / root], rel=1e-4)
    assert within.price is not None
    assert within.price.usd(found) == pytest.approx(1000.0, rel=1e-5)


def test_performance_per_cost_is_better_than_all_neighbours() -> None:
    price = Price(50.0, (1e-9, 9e-9))
    within = limits(price=price)
    found = optimum([(1.0, JOB)], within, per_cost=True)

    def objective(rates: list[float]) -> float:
        return JOB.time(rates) * price.usd(rates)

    for steps in itertools.product((0.9, 0.97, 1.0, 1.03), repeat=2):
        other = [rate * step for rate, step in zip(found, steps, strict=True)]
        assert within.broken(other) or objective(found) <= objective(other) * (1 + 1e-6)
    assert price.usd(found) < price.usd(optimum([(1.0, JOB)], within))


def test_a_dimension_without_traffic_gets_its_minimum() -> None:
    idle = Demand(0.0, (Exchange("tensor", (8e9, 0.0)),))
    found = optimum([(1.0, idle)], limits(least=(1e6, 2e9)))
    assert found == pytest.approx([9.8e10, 2e9], rel=1e-5)
    assert optimum([(1.0, Demand(1.0, ()))], limits()) == [1e6, 1e6]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"least": (6e10, 6e10)},
            "dimensions dim1 and dim2 must have at least 120 GB/s together, and the budget is 100",
        ),
        (
            {"least": (1e11, 1e3)},
            "dimension dim1 must have at least 100 GB/s and dimension dim2 must have at least 1 kB/s, the default",
        ),
        (
            {"least": (1e3, 1e3), "rate": 1.5e3},
            "dimensions dim1 and dim2 must have at least 1 kB/s each, the default minimum, and the budget is 1.5 k",
        ),
        (
            {"usd": 10.0, "price": Price(0.0, (1e-9, 1e-4)), "least": (1e10, 1e3)},
            "what dimension dim1 must have at least and dimension dim2 must have at least 1 kB/s, the default minimum",
        ),
        ({"least": (6e10, 1e3), "most": (5e10, math.inf)}, "dimension dim1 must have at least 60 GB/s and at most 50"),
        (
            {"usd": 10.0, "price": Price(0.0, (1e-9, 1e-9)), "least": (1e10, 1e10)},
            "what dimensions dim1 and dim2 must have at least costs $20, and the budget is $10",
        ),
    ],
)
def test_constraints_that_cannot_be_met_are_named(changes: dict[str, object], why: str) -> None:
    found = limits(**changes).problem()
    assert found is not None
    assert why in found[1]
    assert found[0].split(".")[0] in ("bandwidth", "budget")

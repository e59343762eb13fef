"""Spreads: quantiles, and the detection of two groups of values."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from syncline.ensembles.spread import MIN_COUNT, Spread, two_groups


def test_quantiles_of_a_few_values_are_interpolated() -> None:
    spread = Spread.of([4.0, 1.0, 3.0, 2.0])
    assert (spread.count, spread.least, spread.median, spread.most) == (4, 1.0, 2.5, 4.0)
    assert (spread.lower_quartile, spread.upper_quartile) == (1.75, 3.25)
    alone = Spread.of([7.0])
    assert {alone.least, alone.lower_quartile, alone.median, alone.upper_quartile, alone.most} == {7.0}


def test_outcomes_with_and_without_a_time_out_are_two_groups() -> None:
    fast = [1.33e-3 + 1e-6 * at for at in range(12)]
    slow = [50.1e-3, 50.4e-3, 52e-3, 101e-3, 101.5e-3, 152e-3]
    groups = two_groups([*slow, *fast])
    assert groups is not None
    assert (len(groups.low), len(groups.high)) == (12, 6)
    assert groups.ratio == pytest.approx(50.1 / 1.341)


def test_outliers_and_small_differences_do_not_form_two_groups() -> None:
    fast = [1.33e-3 + 1e-6 * at for at in range(19)]
    # One outlier; differences below 1 %.
    assert two_groups([*fast, 50e-3]) is None
    assert two_groups([1.0] * 10 + [1.009] * 10) is None
    assert two_groups([1.0] * 10 + [1.02] * 10) is not None
    assert two_groups([1.0] * (MIN_COUNT - 9) + [2.0] * 8) is None
    assert two_groups([1.0] * (MIN_COUNT - 8) + [2.0] * 8) is not None
    assert two_groups([1.0] * 20) is None
    # Values of 0, such as counts of time-outs.
    assert two_groups([0.0] * 10 + [5.0] * 10) is None


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda drawn: 1 + drawn.random(), id="even"),
        pytest.param(lambda drawn: 10 + drawn.gauss(0, 1), id="normal"),
        pytest.param(lambda drawn: 1 + drawn.expovariate(1), id="exponential"),
    ],
)
@pytest.mark.parametrize(("count", "most"), [(16, 0.02), (20, 0.01), (50, 0.001)])
def test_values_of_one_mode_are_seldom_two_groups(
    draw: Callable[[random.Random], float], count: int, most: float
) -> None:
    drawn = random.Random(0)
    tries = 2000
    found = sum(two_groups([draw(drawn) for _ in range(count)]) is not None for _ in range(tries))
    assert found <= most * tries

"""Quantiles and their confidence intervals agree with exact arithmetic, NumPy and simulation."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest

from syncline.distances import Pair
from syncline.probing.estimates import MIN_SAMPLES, bounds, of_samples, quantile, rate_of


def chances(count, share):
    """The exact distribution function of B(count, share): for each k, the chance of at most k."""
    miss = share.denominator - share.numerator
    terms = (math.comb(count, k) * share.numerator**k * miss ** (count - k) for k in range(count + 1))
    return [Fraction(below, share.denominator**count) for below in itertools.accumulate(terms)]


@pytest.mark.parametrize("count", [36, 37, 50, 99, 100, 101, 1000, 2000])
@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 2)])
def test_bounds_are_those_of_the_binomial_distribution(count, share):
    at_most = chances(count, share)
    low, high = bounds(count, float(share))
    tail = Fraction(25, 1000)
    # Each side misses with at most 2.5 %, and would miss with more if it were one sample closer.
    assert at_most[low - 1] <= tail < at_most[low]
    assert 1 - at_most[high - 1] <= tail < 1 - at_most[high - 2]


def test_fewer_than_the_least_samples_have_no_interval():
    assert bounds(MIN_SAMPLES - 1) is None
    assert bounds(MIN_SAMPLES) is not None
    few = of_samples([1e-6 * each for each in range(1, MIN_SAMPLES)])
    assert few.rtt_s == 4e-6
    assert few.rtt_error_s is None


def test_the_interval_holds_the_quantile_in_95_of_100_cases():
    draw = random.Random(7)
    # The 10th percentile of a uniform distribution is 0.1.
    held, cases, count = 0, 2000, 200
    low, high = bounds(count)
    for _ in range(cases):
        ordered = sorted(draw.random() for _ in range(count))
        held += ordered[low - 1] <= 0.1 <= ordered[high - 1]
    # Two-sided 95 %; the standard error of the share is 0.5 %.
    assert 0.945 <= held / cases <= 0.98


@pytest.mark.parametrize("count", [1, 9, 10, 11, 100, 1234])
def test_the_quantile_is_that_of_the_empirical_distribution(count):
    numpy = pytest.importorskip("numpy")
    draw = random.Random(count)
    values = sorted(draw.expovariate(1) for _ in range(count))
    assert quantile(values) == numpy.quantile(values, 0.1, method="inverted_cdf")


def test_samples_give_a_pair():
    pair = of_samples([1e-6 * each for each in range(1, 101)], lost=3, duplicates=2)
    low, high = bounds(100)
    assert pair == Pair(
        rtt_s=pytest.approx(1e-5),
        rtt_median_s=pytest.approx(50.5e-6),
        rtt_error_s=pytest.approx((high - low) / 2 * 1e-6),
        samples=100,
        lost=3,
        duplicates=2,
    )
    assert of_samples([], lost=5) == Pair(lost=5)


def test_the_rate_is_the_median_of_the_transfers():
    assert rate_of(1000, [1_000_000, 2_000_000, 500_000]) == pytest.approx(1e6)

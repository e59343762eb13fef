"""The summary of measurements: numbers counted by hand, and by numpy."""

import random

import pytest

from syncline.distances import Measured, Pair
from syncline.distances.summary import MAX_MISSING, summarise

SMALL = Measured(
    ("a", "b", "c", "d"),
    {
        (0, 1): Pair(rtt_s=10e-6, rtt_error_s=1e-6, samples=90, lost=10),
        (1, 0): Pair(rtt_s=12e-6, rtt_error_s=0.6e-6, samples=100),
        (0, 2): Pair(rtt_s=30e-6, samples=50, rate_bytes_per_s=2e9, transfers=5),
        (2, 0): Pair(rate_bytes_per_s=1e9, transfers=3),
        (3, 2): Pair(samples=0, lost=100),
    },
    "small.csv",
)


def test_a_small_file_is_summarised_as_by_hand():
    found = summarise(SMALL)
    assert (found.possible, found.measured, found.both_directions, found.without_value) == (6, 2, 2, 1)
    assert found.missing == [("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    assert [host.pairs for host in found.hosts] == [2, 1, 1, 0]
    # Of both directions the larger round trip, and the lower rate.
    trips, rates = found.round_trips, found.rates
    assert (trips.pairs, trips.smallest, trips.largest) == (2, 12e-6, 30e-6)
    assert trips.lowest == [(("a", "b"), 12e-6), (("a", "c"), 30e-6)]
    assert trips.highest == trips.lowest[::-1]
    assert (trips.asymmetry.pairs, trips.asymmetry.between) == (1, ("a", "b"))
    assert trips.asymmetry.largest == pytest.approx(0.2)
    assert (rates.pairs, rates.smallest) == (1, 1e9)
    assert rates.asymmetry.largest == pytest.approx(1.0)
    assert (found.samples.fewest, found.samples.median, found.samples.most) == (50, 90, 100)
    assert (found.transfers.fewest, found.transfers.most) == (3, 5)
    assert found.relative_error == (pytest.approx(0.075), pytest.approx(0.1))
    assert (found.sent, found.lost) == (350, 110)
    assert (found.hosts[0].median_rtt_s, found.hosts[3].median_rtt_s) == (pytest.approx(21e-6), None)


def test_what_a_file_does_not_say_is_none():
    found = summarise(Measured(("a", "b"), {(0, 1): Pair(rtt_s=1e-5)}))
    assert found.samples is found.transfers is found.relative_error is found.rates is None
    assert found.round_trips.asymmetry is None
    assert found.as_dict()["relative_error"] is None


def test_spreads_are_those_of_numpy():
    numpy = pytest.importorskip("numpy")
    chance = random.Random(1)
    for count in (2, 3, 8, 21):
        pairs = {
            (a, b): Pair(rtt_s=chance.uniform(1e-6, 1e-3))
            for a in range(count)
            for b in range(count)
            if a != b and chance.random() < 0.8
        } or {(0, 1): Pair(rtt_s=1e-6)}
        measured = Measured(tuple(f"h{host}" for host in range(count)), pairs)
        found = summarise(measured)
        values = numpy.array(list(measured.round_trips.values()))
        spread = found.round_trips
        expected = numpy.quantile(values, (0, 0.1, 0.5, 0.9, 1))
        given = (spread.smallest, spread.percentile_10, spread.median, spread.percentile_90, spread.largest)
        assert given == pytest.approx(expected)
        there = numpy.full((count, count), numpy.nan)
        for (a, b), pair in pairs.items():
            there[a, b] = pair.rtt_s
        ratios = numpy.maximum(there, there.T) / numpy.minimum(there, there.T) - 1
        both = ratios[numpy.triu_indices(count, 1)]
        both = both[~numpy.isnan(both)]
        assert found.both_directions == len(both)
        if len(both):
            assert spread.asymmetry.median == pytest.approx(numpy.median(both))
            assert spread.asymmetry.largest == pytest.approx(both.max())


def test_listed_gaps_are_limited():
    hosts = tuple(f"h{host}" for host in range(60))
    found = summarise(Measured(hosts, {(0, 1): Pair(rtt_s=1e-5)}))
    assert found.possible - found.measured == 1769
    assert len(found.missing) == MAX_MISSING

"""Distances between groups of hosts, in place of those of single pairs."""

import pytest

from syncline.distances import Measured, Pair, by_groups


def measured():
    """Two groups of two hosts, and a pair that was not measured."""
    pairs = {
        (0, 1): Pair(rtt_s=1.0, rate_bytes_per_s=10.0),
        (0, 2): Pair(rtt_s=4.0, rate_bytes_per_s=3.0),
        (2, 0): Pair(rtt_s=5.0),
        (1, 2): Pair(rtt_s=7.0, rate_bytes_per_s=5.0),
        (3, 1): Pair(rtt_s=6.0),
    }
    return Measured(("a", "b", "c", "d"), pairs, "file")


def test_pairs_between_two_groups_get_the_median_of_theirs():
    found = by_groups(measured(), [0, 0, 1, 1])
    assert (found.hosts, found.source) == (("a", "b", "c", "d"), "file")
    # Of both directions the longer round trip counts: 5, 7 and 6.
    assert {found.round_trips[pair] for pair in ((0, 2), (0, 3), (1, 2), (1, 3))} == {6.0}
    assert {found.rates[pair] for pair in ((0, 2), (0, 3), (1, 2), (1, 3))} == {4.0}
    assert (found.round_trips[0, 1], found.rates[0, 1]) == (1.0, 10.0)


def test_what_was_never_measured_stays_missing():
    found = by_groups(measured(), [0, 0, 1, 1])
    assert (2, 3) not in found.round_trips
    assert (0, 3) not in by_groups(measured(), [0, 1, 2, 3]).round_trips


def test_groups_of_single_hosts_change_nothing():
    found = by_groups(measured(), [0, 1, 2, 3])
    assert (found.round_trips, found.rates) == (measured().round_trips, measured().rates)


@pytest.mark.parametrize("groups", [[0, 0, 0, 0], [7, 7, 7, 7]])
def test_one_group_makes_all_pairs_equal(groups):
    found = by_groups(measured(), groups)
    assert set(found.round_trips.values()) == {5.5}
    assert len(found.pairs) == 6

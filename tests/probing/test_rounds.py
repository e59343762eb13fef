"""Schedules are gone through round by round."""

from __future__ import annotations

from syncline.distances import Pair
from syncline.probing.rounds import Schedule, Turns


def test_a_list_of_rounds_is_gone_through():
    turns = Turns(Schedule([[(0, 1)], [(1, 0)]], 2))
    assert [turns.next({}), turns.next({}), turns.next({})] == [[(0, 1)], [(1, 0)], None]


def test_a_generator_is_sent_the_results_of_each_round():
    seen = []

    def rounds():
        seen.append((yield [(0, 1)]))
        seen.append((yield [(2, 3)]))
        seen.append((yield [(0, 3)]))

    turns = Turns(Schedule(rounds(), 3))
    results = {}
    while (pairs := turns.next(results)) is not None:
        results = {pair: Pair(rtt_s=float(sum(pair))) for pair in pairs}
    assert seen == [{(0, 1): Pair(rtt_s=1.0)}, {(2, 3): Pair(rtt_s=5.0)}, {(0, 3): Pair(rtt_s=3.0)}]

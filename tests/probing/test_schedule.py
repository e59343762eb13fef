"""Which pairs are probed: the full schedule, and the sampled one on data centres with known racks."""

import math

import pytest

from syncline.probing.sampled_schedule import probes, sampled_schedule
from syncline.probing.tournament import full_schedule

pytest.importorskip("scipy")

from syncline.distances import Measured, Pair
from syncline.grouping.synthetic import DataCentre, without_structure


def run(centre, seed=0):
    """Runs the sampled schedule; returns its rounds and the measurements."""
    schedule = sampled_schedule(centre.hosts, seed)
    rounds, found = [], {}
    pairs = next(schedule, None)
    while pairs is not None:
        rounds.append(pairs)
        answers = zip(pairs, centre.probe(pairs), strict=True)
        results = {pair: Pair(rtt_s=time, samples=1) for pair, time in answers if time is not None}
        found.update(results)
        try:
            pairs = schedule.send(results)
        except StopIteration:
            break
    return rounds, Measured(tuple(f"host{number}" for number in range(centre.hosts)), found)


@pytest.mark.parametrize("hosts", [2, 3, 4, 7, 8, 33, 64])
def test_the_full_schedule_has_every_ordered_pair_once_in_few_rounds(hosts):
    rounds = full_schedule(hosts)
    pairs = [pair for each in rounds for pair in each]
    assert len(pairs) == len(set(pairs)) == hosts * (hosts - 1)
    assert all(a != b for a, b in pairs)
    assert len(rounds) == 2 * (hosts - 1 if hosts % 2 == 0 else hosts)
    for each in rounds:
        ends = [end for pair in each for end in pair]
        assert len(ends) == len(set(ends)) == hosts // 2 * 2


@pytest.mark.parametrize("hosts", [2, 3, 5, 8, 33, 64])
def test_the_sampled_schedule_keeps_to_its_budget_and_to_disjoint_pairs(hosts):
    rounds, _ = run(DataCentre(hosts=hosts, rack=max(hosts // 4, 1), noise=0.4))
    count = sum(map(len, rounds))
    assert count <= 2 * hosts * math.log2(hosts)
    assert count == probes(hosts)
    for each in rounds:
        ends = [end for pair in each for end in pair]
        assert len(ends) == len(set(ends))
        assert all(0 <= end < hosts for end in ends)


def test_every_host_is_measured_where_probes_do_not_suffice():
    """Of 24 racks at this noise, 128 hosts find theirs by luck only; groups are found all the same."""
    centre = DataCentre(hosts=128, rack=5, noise=0.4, seed=1)
    measured = run(centre)[1]
    counts = [0] * 128
    for a, b in measured.pairs:
        counts[a] += 1
        counts[b] += 1
    assert min(counts) >= 2


def test_the_seed_and_the_results_decide_the_rounds():
    one, same, other = (run(DataCentre(hosts=48, rack=8, noise=0.1, seed=3), seed)[0] for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_probes_without_an_answer_end_the_schedule_as_well():
    schedule = sampled_schedule(16, 0)
    count, pairs = 0, next(schedule)
    while True:
        count += len(pairs)
        try:
            pairs = schedule.send({})
        except StopIteration:
            break
    assert count == probes(16)


def test_hosts_without_structure_are_probed_evenly():
    rounds, _ = run(without_structure(32, noise=0.1))
    counts = [0] * 32
    for each in rounds:
        for a, b in each:
            counts[a] += 1
            counts[b] += 1
    assert max(counts) <= 3 * min(counts)

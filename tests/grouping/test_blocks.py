"""The block model: average linkage beside scipy, and what it moves and joins."""

import numpy as np
import pytest

pytest.importorskip("scipy")

from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform

from syncline.grouping import blocks


def _two_racks(noise, seed=0):
    random = np.random.default_rng(seed)
    truth = np.repeat([0, 1, 2], 8)
    a, b = np.triu_indices(24, 1)
    logs = np.where(truth[a] == truth[b], 0.0, 1.0) + noise * random.standard_normal(len(a))
    return truth, blocks.Values(24, a, b, logs)


def test_the_tree_is_that_of_average_linkage():
    random = np.random.default_rng(0)
    distances = random.random((12, 12))
    distances = distances + distances.T
    np.fill_diagonal(distances, 0)
    expected = squareform(cophenet(linkage(squareform(distances), "average")))
    assert blocks.tree(distances, np.ones((12, 12))) == pytest.approx(expected)


def test_misplaced_hosts_move_to_their_racks():
    truth, values = _two_racks(0.3)
    start = truth.copy()
    start[[0, 9, 17]] = [1, 2, 0]
    found = blocks.refine(values, start)
    assert np.array_equal(found, truth)


def test_parts_of_a_rack_are_joined_and_racks_are_not():
    truth, values = _two_racks(0.3)
    parts = truth.copy()
    parts[4:8] = 3
    found, count = blocks.numbered(blocks.merge(values, parts))
    assert count == 3
    assert np.array_equal(found, truth)


def test_rare_long_delays_count_little():
    truth, values = _two_racks(0.1)
    late = values.logs.copy()
    late[::25] += 3.0
    fitted = blocks.fit(blocks.Values(24, values.a, values.b, late), truth, 3)
    assert np.diag(fitted.levels) == pytest.approx([0, 0, 0], abs=0.15)


def test_each_host_is_placed_by_the_likelihood_of_its_values():
    truth, values = _two_racks(0.3)
    groups = truth.copy()
    groups[5] = -1
    model = blocks.fit(values, groups, 3)
    found = model.placements(values, groups)
    for host in range(24):
        for group in range(3):
            total = 0.0
            for a, b, log in zip(values.a, values.b, values.logs, strict=True):
                if host in (a, b) and groups[other := int(a + b - host)] >= 0:
                    residual = (log - model.levels[group, groups[other]]) / model.sigma
                    total -= (blocks.FREEDOM + 1) / 2 * np.log1p(residual**2 / blocks.FREEDOM) + np.log(model.sigma)
            # Levels that are near each other count as one.
            assert found[host, group] == pytest.approx(total, abs=2.5)


def test_annealing_finds_racks_that_single_moves_do_not():
    truth, values = _two_racks(0.5)
    moved = annealed = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        start = truth.copy()
        start[random.choice(24, 12, replace=False)] = random.integers(3, size=12)
        moved += _same(blocks.refine(values, start), truth)
        annealed += _same(blocks.anneal(values, start, np.random.default_rng(1)), truth)
    assert annealed > moved


def test_the_racks_have_more_evidence_than_fewer_or_more_groups():
    truth, values = _two_racks(0.3)
    halves = truth * 2 + np.arange(24) % 2
    best = blocks.evidence(values, truth)
    assert best > blocks.evidence(values, np.minimum(truth, 1)) + 3
    assert best > blocks.evidence(values, halves) + 3
    assert best > blocks.evidence(values, np.zeros(24, dtype=np.int64)) + 3


def test_levels_are_those_of_a_tree_only_in_a_tree():
    truth, values = _two_racks(0.1)
    a, b = truth[values.a], truth[values.b]
    tree = blocks.fit(values, truth, 3)
    assert tree.free == pytest.approx(3, abs=1)
    # Three cities, none as far from the second as from the third.
    line = blocks.Values(24, values.a, values.b, values.logs + 2.0 * (np.abs(a - b) == 2) + 1.0 * ((a + b) == 3))
    cities = blocks.fit(line, truth, 3)
    assert cities.free > 5
    assert cities.levels[0, 1] == pytest.approx(1, abs=0.1)
    assert cities.levels[1, 2] == pytest.approx(2, abs=0.1)
    assert cities.levels[0, 2] == pytest.approx(3, abs=0.1)


def _same(one, other):
    return np.array_equal(one[:, None] == one, other[:, None] == other)


def test_values_among_some_hosts_are_renumbered():
    _, values = _two_racks(0.1)
    some = values.among(np.array([5, 2, 9]))
    whole = {(int(a), int(b)): log for a, b, log in zip(values.a, values.b, values.logs, strict=True)}
    found = {(int(a), int(b)): log for a, b, log in zip(some.a, some.b, some.logs, strict=True)}
    assert found == {(1, 0): whole[2, 5], (0, 2): whole[5, 9], (1, 2): whole[2, 9]}

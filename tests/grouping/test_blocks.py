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


def test_values_among_some_hosts_are_renumbered():
    _, values = _two_racks(0.1)
    some = values.among(np.array([5, 2, 9]))
    whole = {(int(a), int(b)): log for a, b, log in zip(values.a, values.b, values.logs, strict=True)}
    found = {(int(a), int(b)): log for a, b, log in zip(some.a, some.b, some.logs, strict=True)}
    assert found == {(1, 0): whole[2, 5], (0, 2): whole[5, 9], (1, 2): whole[2, 9]}

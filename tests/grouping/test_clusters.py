"""Balanced k-means: sizes, and which clustering is kept."""

import numpy as np
import pytest

from syncline.grouping import clusters


@pytest.mark.parametrize(
    ("hosts", "groups", "balance", "expected"),
    [(16, 4, 0.0, (4, 4)), (16, 4, 0.25, (3, 5)), (18, 4, 0.0, (4, 5)), (10, 4, 1.0, (1, 5)), (64, 8, 0.5, (4, 12))],
)
def test_sizes_are_within_the_balance_and_always_possible(hosts, groups, balance, expected):
    least, most = clusters.sizes(hosts, groups, balance)
    assert (least, most) == expected
    assert least * groups <= hosts <= most * groups


def test_groups_have_equal_sizes_if_asked_for():
    pytest.importorskip("k_means_constrained")
    random = np.random.default_rng(0)
    points = np.concatenate([random.standard_normal((many, 3)) * 0.1 + 3 * at for at, many in enumerate((6, 10, 8))])
    found = clusters.balanced(points, 3, 0.0, seed=1)
    assert np.bincount(found).tolist() == [8, 8, 8]
    elastic = clusters.balanced(points, 3, 0.3, seed=1)
    assert sorted(np.bincount(elastic).tolist()) == [6, 8, 10]

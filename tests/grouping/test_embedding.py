"""The embedding: its gradient, and what it recovers."""

import numpy as np
import pytest

from syncline.grouping.embedding import embed, objective


def _pairs(count):
    return np.triu_indices(count, 1)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_the_gradient_is_that_of_finite_differences(alpha):
    random = np.random.default_rng(0)
    place, heights = random.standard_normal((6, 3)), random.random(6)
    ends = _pairs(6)
    values = random.random(len(ends[0])) * 3
    _, by_place, by_height = objective(place, heights, ends, values, alpha)
    step = 1e-6
    for host in range(6):
        for axis in range(3):
            change = np.zeros_like(place)
            change[host, axis] = step
            up, down = (objective(place + sign * change, heights, ends, values, alpha)[0] for sign in (1, -1))
            assert (up - down) / (2 * step) == pytest.approx(by_place[host, axis], rel=1e-4, abs=1e-5)
        change = np.zeros_like(heights)
        change[host] = step
        up, down = (objective(place, heights + sign * change, ends, values, alpha)[0] for sign in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx(by_height[host], rel=1e-4, abs=1e-5)


def test_the_objective_is_the_sum_of_the_paper():
    place = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    heights = np.array([0.5, 0.0, 1.0])
    ends = (np.array([0, 0]), np.array([1, 2]))
    # (25 + 0.5 + 0 - 20)^2 + (1 + 0.5 + 1 - 2)^2
    total, _, _ = objective(place, heights, ends, np.array([20.0, 2.0]), 2.0)
    assert total == pytest.approx(5.5**2 + 0.5**2)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_exact_distances_are_recovered_although_pairs_are_missing(alpha):
    random = np.random.default_rng(1)
    true = random.standard_normal((20, 2))
    a, b = _pairs(20)
    kept = random.random(len(a)) > 0.1
    a, b = a[kept], b[kept]
    values = np.linalg.norm(true[a] - true[b], axis=1) ** alpha
    found = embed(20, (a, b), values, dimensions=2, alpha=alpha, starts=4, steps=1000)
    assert found.misfit < 0.02 * values.mean()
    assert found.distances(a, b) == pytest.approx(values, abs=0.2 * values.mean())


def test_heights_are_never_negative_and_explain_slow_hosts():
    random = np.random.default_rng(2)
    true, own = random.standard_normal((20, 2)), np.zeros(20)
    own[3] = 2.0
    a, b = _pairs(20)
    values = np.linalg.norm(true[a] - true[b], axis=1) + own[a] + own[b]
    found = embed(20, (a, b), values, dimensions=2, alpha=1.0, with_heights=True, starts=4, steps=1000)
    assert found.heights.min() >= 0
    assert found.heights.argmax() == 3
    assert found.heights[3] == pytest.approx(2.0, abs=0.3)


def test_the_seed_decides():
    a, b = _pairs(10)
    values = np.random.default_rng(3).random(len(a))
    one, same, other = (embed(10, (a, b), values, seed=seed, steps=20).coordinates for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_of_many_pairs_each_step_draws_some(monkeypatch):
    monkeypatch.setattr("syncline.grouping.embedding.LARGEST_BATCH", 100)
    random = np.random.default_rng(4)
    true = random.standard_normal((30, 2))
    a, b = _pairs(30)
    values = np.linalg.norm(true[a] - true[b], axis=1)
    found = embed(30, (a, b), values, dimensions=2, alpha=1.0, starts=4, steps=1500)
    assert found.misfit < 0.05 * values.mean()

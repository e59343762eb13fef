"""The map of hosts: distances on it are like those of a known geometry."""

import numpy as np
import pytest

from syncline.grouping import plane
from syncline.grouping.order import by_cluster, distances, filled
from syncline.grouping.synthetic import DataCentre


def mapped(count, near):
    matrix = filled(count, near)
    return plane.places(matrix, near, by_cluster(count, near, matrix=matrix))


def lengths(points):
    a, b = np.triu_indices(len(points), 1)
    return np.linalg.norm(points[a] - points[b], axis=1)


@pytest.mark.parametrize(("count", "missing"), [(12, 0.0), (60, 0.0), (60, 0.4), (300, 0.0)])
@pytest.mark.parametrize("seed", range(2))
def test_distances_in_a_plane_are_found_again(count, missing, seed):
    chance = np.random.default_rng(seed)
    points = chance.random((count, 2))
    a, b = np.triu_indices(count, 1)
    kept = chance.random(len(a)) >= missing
    apart = lengths(points)
    near = dict(zip(zip(a[kept].tolist(), b[kept].tolist(), strict=True), apart[kept].tolist(), strict=True))
    found = mapped(count, near)
    assert np.corrcoef(lengths(found), apart)[0, 1] > 0.99
    assert plane.agreement(found, near) == pytest.approx(np.corrcoef(lengths(found)[kept], apart[kept])[0, 1])


@pytest.mark.parametrize("seed", range(3))
def test_round_trips_of_a_planted_geometry_are_mapped(seed):
    chance = np.random.default_rng(seed)
    points = chance.random((80, 2))
    a, b = np.triu_indices(80, 1)
    apart = lengths(points)
    trips = (10e-6 + 100e-6 * apart) * np.exp(0.05 * chance.standard_normal(len(apart)))
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    found = mapped(80, distances(dict(zip(pairs, trips.tolist(), strict=True)), "rtt"))
    assert np.corrcoef(lengths(found), apart)[0, 1] > 0.97


def test_hosts_of_a_rack_are_near_each_other():
    centre = DataCentre(hosts=96, rack=8, fan_out=(4,), spread=0.0, noise=0.1, seed=1)
    found = mapped(96, distances(centre.measured().round_trips, "rtt"))
    apart = np.linalg.norm(found[:, None] - found[None], axis=2) + np.diag(np.full(96, np.inf))
    nearest = np.argsort(apart, axis=1)[:, :5]
    assert (centre.racks[nearest] == centre.racks[:, None]).mean() > 0.9


def test_a_step_never_raises_the_stress():
    """Majorisation lowers the stress, here computed pair by pair, until it ends."""
    chance = np.random.default_rng(4)
    targets = chance.random((9, 9)) + 0.1
    targets = (targets + targets.T) / 2
    weights = 1 / targets**2
    np.fill_diagonal(weights, 0.0)
    start = chance.standard_normal((9, 2))

    def stress(points):
        return 2 * sum(
            weights[i, j] * (np.hypot(*(points[i] - points[j])) - targets[i, j]) ** 2
            for i in range(9)
            for j in range(i)
        )

    found, last = plane._majorised(start, targets, weights)
    assert last <= stress(start)
    assert stress(found) == pytest.approx(last, rel=1e-3)
    optimize = pytest.importorskip("scipy.optimize")
    further = optimize.minimize(lambda flat: stress(flat.reshape(9, 2)), found.ravel())
    assert further.fun > 0.98 * stress(found)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_equal_distances_are_mapped_too(count):
    near = {(a, b): 0.0 for a in range(count) for b in range(a + 1, count)}
    found = mapped(count, near)
    assert np.isfinite(found).all()
    assert len({tuple(point) for point in found.round(6).tolist()}) == count
    assert plane.agreement(found, near) is None


def test_the_same_distances_give_the_same_map():
    near = distances(DataCentre(hosts=20, rack=5, seed=2).measured().round_trips, "rtt")
    assert (mapped(20, near) == mapped(20, near)).all()

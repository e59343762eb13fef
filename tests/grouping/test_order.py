"""The order of hosts in heat maps: near hosts are beside each other."""

import itertools
import math
import random

import pytest

from syncline.grouping import order as module
from syncline.grouping.order import by_cluster, distances, filled

np = pytest.importorskip("numpy")


@pytest.fixture(params=["scipy", "without"])
def library(request, monkeypatch):
    if request.param == "scipy":
        pytest.importorskip("scipy")
    else:
        monkeypatch.setattr(module, "_scipy", lambda: False)


def blocks(labels, *, near=10e-6, far=50e-6, noise=0.1, missing=0.0, seed=0):
    """Round trips of hosts: short ones within a block."""
    chance = random.Random(seed)
    return {
        (a, b): (near if labels[a] == labels[b] else far) * math.exp(noise * chance.gauss(0, 1))
        for a, b in itertools.combinations(range(len(labels)), 2)
        if chance.random() >= missing
    }


def runs(labels, order):
    """Numbers of hosts beside each other in one block."""
    return [len(list(run)) for _, run in itertools.groupby(labels[host] for host in order)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_hosts_of_a_block_are_side_by_side(seed, missing, library):
    chance = random.Random(seed)
    labels = [host % 5 for host in range(40)]
    chance.shuffle(labels)
    values = blocks(labels, seed=seed, missing=missing)
    order = by_cluster(40, distances(values, "rtt"))
    assert sorted(order) == list(range(40))
    assert runs(labels, order) == [8] * 5
    # Rates are the other way round: near hosts have high ones.
    rates = {pair: 1e3 / value for pair, value in values.items()}
    assert by_cluster(40, distances(rates, "rate")) == order


def test_near_blocks_are_neighbours():
    pytest.importorskip("scipy")
    pods = [host // 8 for host in range(32)]
    values = {
        (a, b): 10.0 if a // 4 == b // 4 else 20.0 if pods[a] == pods[b] else 60.0
        for a, b in itertools.combinations(range(32), 2)
    }
    shuffled = list(range(32))
    random.Random(3).shuffle(shuffled)
    moved = {tuple(sorted((shuffled[a], shuffled[b]))): value for (a, b), value in values.items()}
    back = {new: old for old, new in enumerate(shuffled)}
    order = [back[host] for host in by_cluster(32, distances(moved, "rtt"))]
    assert runs([host // 4 for host in range(32)], order) == [4] * 8
    assert runs(pods, order) == [8] * 4


def test_hosts_on_a_line_are_in_their_order():
    """Neighbouring leaves have the least sum of distances, as trying every order of a few hosts shows."""
    pytest.importorskip("scipy")
    place = [0, 1, 3, 7, 15, 31]
    names = [4, 2, 0, 5, 1, 3]
    matrix = np.abs(np.subtract.outer(place, place)).astype(float)
    values = {tuple(sorted((names[a], names[b]))): matrix[a, b] for a, b in itertools.combinations(range(6), 2)}
    order = by_cluster(6, values)
    where = {name: at for at, name in enumerate(names)}

    def length(hosts):
        return sum(matrix[where[a], where[b]] for a, b in itertools.pairwise(hosts))

    assert length(order) == min(map(length, itertools.permutations(range(6))))


def test_groups_stay_together(library):
    labels = [host % 3 for host in range(12)]
    groups = [host // 3 for host in range(12)]
    order = by_cluster(12, distances(blocks(labels), "rtt"), groups)
    assert runs(groups, order) == [3] * 4


def test_missing_distances_are_those_of_the_best_chain():
    # 0 - 1 - 2 in a chain, 3 apart from them.
    matrix = filled(4, {(0, 1): 1.0, (1, 2): 3.0})
    far = 3 + math.log(2)
    expected = [[0, 1, 3, far], [1, 0, 3, far], [3, 3, 0, far], [far, far, far, 0]]
    assert matrix == pytest.approx(np.array(expected))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_few_or_unmeasured_hosts_have_an_order(count, library):
    assert sorted(by_cluster(count, {})) == list(range(count))
    assert sorted(by_cluster(count, {(0, 1): 0.0})) == list(range(count))
    assert sorted(by_cluster(count, dict.fromkeys(itertools.combinations(range(count), 2), 0.0))) == list(range(count))

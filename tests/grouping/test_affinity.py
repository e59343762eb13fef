"""Physical affinity inference accuracy, beside a count by hand and one by brute force."""

import itertools
import math
import random

import pytest

from syncline.errors import SynclineError
from syncline.grouping.affinity import affinity_accuracy


def brute_force(distances, locations):
    """The definition of the paper, triplet by triplet."""

    def prefix(one, other):
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True))
        return len(list(same))

    right = defined = 0
    for c in range(len(locations)):
        for a, b in itertools.combinations([host for host in range(len(locations)) if host != c], 2):
            near = prefix(locations[a], locations[c]) - prefix(locations[b], locations[c])
            apart = distances[c][a] - distances[c][b]
            if near == 0 or math.isnan(apart):
                continue
            defined += 1
            right += near * apart < 0
    return right / defined


def test_an_example_by_hand():
    # Hosts 0 and 1 share a rack. Triplets: c = 0 compares 1 and 2, c = 1 compares 0 and 2; for c = 2 both are as far.
    locations = [("r1",), ("r1",), ("r2",)]
    assert affinity_accuracy([[0, 1, 2], [1, 0, 2], [2, 2, 0]], locations) == 1.0
    assert affinity_accuracy([[0, 1, 2], [1, 0, 0.5], [2, 0.5, 0]], locations) == 0.5
    assert affinity_accuracy([[0, 2, 2], [2, 0, 2], [2, 2, 0]], locations) == 0.0, "equal distances do not count"


@pytest.mark.parametrize("seed", range(10))
def test_it_equals_a_count_of_all_triplets(seed):
    chance = random.Random(seed)
    locations = [(chance.randrange(2), chance.randrange(2), chance.randrange(3)) for _ in range(12)]
    distances = [[chance.choice((1, 2, 3, 4, math.nan)) for _ in range(12)] for _ in range(12)]
    assert affinity_accuracy(distances, locations) == pytest.approx(brute_force(distances, locations))


@pytest.mark.parametrize(
    ("distances", "locations", "message"),
    [
        ([[0, 1]], [("a",), ("b",)], "does not fit"),
        ([[0, 1], [1, 0]], [("a",), ("a",)], "no two hosts"),
    ],
)
def test_impossible_input_is_refused(distances, locations, message):
    with pytest.raises(SynclineError, match=message) as caught:
        affinity_accuracy(distances, locations)
    assert caught.value.diagnostics[0]["code"] == "SL1301"

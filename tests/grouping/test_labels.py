"""Labels of points: none overlaps another, or a point."""

import itertools
import random

import pytest

from syncline.grouping import labels
from syncline.grouping.names import LONGEST, short

BOUNDS = (0.0, 0.0, 380.0, 300.0)


def points(kind, count, seed=1):
    chance = random.Random(seed)
    if kind == "spread":
        return [(chance.uniform(40, 340), chance.uniform(20, 280)) for _ in range(count)]
    centres = [(100, 80), (280, 90), (190, 220)]
    return [
        (x + chance.gauss(0, 8), y + chance.gauss(0, 8)) for x, y in itertools.islice(itertools.cycle(centres), count)
    ]


def area(one, other):
    """Area that two boxes share."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0) * max(high, 0)


@pytest.mark.parametrize("kind", ["spread", "racks"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [2, 16, 32])
def test_labels_of_few_hosts_do_not_overlap(kind, seed, count):
    at = points(kind, count, seed)
    found = labels.place(at, [(30.0, 8.0)] * count, BOUNDS)
    # Of 32 hosts in three narrow racks, not all have room.
    assert len(found) >= (count if count <= 16 else count - 2)
    for one, other in itertools.combinations(found, 2):
        assert area(one.box, other.box) == 0
    for label in found:
        assert all(area(label.box, (x - 3, y - 3, x + 3, y + 3)) == 0 for x, y in at)
        assert label.box[0] >= BOUNDS[0]
        assert label.box[3] <= BOUNDS[3]


def test_a_label_without_a_line_is_nearest_to_its_own_point():
    at = points("racks", 16)
    for label in labels.place(at, [(30.0, 8.0)] * 16, BOUNDS):
        if label.line is None:
            # The distance from a dense grid of points of the box.
            steps = [step / 20 for step in range(21)]
            left, bottom, right, top = label.box
            grid = [(left + x * (right - left), bottom + y * (top - bottom)) for x in steps for y in steps]
            away = [min((x - u) ** 2 + (y - v) ** 2 for u, v in grid) for x, y in at]
            assert away[label.point] <= min(away) + 1.0


def test_labels_are_thinned_where_there_is_no_room():
    at = points("spread", 1000)
    found = labels.place(at, [(30.0, 8.0)] * 1000, BOUNDS, order=range(50), far=False)
    assert len(found) < 50
    taken = labels.place([(190.0, 150.0)], [(30.0, 8.0)], BOUNDS, taken=[BOUNDS])
    assert taken == []


@pytest.mark.parametrize(
    ("line", "crosses"),
    [(((0, 0), (10, 10)), True), (((0, 5), (3, 5)), False), (((5, 5), (6, 6)), True), (((0, 9), (9, 9)), False)],
)
def test_lines_that_cross_a_box_are_found(line, crosses):
    assert labels._crosses(line, (4, 4, 8, 8)) == crosses


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["node1.example.org", "node2.example.org"], ["node1", "node2"]),
        (["syncline.two-racks.h0", "syncline.two-racks.h1"], ["h0", "h1"]),
        (["ip-10-0-0-17.ec2.internal", "ip-10-0-1-17.ec2.internal"], ["ip-10-0-0-17", "ip-10-0-1-17"]),
        (["x" * 40 + "1", "x" * 40 + "2"], ["…" + "x" * 14 + "1", "…" + "x" * 14 + "2"]),
        (["1" + "x" * 40, "2" + "x" * 40], ["1" + "x" * 14 + "…", "2" + "x" * 14 + "…"]),
        (["x" * 40 + "1" + "x" * 40, "x" * 40 + "2" + "x" * 40], ["#0", "#1"]),
        (["node0.rack.example.org", "node1.rack.example.org", "a"], ["node0.rack.exam…", "node1.rack.exam…", "a"]),
    ],
)
def test_names_are_short_and_stay_different(names, expected):
    assert short(names) == expected
    assert max(map(len, short(names))) <= LONGEST

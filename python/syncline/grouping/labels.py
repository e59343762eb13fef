"""Places labels beside points so that no two overlap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, bottom, right and top."""

NEAR = (4.0, 8.0)
"""Distances of a label that is read without a line to its point, in the unit of the points."""
FAR = (14.0, 22.0, 32.0, 44.0, 58.0, 74.0, 92.0, 112.0, 136.0, 164.0)
"""Distances of a label with a line to its point."""
_ANGLES = 16
"""Directions that are tried at each distance."""
_GAP = 1.0
"""Least distance between boxes."""


@dataclass(frozen=True)
class Label:
    """Where a label is."""

    point: int
    """Number of its point."""
    box: Box
    line: tuple[Point, Point] | None
    """From the point to the box; None if the label is near enough without."""

    @property
    def centre(self) -> Point:
        """Centre of the box."""
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


def place(
    points: Sequence[Point],
    sizes: Sequence[Point],
    bounds: Box,
    *,
    order: Iterable[int] | None = None,
    radius: float = 3.0,
    far: bool = True,
    taken: Iterable[Box] = (),
) -> list[Label]:
    """Labels of points that overlap neither each other nor points, within ``bounds``.

    ``sizes`` has the width and height of each label, and ``radius`` is that of points. Labels are placed one after the
    other in ``order``, each at the nearest free place, preferably away from the middle of the points. Boxes in
    ``taken`` stay free. With ``far``, a label may be so far from its point that a line joins them. A label without a
    free place is left out.
    """
    middle = (sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points))
    dots = [(x - radius, y - radius, x + radius, y + radius) for x, y in points]
    boxes = list(taken)
    lines: list[tuple[Point, Point]] = []
    found: list[Label] = []

    def fits(label: Label) -> bool:
        return (
            _inside(label.box, bounds)
            and not any(overlap(label.box, other) for other in (*boxes, *dots))
            and not any(_crosses(line, label.box) for line in lines)
            and not (label.line is not None and any(_crosses(label.line, box) for box in boxes))
            and (label.line is not None or _nearest(label.box, points) == points[label.point])
        )

    def clear(label: Label) -> bool:
        own = label.line
        return own is None or not any(_meet(own, line) for line in lines)

    for point in range(len(points)) if order is None else order:
        candidates = list(_candidates(point, points[point], sizes[point], middle, radius, far=far))
        # Lines cross only where there is no other way.
        label = next((each for each in candidates if clear(each) and fits(each)), None)
        label = label or next((each for each in candidates if not clear(each) and fits(each)), None)
        if label is None:
            continue
        boxes.append(label.box)
        if label.line is not None:
            lines.append(label.line)
        found.append(label)
    return found


def _candidates(number: int, point: Point, size: Point, middle: Point, radius: float, *, far: bool) -> Iterable[Label]:
    """Labels around a point: the nearest first, and of equally near ones the one farthest from the middle."""
    outward = math.atan2(point[1] - middle[1], point[0] - middle[0])
    turns = sorted(range(_ANGLES), key=lambda turn: (min(turn, _ANGLES - turn), turn))
    for distance in (*NEAR, *(FAR if far else ())):
        for turn in turns:
            angle = outward + 2 * math.pi * turn / _ANGLES
            along = (math.cos(angle), math.sin(angle))
            # How far the box reaches back towards the point.
            reach = min(
                size[0] / 2 / abs(along[0]) if abs(along[0]) > 1e-9 else math.inf,
                size[1] / 2 / abs(along[1]) if abs(along[1]) > 1e-9 else math.inf,
            )
            away = radius + distance + reach
            x, y = point[0] + away * along[0], point[1] + away * along[1]
            box = (x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2)
            start = (point[0] + radius * along[0], point[1] + radius * along[1])
            end = (point[0] + (radius + distance) * along[0], point[1] + (radius + distance) * along[1])
            yield Label(number, box, (start, end) if distance > NEAR[-1] else None)


def _inside(box: Box, bounds: Box) -> bool:
    return box[0] >= bounds[0] and box[1] >= bounds[1] and box[2] <= bounds[2] and box[3] <= bounds[3]


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes overlap, or nearly touch."""
    return (
        one[0] < other[2] + _GAP and other[0] < one[2] + _GAP and one[1] < other[3] + _GAP and other[1] < one[3] + _GAP
    )


def _nearest(box: Box, points: Sequence[Point]) -> Point:
    """The point nearest to a box: readers take a label without a line for that of this point."""

    def away(point: Point) -> float:
        return math.hypot(
            max(box[0] - point[0], point[0] - box[2], 0.0), max(box[1] - point[1], point[1] - box[3], 0.0)
        )

    return min(points, key=away)


def _crosses(line: tuple[Point, Point], box: Box) -> bool:
    """Whether a line has a point in a box: by cutting it at each side (Liang and Barsky 1984)."""
    (x, y), (to_x, to_y) = line
    first, last = 0.0, 1.0
    for step, below, above in ((to_x - x, x - box[0], box[2] - x), (to_y - y, y - box[1], box[3] - y)):
        for change, room in ((-step, below), (step, above)):
            if change == 0:
                if room < 0:
                    return False
            elif change < 0:
                first = max(first, room / change)
            else:
                last = min(last, room / change)
    return first <= last


def _meet(one: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    """Whether two lines cross."""

    def side(a: Point, b: Point, c: Point) -> float:
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    return side(*one, other[0]) * side(*one, other[1]) < 0 and side(*other, one[0]) * side(*other, one[1]) < 0

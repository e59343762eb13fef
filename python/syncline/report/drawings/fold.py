"""Selects the vertices of a large fabric that a picture draws: some of each level or dimension."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDEST = 64
"""Maximum number of vertices in a row that is drawn completely."""
SOME = 16
"""Maximum number of vertices in a level that is drawn completely in a fabric with wider rows."""
LARGEST = 256
"""Maximum number of NPUs of a grid that is drawn completely, if no dimension has more than :data:`LONGEST` members."""
LONGEST = 32
"""Maximum number of members of a dimension of such a grid."""
MEMBERS = {1: 32, 2: 8}
"""Members of each dimension that are drawn of a larger grid, by the number of its dimensions."""
FEWEST = 4
"""Members of each dimension that are drawn of a larger grid with more dimensions."""


def levels(view: dict[str, Any]) -> dict[str, Any]:
    """The view with fewer vertices, if some level is too wide for a picture."""
    found: list[dict[str, Any]] = view["levels"]
    if max(level["count"] for level in found) <= WIDEST:
        return view
    around: dict[int, list[int]] = {}
    for start, end, _ in view["pairs"]:
        around.setdefault(start, []).append(end)
    kept: set[int] = set()
    # Go from the highest level down, and select hosts without groups below each switch that is drawn.
    for level in sorted(found, key=lambda level: (-level["height"], level["first"])):
        kept.update(_kept(level, kept, around))
    folded = _without(view, kept)
    # Groups that are too large are drawn in part, so treat the level as one group.
    for level in folded["levels"]:
        level["group"] = level["group"] if level["group"] <= SOME else level["count"]
    return folded


def _kept(level: dict[str, Any], kept: set[int], around: dict[int, list[int]]) -> Iterable[int]:
    """The vertices of a level that a folded picture draws: the first groups and the last one."""
    first, count, group = level["first"], level["count"], level["group"]
    every = range(first, first + count)
    if count <= SOME:
        return every
    if 1 < group <= SOME:
        ends = [0, 1, count // group - 1] if group <= SOME // 2 else [0, count // group - 1]
        return (vertex for at in ends for vertex in every[at * group : (at + 1) * group])
    below: dict[int, list[int]] = {}
    for vertex in every:
        for above in around.get(vertex, []):
            if above in kept:
                below.setdefault(above, []).append(vertex)
    some = [vertex for own in below.values() for vertex in (*own[:2], own[-1])]
    return some or (*every[: SOME - 1], every[-1])


def grid(view: dict[str, Any], sizes: Sequence[int]) -> dict[str, Any]:
    """The view of a grid; if it is too large, with only the first members and the last one of each dimension.

    ``members`` of the view lists the coordinates that are drawn of each dimension.
    """
    if prod(sizes) <= LARGEST and max(sizes) <= LONGEST:
        return {**view, "members": [list(range(size)) for size in sizes]}
    most = MEMBERS.get(sum(size > 1 for size in sizes), FEWEST)
    members = [list(range(size)) if size <= most else [*range(most - 1), size - 1] for size in sizes]
    kept = {0}
    stride = 1
    for size, some in zip(sizes, members, strict=True):
        kept = {npu + at * stride for npu in kept for at in some}
        stride *= size
    # Draw the switches that join drawn NPUs.
    npus = view["npus"]
    kept |= {max(ends) for *ends, _ in view["pairs"] if min(ends) in kept and max(ends) >= npus}
    return {**_without(view, kept), "members": members}


def _without(view: dict[str, Any], kept: set[int]) -> dict[str, Any]:
    """The view with only the vertices ``kept``; ``all`` of a level is its number of vertices before that."""
    numbers = {vertex: number for number, vertex in enumerate(sorted(kept))}
    found, first = [], 0
    for level in view["levels"]:
        count = sum(vertex in kept for vertex in range(level["first"], level["first"] + level["count"]))
        found.append({**level, "first": first, "count": count, "all": level["count"]})
        first += count
    pairs = [(numbers[start], numbers[end], at) for start, end, at in view["pairs"] if {start, end} <= kept]
    labels = [view["labels"][vertex] for vertex in sorted(kept)]
    return {**view, "levels": found, "pairs": pairs, "labels": labels}

"""A fabric as a picture: an SVG file, from what ``show`` says of it.

Levels of switches are drawn above each other; grids as grids, where higher dimensions repeat the lower ones; all else
in circles, the highest level inside. Of levels of switches that are too wide, the first groups of vertices and the last
one are drawn. The same fabric gives the same bytes.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from syncline.report.quantity import rate, time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Point = tuple[float, float]

MOST_LINKS = 4096
"""Directed links of the largest fabric that a picture holds."""

_COLOURS = ("#4c78a8", "#e4812b", "#3a923a", "#b4464b", "#857aab", "#8c613c")
"""Of the tiers of links, in their order."""
_STEP = 26.0
"""Between neighbours."""
_ROW = 96.0
"""Between levels."""
_MARGIN = 28.0
_LABELS = 132.0
"""Room for the names of levels."""
_WIDEST = 64
"""Vertices of a row in which all are drawn."""
_SOME = 16
"""Vertices of a level in which all are drawn where rows are wider."""


def svg(view: dict[str, Any], title: str) -> str:
    """The picture of a fabric that ``show`` lists with all its links."""
    view = _folded(_numbered(view))
    places = _places(view)
    left, top = (min(place[axis] for place in places) for axis in (0, 1))
    right, bottom = (max(place[axis] for place in places) for axis in (0, 1))
    labels = _LABELS if _rows(view) else 0.0
    places = [(x - left + _MARGIN + labels, y - top + _MARGIN) for x, y in places]
    tiers = _tiers(view)
    width = max(right - left + 2 * _MARGIN + labels, 340.0)
    height = bottom - top + 2 * _MARGIN + 18 * len(tiers) + 10
    size = f'viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_links(view, places, tiers),
        *_vertices(view, places),
        *(_names(view, places) if labels else ()),
        *_legend(tiers, height),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rows(view: dict[str, Any]) -> bool:
    """Whether levels stand above each other."""
    return view["layout"] == "levels" or (
        len(view["axes"]) == 1 and view["dims"] and view["dims"][0]["kind"] == "switch"
    )


def _levels(view: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = view["levels"]
    return found


def _numbered(view: dict[str, Any]) -> dict[str, Any]:
    """The view with names of all vertices, and links as numbers of their ends and of the link."""
    labels = view.get("names") or [
        f"{level['name']} {index}" for level in _levels(view) for index in range(level["count"])
    ]
    numbers = {label: number for number, label in enumerate(labels)}
    pairs = [(numbers[link["from"]], numbers[link["to"]], at) for at, link in enumerate(view["listed"])]
    return {**view, "labels": labels, "pairs": pairs}


def _folded(view: dict[str, Any]) -> dict[str, Any]:
    """The view without most of the vertices, where levels above each other are too wide for a picture."""
    if not _rows(view) or max(level["count"] for level in _levels(view)) <= _WIDEST:
        return view
    around: dict[int, list[int]] = {}
    for start, end, _ in view["pairs"]:
        around.setdefault(start, []).append(end)
    kept: set[int] = set()
    # From the highest level down: of hosts in no groups of their own, some of those below each switch that is drawn.
    for level in sorted(_levels(view), key=lambda level: (-level["height"], level["first"])):
        kept.update(_kept(level, kept, around))
    numbers = {vertex: number for number, vertex in enumerate(sorted(kept))}
    levels, first = [], 0
    for level in _levels(view):
        count = sum(vertex in kept for vertex in range(level["first"], level["first"] + level["count"]))
        group = level["group"] if level["group"] <= _SOME else count
        levels.append({**level, "first": first, "count": count, "group": group, "all": level["count"]})
        first += count
    pairs = [(numbers[start], numbers[end], at) for start, end, at in view["pairs"] if {start, end} <= kept]
    labels = [view["labels"][vertex] for vertex in sorted(kept)]
    return {**view, "levels": levels, "pairs": pairs, "labels": labels}


def _kept(level: dict[str, Any], kept: set[int], around: dict[int, list[int]]) -> Iterable[int]:
    """The vertices of a level that a folded picture draws: the first groups and the last one."""
    first, count, group = level["first"], level["count"], level["group"]
    every = range(first, first + count)
    if count <= _SOME:
        return every
    if 1 < group <= _SOME:
        ends = [0, 1, count // group - 1] if group <= _SOME // 2 else [0, count // group - 1]
        return (vertex for at in ends for vertex in every[at * group : (at + 1) * group])
    below: dict[int, list[int]] = {}
    for vertex in every:
        for above in around.get(vertex, []):
            if above in kept:
                below.setdefault(above, []).append(vertex)
    some = [vertex for own in below.values() for vertex in (*own[:2], own[-1])]
    return some or (*every[: _SOME - 1], every[-1])


def _places(view: dict[str, Any]) -> list[Point]:
    if _rows(view):
        return _in_rows(view)
    if isinstance(view["layout"], dict) and view["npus"] == math.prod(view["layout"]["grid"]):
        return _in_grid(view, view["layout"]["grid"])
    return _in_circles(view)


def _in_rows(view: dict[str, Any]) -> list[Point]:
    """Levels above each other, the vertices of each spread evenly, with gaps between groups."""
    widths = {level["name"]: _spread(level) for level in _levels(view)}
    widest = max(places[-1] for places in widths.values())
    found = []
    for level in _levels(view):
        own = widths[level["name"]]
        # Other levels than the NPUs are spread over the whole, as far as they have vertices.
        factor = widest / own[-1] * len(own) / (len(own) + 1) if len(own) > 1 else 1.0
        factor = max(1.0, factor) if level["height"] else 1.0
        start = (widest - own[-1] * factor) / 2
        found += [(start + x * factor, -level["height"] * _ROW) for x in own]
    return found


def _spread(level: dict[str, Any]) -> list[float]:
    gap = _STEP * 0.6 if level["group"] > 1 else 0.0
    return [at * _STEP + at // max(level["group"], 1) * gap for at in range(level["count"])]


def _in_circles(view: dict[str, Any]) -> list[Point]:
    """The highest level in a circle by groups, each lower one around it, near its neighbours."""
    pairs = view["pairs"]
    around: dict[int, list[int]] = {}
    for start, end, _ in pairs:
        around.setdefault(start, []).append(end)
    angles: dict[int, float] = {}
    places: dict[int, Point] = {}
    radius = 0.0
    for height in sorted({level["height"] for level in _levels(view)}, reverse=True):
        mine = [
            vertex
            for level in _levels(view)
            if level["height"] == height
            for vertex in range(level["first"], level["first"] + level["count"])
        ]
        if angles:
            mine.sort(key=lambda vertex: (_mean(angles[at] for at in around.get(vertex, []) if at in angles), vertex))
        radius = max(radius + 2.2 * _STEP, len(mine) * _STEP / (2 * math.pi))
        spots = _around(mine, _levels(view)) if not places else [(at + 0.5) / len(mine) for at in range(len(mine))]
        for vertex, spot in zip(mine, spots, strict=True):
            angles[vertex] = 2 * math.pi * spot
            places[vertex] = (radius * math.sin(angles[vertex]), -radius * math.cos(angles[vertex]))
    return [places[vertex] for vertex in sorted(places)]


def _around(vertices: list[int], levels: list[dict[str, Any]]) -> list[float]:
    """Fractions of a circle, with gaps between groups."""
    level = next(level for level in levels if level["first"] <= vertices[0] < level["first"] + level["count"])
    group = max(level["group"], 1)
    gaps = -(-len(vertices) // group) if 1 < group < len(vertices) else 0
    whole = len(vertices) + gaps
    return [(at + (at // group if gaps else 0) + 0.5) / whole for at in range(len(vertices))]


def _mean(angles: Iterable[float]) -> float:
    found = list(angles)
    turn = math.atan2(sum(map(math.sin, found)), sum(map(math.cos, found))) if found else 0.0
    return round(turn % (2 * math.pi), 9)


def _in_grid(view: dict[str, Any], sizes: list[int]) -> list[Point]:
    """Dimensions to the right and down in turn; switches between those that they join."""
    pitch = [2 * _STEP, 2 * _STEP]
    steps = []
    for index, size in enumerate(sizes):
        steps.append((index % 2, pitch[index % 2]))
        pitch[index % 2] *= size + 0.35
    found: list[Point] = []
    for npu in range(view["npus"]):
        at, rest = [0.0, 0.0], npu
        for (axis, step), size in zip(steps, sizes, strict=True):
            at[axis] += rest % size * step
            rest //= size
        found.append((at[0], at[1]))
    joined: dict[int, list[int]] = {}
    for start, end, _ in view["pairs"]:
        joined.setdefault(start, []).append(end)
    for vertex in range(view["npus"], view["npus"] + view["switches"]):
        around = [found[npu] for npu in joined[vertex]]
        x, y = (sum(place[axis] for place in around) / len(around) for axis in (0, 1))
        # Beside the middle, where an NPU may stand.
        found.append((x + 0.5 * _STEP, y + 0.5 * _STEP))
    return found


def _tiers(view: dict[str, Any]) -> list[dict[str, Any]]:
    known: list[dict[str, Any]] = view["tiers"]
    return known or [{"name": "links", "first": 0, "links": view["links"]}]


def _links(view: dict[str, Any], places: list[Point], tiers: list[dict[str, Any]]) -> Iterator[str]:
    """One line for each cable; parallel ones beside each other, those that lead past others bent."""
    passed: dict[tuple[int, int], int] = {}
    pairs = view["pairs"]
    both = {(start, end) for start, end, _ in pairs}
    grid = isinstance(view["layout"], dict)
    for start, end, number in pairs:
        if start > end and (end, start) in both:
            continue
        again = passed.get((start, end), 0)
        passed[start, end] = again + 1
        colour = next(i for i, tier in enumerate(tiers) if tier["first"] <= number < tier["first"] + tier["links"])
        (x, y), (u, v) = places[start], places[end]
        long = math.hypot(u - x, v - y)
        bend = 5.0 * again
        if grid and long > 2.2 * _STEP and max(start, end) < view["npus"]:
            bend += min(0.12 * long, _MARGIN)
        stroke = f'stroke="{_COLOURS[colour % len(_COLOURS)]}" stroke-opacity="0.75"'
        if bend:
            mx, my = (x + u) / 2 + (v - y) / long * bend * 2, (y + v) / 2 - (u - x) / long * bend * 2
            yield f'<path d="M{_n(x)} {_n(y)}Q{_n(mx)} {_n(my)} {_n(u)} {_n(v)}" fill="none" {stroke}/>'
        else:
            yield f'<path d="M{_n(x)} {_n(y)}L{_n(u)} {_n(v)}" {stroke}/>'


def _vertices(view: dict[str, Any], places: list[Point]) -> Iterator[str]:
    for level in _levels(view):
        for index in range(level["count"]):
            x, y = places[level["first"] + index]
            name = f"<title>{escape(view['labels'][level['first'] + index])}</title>"
            match level["kind"]:
                case "npu":
                    yield f'<circle cx="{_n(x)}" cy="{_n(y)}" r="5" fill="#333333">{name}</circle>'
                case "nic":
                    yield f'<path d="M{_n(x)} {_n(y - 5)}l5 5l-5 5l-5 -5z" fill="#777777">{name}</path>'
                case _:
                    yield (
                        f'<rect x="{_n(x - 7)}" y="{_n(y - 5)}" width="14" height="10" rx="2" fill="#ffffff"'
                        f' stroke="#333333">{name}</rect>'
                    )


def _names(view: dict[str, Any], places: list[Point]) -> Iterator[str]:
    """How many vertices a level has, and what they are called, at the left of their row."""
    for level in _levels(view):
        y = places[level["first"]][1]
        every = level.get("all", level["count"])
        yield f'<text x="{_n(_MARGIN / 2)}" y="{_n(y + 4)}" fill="#333333">{escape(level["name"])} x {every}</text>'
        if every > level["count"]:
            said = f"{level['count']} are drawn"
            yield f'<text x="{_n(_MARGIN / 2)}" y="{_n(y + 18)}" fill="#777777" font-size="10">{said}</text>'


def _legend(tiers: list[dict[str, Any]], height: float) -> Iterator[str]:
    for index, tier in enumerate(tiers):
        y = height - 18 * (len(tiers) - index) + 4
        speed = f": {rate(tier['rate_bytes_per_s'])}, {time(tier['latency_s'])}" if "rate_bytes_per_s" in tier else ""
        yield f'<path d="M12 {_n(y - 4)}h18" stroke="{_COLOURS[index % len(_COLOURS)]}" stroke-width="2"/>'
        yield f'<text x="36" y="{_n(y)}" fill="#333333">{escape(tier["name"])}{speed}</text>'

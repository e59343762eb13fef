"""Draws a fabric as an SVG file, from the view that ``show`` prints.

Levels of switches are drawn above each other. Grids are drawn as grids, in which higher dimensions repeat the lower
ones. All other fabrics are drawn in circles, with the highest level innermost. If a level is too wide or a dimension
too long, only some of its vertices are drawn (``fold``). The same fabric gives the same bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Any

from syncline.quantity import rate, time
from syncline.report.drawings import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Point = tuple[float, float]

MAX_LINKS = 4096
"""Maximum number of directed links of a fabric that can be drawn."""

_COLOURS = ("#4c78a8", "#e4812b", "#3a923a", "#b4464b", "#857aab", "#8c613c")
"""Colours of the tiers of links, in their order."""
_STEP = 26.0
"""Distance between neighbours."""
_ROW = 96.0
"""Distance between levels."""
_MARGIN = 28.0
_LETTER, _LETTERS = 5.8, 16
"""Width of a letter in a user's name, and the most letters that are drawn."""
_STUB = 16.0
"""Length of the two stubs that represent a link that closes a ring."""
_LABELS = 132.0
"""Room for the names of levels."""


def svg(view: dict[str, Any], title: str) -> str:
    """The SVG text of a fabric, given the view of ``show`` with all links."""
    view = _numbered(view)
    if _rows(view):
        view = fold.levels(view)
    elif sizes := _grid(view):
        view = fold.grid(view, sizes)
    places = _places(view)
    left, top = (min(place[axis] for place in places) for axis in (0, 1))
    right, bottom = (max(place[axis] for place in places) for axis in (0, 1))
    labels = _LABELS if _rows(view) else 0.0
    places = [(x - left + _MARGIN + labels, y - top + _MARGIN) for x, y in places]
    tiers = _tiers(view)
    beside = 0.0 if _rows(view) or not view.get("names") else _LETTER * _LETTERS
    width = max(right - left + 2 * _MARGIN + labels + beside, 340.0)
    legend = [f"{tier['name']}{_speed(tier)}{_drawn(view, index)}" for index, tier in enumerate(tiers)]
    legend += ["Lines that leave on one side come in on the other."] if _closing_links(view) else []
    width = max(width, 48 + 6.2 * max(map(len, legend)))
    height = bottom - top + 2 * _MARGIN + 18 * len(legend) + 10
    size = f'viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_links(view, places, tiers),
        *_gaps(view, places),
        *_vertices(view, places),
        *(_own_names(view, places) if view.get("names") else ()),
        *(_names(view, places) if labels else ()),
        *_legend(legend, len(tiers), height),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rows(view: dict[str, Any]) -> bool:
    """Whether the vertices are drawn in rows, with levels above each other."""
    return view["layout"] == "levels" or (
        len(view["axes"]) == 1 and view["dims"] and view["dims"][0]["kind"] == "switch"
    )


def _levels(view: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = view["levels"]
    return found


def _numbered(view: dict[str, Any]) -> dict[str, Any]:
    """The view with names of all vertices, and with each link as a triple: numbers of its ends, and its own number."""
    labels = view.get("names") or [
        f"{level['name']} {index}" for level in _levels(view) for index in range(level["count"])
    ]
    numbers = {label: number for number, label in enumerate(labels)}
    pairs = [(numbers[link["from"]], numbers[link["to"]], at) for at, link in enumerate(view["listed"])]
    return _by_distance({**view, "labels": labels, "pairs": pairs})


def _by_distance(view: dict[str, Any]) -> dict[str, Any]:
    """Sorts the switches of a fabric given link by link into levels, by their distance from the NPUs.

    Returns the view unchanged if NPUs are linked to each other, or if a vertex cannot be reached from them.
    """
    npus = view["npus"]
    if view["family"] or view["dims"] or not view["switches"]:
        return view
    around: dict[int, list[int]] = {}
    for start, end, _ in view["pairs"]:
        around.setdefault(start, []).append(end)
    away = dict.fromkeys(range(npus), 0)
    queue = list(away)
    for vertex in queue:
        for other in around.get(vertex, []):
            if vertex < npus and other < npus:
                return view
            if other not in away:
                away[other] = away[vertex] + 1
                queue.append(other)
    if len(away) < len(view["labels"]):
        return view
    order = sorted(away, key=lambda vertex: (away[vertex], vertex))
    numbers = {vertex: number for number, vertex in enumerate(order)}
    rows = Counter(away.values())
    levels, first = [], 0
    for height in sorted(rows):
        like = view["levels"][min(height, 1)]
        levels.append({**like, "height": height, "first": first, "count": rows[height], "group": 1})
        first += rows[height]
    pairs = [(numbers[start], numbers[end], at) for start, end, at in view["pairs"]]
    labels = [view["labels"][vertex] for vertex in order]
    return {**view, "layout": "levels", "levels": levels, "pairs": pairs, "labels": labels}


def _grid(view: dict[str, Any]) -> list[int]:
    """Sizes of the grid of NPUs, lowest dimension first; empty if the NPUs form no grid."""
    layout = view["layout"]
    sizes: list[int] = layout["grid"] if isinstance(layout, dict) else []
    return sizes if view["npus"] == math.prod(sizes) else []


def _places(view: dict[str, Any]) -> list[Point]:
    if _rows(view):
        return _in_rows(view)
    return _in_grid(view) if "members" in view else _in_circles(view)


def _in_rows(view: dict[str, Any]) -> list[Point]:
    """Places in rows: levels above each other, the vertices of each spread evenly, with gaps between groups."""
    step = _pitch(view)
    widths = [_spread(level, step) for level in _levels(view)]
    widest = max(places[-1] for places in widths)
    found = []
    for level, own in zip(_levels(view), widths, strict=True):
        # Spread every level but the NPUs over the whole width, as far as its number of vertices allows.
        factor = widest / own[-1] * len(own) / (len(own) + 1) if len(own) > 1 else 1.0
        factor = max(1.0, factor) if level["height"] else 1.0
        start = (widest - own[-1] * factor) / 2
        found += [(start + x * factor, -level["height"] * _ROW) for x in own]
    return found


def _pitch(view: dict[str, Any]) -> float:
    """Distance between neighbours in a row: wide enough for the user's names."""
    longest = max(len(_short(label)) for label in view["labels"]) if view.get("names") else 0
    return max(_STEP, _LETTER * longest + 8)


def _short(name: str) -> str:
    """The part of a name that is drawn; the vertex's title has the whole name."""
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _spread(level: dict[str, Any], step: float) -> list[float]:
    gap = _STEP * 0.6 if level["group"] > 1 else 0.0
    return [at * step + at // max(level["group"], 1) * gap for at in range(level["count"])]


def _in_circles(view: dict[str, Any]) -> list[Point]:
    """Places in circles: the highest level innermost, by groups; each lower level around it, near its neighbours."""
    pairs = view["pairs"]
    around: dict[int, list[int]] = {}
    for start, end, _ in pairs:
        around.setdefault(start, []).append(end)
    step = _pitch(view)
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
        radius = max(radius + 2.2 * step, len(mine) * step / (2 * math.pi))
        spots = _around(mine, _levels(view)) if not places else [(at + 0.5) / len(mine) for at in range(len(mine))]
        for vertex, spot in zip(mine, spots, strict=True):
            angles[vertex] = 2 * math.pi * spot
            places[vertex] = (radius * math.sin(angles[vertex]), -radius * math.cos(angles[vertex]))
    return [places[vertex] for vertex in sorted(places)]


def _around(vertices: list[int], levels: list[dict[str, Any]]) -> list[float]:
    """Places of vertices on a circle, as fractions of it, with gaps between groups."""
    level = next(level for level in levels if level["first"] <= vertices[0] < level["first"] + level["count"])
    group = max(level["group"], 1)
    gaps = -(-len(vertices) // group) if 1 < group < len(vertices) else 0
    whole = len(vertices) + gaps
    return [(at + (at // group if gaps else 0) + 0.5) / whole for at in range(len(vertices))]


def _mean(angles: Iterable[float]) -> float:
    found = list(angles)
    turn = math.atan2(sum(map(math.sin, found)), sum(map(math.cos, found))) if found else 0.0
    return round(turn % (2 * math.pi), 9)


def _in_grid(view: dict[str, Any]) -> list[Point]:
    """Places in a grid: dimensions go right and down in turn; a switch is between the NPUs that it joins."""
    found: list[Point] = [(0.0, 0.0)]
    for places in _steps(view["members"]):
        found = [(x + right, y + down) for right, down in places for x, y in found]
    npus = len(found)
    joined: dict[int, list[int]] = {}
    for start, end, _ in view["pairs"]:
        joined.setdefault(start, []).append(end)
    for vertex in range(npus, len(view["labels"])):
        around = [found[npu] for npu in joined[vertex] if npu < npus]
        x, y = (sum(place[axis] for place in around) / len(around) for axis in (0, 1))
        # Place it beside the middle, where an NPU may be.
        found.append((x + 0.5 * _STEP, y + 0.5 * _STEP))
    return found


_GAP = 0.5
"""Width of the gap for members that are left out, in steps."""
_ASLANT = (0.9 * _STEP, 0.62 * _STEP)
"""Step between members of the lowest dimension, if there are three or more dimensions."""


def _steps(members: list[list[int]]) -> list[list[Point]]:
    """For each dimension, the offsets of its members from the first one. A gap precedes the last if some are left out.

    The first dimension goes right and the second down; of three or more, the first goes diagonally.
    """
    found = []
    pitch = [2 * _STEP, 2 * _STEP]
    way = 0
    deep = sum(len(some) > 1 for some in members) > 2
    for some in members:
        places = [at + (_GAP if _is_partial(some) and at == len(some) - 1 else 0.0) for at in range(len(some))]
        if deep and len(some) > 1:
            deep = False
            found.append([(at * _ASLANT[0], at * _ASLANT[1]) for at in places])
            pitch = [2 * _STEP + places[-1] * part for part in _ASLANT]
            continue
        found.append([(at * pitch[0], 0.0) if way == 0 else (0.0, at * pitch[1]) for at in places])
        pitch[way] *= places[-1] + 1.35
        way = 1 - way
    return found


def _is_partial(some: list[int]) -> bool:
    """Whether members of a dimension are left out."""
    return some[-1] >= len(some)


def _gaps(view: dict[str, Any], places: list[Point]) -> Iterator[str]:
    """Draws three dots where members of a dimension are left out."""
    stride = 1
    members: list[list[int]] = view.get("members", [])
    npus = math.prod(map(len, members))
    for some in members:
        for npu in range(npus) if _is_partial(some) else ():
            if npu // stride % len(some) == len(some) - 2:
                (x, y), (u, v) = places[npu], places[npu + stride]
                long = math.hypot(u - x, v - y)
                for pixels in (-6.0, 0.0, 6.0):
                    part = 0.5 + pixels / long
                    at = _n(x + part * (u - x)), _n(y + part * (v - y))
                    yield f'<circle cx="{at[0]}" cy="{at[1]}" r="1.3" fill="#777777"/>'
        stride *= len(some)


def _closing_links(view: dict[str, Any]) -> dict[tuple[int, int], int]:
    """The links that close rings: the stride of their dimension, by their ends. They are drawn as two stubs."""
    members: list[list[int]] = view.get("members", [])
    stride = 1
    found: dict[tuple[int, int], int] = {}
    npus = math.prod(map(len, members))
    for some in members:
        there = {
            (start, end): (start // stride % len(some), end // stride % len(some))
            for start, end, _ in view["pairs"]
            if max(start, end) < npus
            and start % stride == end % stride
            and start // (stride * len(some)) == end // (stride * len(some))
        }
        size = some[-1] + 1
        apart = {abs(some[a] - some[b]) for a, b in there.values()}
        if size > 2 and apart <= {1, size - 1}:
            found |= {ends: stride for ends, (a, b) in there.items() if abs(some[a] - some[b]) == size - 1}
        stride *= len(some)
    return found


def _tiers(view: dict[str, Any]) -> list[dict[str, Any]]:
    known: list[dict[str, Any]] = view["tiers"]
    return known or [{"name": "links", "first": 0, "links": view["links"]}]


def _straight(view: dict[str, Any]) -> set[int]:
    """Strides of the dimensions whose neighbours are drawn side by side, with nothing between them."""
    members: list[list[int]] = view.get("members", [])
    long = [at for at, some in enumerate(members) if len(some) > 1]
    # Higher dimensions repeat a direction, so their lines pass other vertices.
    alone = long[: 3 if len(long) > 2 else 2]
    return {math.prod(map(len, members[:at])) for at in alone}


def _links(view: dict[str, Any], places: list[Point], tiers: list[dict[str, Any]]) -> Iterator[str]:
    """Draws a line for each cable: parallel cables beside each other, and cables that pass other vertices curved."""
    passed: dict[tuple[int, int], int] = {}
    pairs = view["pairs"]
    both = {(start, end) for start, end, _ in pairs}
    grid, npus = "members" in view, view["levels"][0]["count"]
    closing, straight = _closing_links(view), _straight(view)
    for start, end, number in pairs:
        if start > end and (end, start) in both:
            continue
        again = passed.get((start, end), 0)
        passed[start, end] = again + 1
        colour = next(i for i, tier in enumerate(tiers) if tier["first"] <= number < tier["first"] + tier["links"])
        (x, y), (u, v) = places[start], places[end]
        stroke = f'stroke="{_COLOURS[colour % len(_COLOURS)]}" stroke-opacity="0.75"'
        if (stride := closing.get((start, end))) is not None:
            # Draw two stubs: one leaves the picture on one side, the other enters on the opposite side.
            low = min(start, end)
            dx, dy = (there - here for here, there in zip(places[low], places[low + stride], strict=True))
            dx, dy = (_STUB * each / math.hypot(dx, dy) for each in (dx, dy))
            (x, y), (u, v) = sorted([(x, y), (u, v)]) if dx else sorted([(x, y), (u, v)], key=lambda at: at[1])
            yield f'<path d="M{_n(x)} {_n(y)}l{_n(-dx)} {_n(-dy)}M{_n(u)} {_n(v)}l{_n(dx)} {_n(dy)}" {stroke}/>'
            continue
        long = math.hypot(u - x, v - y)
        bend = 5.0 * again
        if grid and max(start, end) < npus and abs(start - end) not in straight and long > 2.2 * _STEP:
            bend += min(0.12 * long, _MARGIN - 4)
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


def _own_names(view: dict[str, Any], places: list[Point]) -> Iterator[str]:
    """Draws the user's names: in rows, below NPUs and above switches; otherwise beside the vertices."""
    rows = _rows(view)
    for level in _levels(view):
        for at in range(level["first"], level["first"] + level["count"]):
            x, y = places[at]
            if rows:
                where = f'x="{_n(x)}" y="{_n(y - 10 if level["height"] > 0 else y + 18)}" text-anchor="middle"'
            else:
                where = f'x="{_n(x + 9)}" y="{_n(y + 4)}"'
            # A pale edge keeps names legible on lines.
            edge = 'stroke="#ffffff" stroke-width="3" paint-order="stroke" stroke-linejoin="round"'
            yield f'<text {where} fill="#333333" font-size="10" {edge}>{escape(_short(view["labels"][at]))}</text>'


def _names(view: dict[str, Any], places: list[Point]) -> Iterator[str]:
    """Draws the name of each level and its number of vertices, to the left of its row."""
    for level in _levels(view):
        y = places[level["first"]][1]
        every = level.get("all", level["count"])
        yield f'<text x="{_n(_MARGIN / 2)}" y="{_n(y + 4)}" fill="#333333">{escape(level["name"])} x {every}</text>'
        if every > level["count"]:
            said = f"{level['count']} are drawn"
            yield f'<text x="{_n(_MARGIN / 2)}" y="{_n(y + 18)}" fill="#777777" font-size="10">{said}</text>'


def _legend(texts: list[str], colours: int, height: float) -> Iterator[str]:
    """Draws a line of text below the picture for each tier, with its colour, and then the notes."""
    for index, text in enumerate(texts):
        y = height - 18 * (len(texts) - index) + 4
        if index < colours:
            yield f'<path d="M12 {_n(y - 4)}h18" stroke="{_COLOURS[index % len(_COLOURS)]}" stroke-width="2"/>'
            yield f'<text x="36" y="{_n(y)}" fill="#333333">{escape(text)}</text>'
        else:
            yield f'<text x="12" y="{_n(y)}" fill="#777777">{escape(text)}</text>'


def _speed(tier: dict[str, Any]) -> str:
    return f": {rate(tier['rate_bytes_per_s'])}, {time(tier['latency_s'])}" if "rate_bytes_per_s" in tier else ""


def _drawn(view: dict[str, Any], index: int) -> str:
    """Text that says how many members of a dimension are drawn; empty if all are."""
    some = view["members"][index] if len(view.get("members", [])) == len(_tiers(view)) else []
    return f"; {len(some)} of {some[-1] + 1} members are drawn" if some and _is_partial(some) else ""

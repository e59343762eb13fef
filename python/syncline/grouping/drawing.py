"""Draws measurements between hosts: a heat map ordered by cluster, and a map of the hosts.

The colours and shapes of groups can be told apart by colour-blind people (Okabe and Ito 2008), and so can those of the
heat map (viridis). A picture in SVG is dark where the viewer prefers that.
"""

from __future__ import annotations

import base64
import math
import re
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from syncline.codes import Code
from syncline.files import write_whole
from syncline.grouping import labels, plane
from syncline.grouping.heat_map import shown
from syncline.grouping.names import short
from syncline.grouping.order import by_cluster, distances, filled
from syncline.grouping.packages import needed
from syncline.input.problem import bad_value, cannot_write, error, raise_errors
from syncline.quantity import counted, digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.distances.summary import By
    from syncline.grouping.arrays import Floats, Ints
    from syncline.grouping.grouping import Grouping

FORMATS = (".svg", ".png")
MAX_HOSTS = 8192
"""The most hosts that are drawn."""
MAX_CELLS = 1024
"""Most rows and columns of the heat map; of more hosts, a cell is the geometric mean of several."""
MAX_PLACED = 1024
"""The most hosts on the map; of more hosts, some of each cluster are drawn."""
ALL_LABELLED = 40
"""The most hosts that all have labels."""
SOME_LABELLED = 24
"""Labels on the map of more hosts."""
LEGEND = 12
"""The most groups that the legend lists."""

INK, FAINT, PAPER, BLANK = "#1f2429", "#9097a0", "#fffffe", "#e3e6ea"
_DARK = {INK: "#e6e9ed", FAINT: "#7d8590", PAPER: "#15191e", BLANK: "#343b44"}
"""Colours of text, lines, background and cells without a value, and what replaces them on a dark screen."""
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#f0e442")
_SHAPES = "osD^vPX*"
_SIZE = (12.4, 6.25)
"""Width and height in inches."""
_LETTERS = 7.0
"""Size of labels in points."""
_STYLE: Any = {
    "axes.edgecolor": FAINT,
    "axes.facecolor": PAPER,
    "axes.labelcolor": INK,
    "figure.facecolor": PAPER,
    "font.size": 9,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "syncline",
    "text.color": INK,
    # Names of hosts are not formulas.
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


def check(path: str) -> None:
    """Checks that a picture can be drawn, before a long search.

    :raises SynclineError: the name does not end in ``.svg`` or ``.png``, or matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise bad_value("not a name of a picture", path, allowed="a name that ends in .svg or .png")
    needed("matplotlib", "matplotlib", "plot")


def draw(found: Grouping, path: str) -> None:
    """Draws what was measured as a heat map with the groups, and the hosts on a map.

    The same groups give the same bytes.

    :raises SynclineError: there are too many hosts, or the file cannot be written.
    """
    draw_values(found.hosts, found.values, found.by, path, groups=found.groups, title=found.source)


def draw_values(
    hosts: Sequence[str],
    values: Mapping[tuple[int, int], float],
    by: By,
    path: str,
    *,
    groups: Sequence[int] | None = None,
    title: str = "",
) -> None:
    """Draws the ``values`` of pairs ``(a, b)`` with ``a < b``, in seconds or bytes per second; at least one.

    ``groups`` has the group of each host. The same values give the same bytes.

    :raises SynclineError: there are too many hosts, or the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if len(hosts) > MAX_HOSTS:
        raise_errors(
            error(
                Code.BAD_DISTANCES,
                "too many hosts for a picture",
                found=f"{len(hosts):,} hosts",
                allowed=f"at most {MAX_HOSTS:,}",
                help="draw a file with fewer of them: a CSV file of some rows",
            )
        )
    near = distances(values, by)
    matrix = filled(len(hosts), near)
    order = by_cluster(len(hosts), near, groups, matrix)
    kind = Path(path).suffix.lower()[1:]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE)
        if title:
            figure.text(0.3 / _SIZE[0], 1 - 0.25 / _SIZE[1], title, fontsize=10.5, fontweight="bold", va="center")
        names = short(hosts)
        _heat_map(figure, names, values, by, order, groups, vector=kind == "svg")
        _map(figure, names, matrix, near, by, order, groups)
        content = BytesIO()
        figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None, dpi=150)
    data = content.getvalue()
    try:
        write_whole(path, _adapted(data.decode(), title) if kind == "svg" else data)
    except OSError as problem:
        raise_errors(cannot_write(path, problem))


def _axes(figure: Any, left: float, bottom: float, width: float, height: float) -> Any:
    """Axes at a place in inches."""
    return figure.add_axes((left / _SIZE[0], bottom / _SIZE[1], width / _SIZE[0], height / _SIZE[1]))


def _title(axes: Any, text: str, further: str) -> None:
    axes.set_title(text, loc="left", fontsize=9.5, fontweight="bold", pad=24)
    axes.annotate(further, (0, 1), (0, 13), "axes fraction", "offset points", fontsize=_LETTERS + 0.5, va="center")


def _heat_map(
    figure: Any,
    names: Sequence[str],
    values: Mapping[tuple[int, int], float],
    by: By,
    order: Sequence[int],
    groups: Sequence[int] | None,
    *,
    vector: bool,
) -> None:
    """Draws the matrix, its colour bar, the names of hosts as far as there is room, and boundaries of groups."""
    import matplotlib as mpl
    from matplotlib.colors import LogNorm

    count = len(order)
    axes = _axes(figure, 1.25, 1.1, 4.2, 4.2)
    axes.set_facecolor(BLANK)
    cells = condensed(values, order, min(count, MAX_CELLS))
    low, high = (float(each) for each in np.nanquantile(cells, (0.01, 0.99)))
    norm = LogNorm(low, high if high > low * 1.01 else low * 1.01)
    # Viewers smooth small images: make each cell some pixels wide.
    wide = math.ceil(512 / len(cells))
    image = axes.imshow(
        np.repeat(np.repeat(np.ma.masked_invalid(cells), wide, 0), wide, 1),
        # With the transparent one, not more than the 256 colours of a small PNG file.
        cmap=mpl.colormaps["viridis_r" if by == "rtt" else "viridis"].resampled(128),
        norm=norm,
        extent=(-0.5, count - 0.5, count - 0.5, -0.5),
        interpolation="none" if vector else "antialiased",
    )
    _colour_bar(figure, image, by, float(np.nanmin(cells)), float(np.nanmax(cells)))
    step = math.ceil(count / ALL_LABELLED)
    ticks = range(0, count, step)
    texts = [names[order[at]] for at in ticks]
    away = 8 if groups is not None else 3
    axes.set_xticks(ticks, texts, rotation=90, fontsize=_LETTERS)
    axes.set_yticks(ticks, texts, fontsize=_LETTERS)
    axes.tick_params(length=0 if step == 1 else 2, pad=away, color=FAINT)
    if groups is not None:
        _boundaries(axes, [groups[host] for host in order])
    what = "round trip" if by == "rtt" else "rate"
    further = "hosts ordered by cluster" if groups is None else "hosts ordered by group"
    further += f", a name for every {step} hosts" if step > 1 else ""
    further += (
        f"; a cell is the mean of {count / len(cells):.2g} x {count / len(cells):.2g}" if len(cells) < count else ""
    )
    _title(axes, f"Measured {what}s", f"{further}; grey: not measured")


def _colour_bar(figure: Any, image: Any, by: By, least: float, most: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = image.norm.vmin, image.norm.vmax
    beyond = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    bar = figure.colorbar(image, cax=_axes(figure, 5.57, 1.1, 0.15, 4.2), extend=beyond[least < low, most > high])
    bar.ax.yaxis.set_major_locator(FixedLocator(_ticks(low, high)))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, by)))
    bar.ax.tick_params(labelsize=_LETTERS, length=2, color=FAINT)
    bar.outline.set_edgecolor(FAINT)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from ``low`` to ``high``, at least two if possible."""
    for steps in ((1, 10), (1, 3, 10), (1, 2, 5, 10), (1, 1.5, 2, 3, 4, 5, 7, 10)):
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        found = [step * 10.0**decade for decade in range(first, last + 1) for step in steps[:-1]]
        if len(found := [each for each in found if low <= each <= high]) >= 4:
            return found
    from matplotlib.ticker import MaxNLocator

    return [float(each) for each in MaxNLocator(5).tick_values(low, high) if low <= each <= high]


def condensed(values: Mapping[tuple[int, int], float], order: Sequence[int], cells: int) -> Floats:
    """The matrix in an order of hosts, of ``cells`` rows: geometric means of what was measured, NaN without any."""
    cell = np.empty(len(order), dtype=np.int64)
    cell[np.asarray(order)] = np.arange(len(order)) * cells // len(order)
    ends = cell[np.array(list(values), dtype=np.int64)]
    logs = np.log(np.fromiter(values.values(), dtype=np.float64))
    at: Ints = np.concatenate([ends[:, 0] * cells + ends[:, 1], ends[:, 1] * cells + ends[:, 0]])
    sums = np.bincount(at, np.concatenate([logs, logs]), cells**2)
    counts = np.bincount(at, minlength=cells**2)
    means = np.full(cells**2, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return np.asarray(np.exp(means).reshape(cells, cells), dtype=np.float64)


def _boundaries(axes: Any, groups: Sequence[int]) -> None:
    """Draws lines between groups, and a bar in each group's colour along two sides."""
    from matplotlib.patches import Rectangle

    count = len(groups)
    starts = [0, *(at for at in range(1, count) if groups[at] != groups[at - 1])]
    thin = min(1.0, 16 / len(starts))
    for at in starts[1:]:
        for line in (axes.axhline, axes.axvline):
            line(at - 0.5, color="black", linewidth=1.6 * thin, alpha=0.7)
            line(at - 0.5, color="white", linewidth=0.8 * thin)
    for start, end in zip(starts, [*starts[1:], count], strict=True):
        colour = _COLOURS[groups[start] % len(_COLOURS)]
        for corner, width, height, transform in (
            ((start - 0.5, -0.022), end - start, 0.015, axes.get_xaxis_transform()),
            ((-0.022, start - 0.5), 0.015, end - start, axes.get_yaxis_transform()),
        ):
            axes.add_patch(
                Rectangle(corner, width, height, transform=transform, facecolor=colour, clip_on=False, linewidth=0)
            )
    axes.set_xlim(-0.5, count - 0.5)
    axes.set_ylim(count - 0.5, -0.5)


def _map(
    figure: Any,
    names: Sequence[str],
    matrix: Floats,
    near: dict[tuple[int, int], float],
    by: By,
    order: Sequence[int],
    groups: Sequence[int] | None,
) -> None:
    """Draws hosts in a plane, with colours and shapes of groups, numbers of groups and names of hosts."""
    axes = _axes(figure, 6.95, 1.1, 5.25, 4.2)
    axes.set_xticks([])
    axes.set_yticks([])
    some = order if len(order) <= MAX_PLACED else [order[at * len(order) // MAX_PLACED] for at in range(MAX_PLACED)]
    kept = sorted(some)
    number = {host: at for at, host in enumerate(kept)}
    if len(kept) < len(order):
        near = {(number[a], number[b]): value for (a, b), value in near.items() if a in number and b in number}
        matrix = matrix[np.ix_(kept, kept)]
        names = [names[host] for host in kept]
        groups = None if groups is None else [groups[host] for host in kept]
    points = plane.places(matrix, near, [number[host] for host in some])
    like = plane.agreement(points, near)
    what = "round trips" if by == "rtt" else "inverse rates"
    further = f"distances follow the logarithms of {what}"
    further += "" if like is None else f" (correlation {digits(round(like, 2))})"
    title = "Map of hosts" if len(kept) == len(order) else f"Map of {len(kept):,} of {counted(len(order), 'host')}"
    _title(axes, title, further)
    own = [0] * len(names) if groups is None else list(groups)
    radius = 3.6 if len(names) <= ALL_LABELLED else 2.2
    for group in sorted(set(own)):
        chosen = [host for host, each in enumerate(own) if each == group]
        axes.scatter(
            points[chosen, 0],
            points[chosen, 1],
            s=(2 * radius) ** 2,
            c=_COLOURS[group % len(_COLOURS)],
            marker=_SHAPES[group // len(_COLOURS) % len(_SHAPES)],
            edgecolors=INK,
            linewidths=0.5 if len(names) <= ALL_LABELLED else 0.25,
            label=f"group {group}",
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    figure.draw_without_rendering()
    _labels(axes, names, points, None if groups is None else own, radius)
    if groups is not None and len(set(own)) <= LEGEND:
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.02),
            ncols=4,
            frameon=False,
            fontsize=_LETTERS + 0.5,
            handletextpad=0.2,
            columnspacing=1.2,
        )


def _labels(axes: Any, names: Sequence[str], points: Floats, groups: Sequence[int] | None, radius: float) -> None:
    """Names hosts: all of few hosts, of many some that are far from each other, and the numbers of their groups."""
    # In points: labels have sizes in points.
    scale = 72 / axes.figure.dpi
    at = [(float(x), float(y)) for x, y in axes.transData.transform(points) * scale]
    frame = axes.get_window_extent()
    bounds = (frame.x0 * scale + 1, frame.y0 * scale + 1, frame.x1 * scale - 1, frame.y1 * scale - 1)

    def write(text: str, place: tuple[float, float], **style: Any) -> None:
        x, y = axes.transData.inverted().transform((place[0] / scale, place[1] / scale))
        axes.annotate(text, (x, y), ha="center", va="center", annotation_clip=False, **style)

    many = len(names) > ALL_LABELLED
    plate = {"boxstyle": "square,pad=0.12", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85}
    taken: list[labels.Box] = []
    if many and groups is not None:
        members = [[host for host, each in enumerate(groups) if each == group] for group in sorted(set(groups))]
        middles = [
            (float(np.mean([at[h][0] for h in each])), float(np.mean([at[h][1] for h in each]))) for each in members
        ]
        for group, (x, y) in zip(sorted(set(groups)), middles, strict=True):
            width, height = _extent(f"{group}", _LETTERS)
            box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            if not any(labels.overlap(box, other) for other in taken):
                taken.append(box)
                write(f"{group}", (x, y), fontsize=_LETTERS, fontweight="bold", bbox=plate, zorder=4)
    chosen = _spread_out(points, SOME_LABELLED) if many else None
    sizes = [(0.0, 0.0)] * len(names)
    for host in range(len(names)) if chosen is None else chosen:
        sizes[host] = _extent(names[host], _LETTERS)
    found = labels.place(
        at,
        sizes,
        bounds,
        order=chosen,
        radius=radius,
        far=not many,
        taken=taken,
    )
    for label in found:
        if label.line is not None:
            (x, y), (to_x, to_y) = (
                axes.transData.inverted().transform((end[0] / scale, end[1] / scale)) for end in label.line
            )
            axes.plot([x, to_x], [y, to_y], color=FAINT, linewidth=0.5, zorder=0.5, scalex=False, scaley=False)
        write(names[label.point], label.centre, fontsize=_LETTERS, zorder=3)


def _extent(text: str, size: float) -> tuple[float, float]:
    """Width and height of a text, in points."""
    from matplotlib.textpath import TextPath

    box = TextPath((0, 0), text, size=size).get_extents()
    return float(box.width) + 1.0, size * 1.1


def _spread_out(points: Floats, count: int) -> list[int]:
    """Points that are far from each other: the one farthest from the middle, then each time the farthest from all."""
    chosen = [int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    away = np.linalg.norm(points - points[chosen[0]], axis=1)
    while len(chosen) < min(count, len(points)):
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return chosen


def _adapted(svg: str, title: str) -> str:
    """The picture with a title for screen readers, and with dark colours where the viewer prefers them."""
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{dark} !important}}'
        for light, dark in _DARK.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    svg = re.sub(r"(?<=data:image/png;base64,)[^\"]+", lambda image: _with_palette(image[0]), svg)
    head, opening, rest = svg.partition("<svg ")
    attributes, close, rest = rest.partition(">")
    named = f"<title>{escape(title or 'measurements')}</title>"
    return f'{head}{opening}role="img" {attributes}{close}\n{named}\n{style}{rest}'


def _with_palette(image: str) -> str:
    """The same image, a PNG file in base64, with a table of its colours: a third of the size. Same if it has many."""
    from PIL import Image

    pixels = np.asarray(Image.open(BytesIO(base64.b64decode(image))).convert("RGBA"))
    packed = pixels.reshape(-1, 4).view(np.uint32).ravel()
    colours, at = np.unique(packed, return_inverse=True)
    if len(colours) > 256:
        return image
    table = colours.view(np.uint8).reshape(-1, 4)
    made = Image.fromarray(at.astype(np.uint8).reshape(pixels.shape[:2]), mode="P")
    made.putpalette(table[:, :3].tobytes())
    content = BytesIO()
    made.save(content, "png", transparency=table[:, 3].tobytes(), optimize=True)
    return base64.b64encode(content.getvalue()).decode()

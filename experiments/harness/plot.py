"""The style of every plot: readable in print, without colour, and by the colour-blind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#8C8C8C",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK)
"""Colours that colour-blind readers can tell apart: Okabe and Ito 2008, without the yellow. ``GREY`` is our
addition."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers of lines, so that they differ in print, too."""

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#404040",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "syncline",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


def new(columns: int = 1, rows: int = 1, *, width: float = 7.0, height: float = 3.0, **more: Any) -> tuple[Figure, Any]:
    """A new figure and its axes; by default as wide as the text of a page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, columns, **more)


def sizes_below(axes: Axes, sizes: Sequence[int]) -> None:
    """Makes the x axis logarithmic, with ticks at ``sizes``, labelled in KiB and MiB."""
    from syncline.quantity import size

    axes.set_xscale("log", base=2)
    axes.set_xticks(list(sizes), labels=[size(each) for each in sizes], minor=False)
    axes.tick_params(axis="x", which="minor", bottom=False)
    if len(sizes) > 5:
        axes.tick_params(axis="x", labelrotation=40)


def line(axes: Axes, x: Sequence[float], y: Sequence[float], label: str, index: int, **more: Any) -> None:
    """Draws a line with colour and marker number ``index``."""
    look: dict[str, Any] = {"color": COLOURS[index], "marker": MARKERS[index], "label": label, **more}
    axes.plot(x, y, **look)


def decimal_ticks(axis: Axis) -> None:
    """Labels a logarithmic axis with plain numbers: 1, 10, 100."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


@dataclass(frozen=True)
class Part:
    """One layer of stacked bars."""

    label: str
    values: Sequence[float]
    colour: str
    hatch: str = ""


def stacked(axes: Axes, at: Sequence[float], parts: Sequence[Part], *, width: float = 0.7) -> None:
    """Draws stacked bars at the positions ``at``; the first part is lowest."""
    below = [0.0] * len(at)
    for part in parts:
        axes.bar(
            at,
            part.values,
            width,
            bottom=below,
            label=part.label,
            color=part.colour,
            hatch=part.hatch,
            edgecolor="white",
            linewidth=0.4,
        )
        below = [low + value for low, value in zip(below, part.values, strict=True)]


def grouped(axes: Axes, groups: Mapping[str, Sequence[float]]) -> None:
    """Draws clusters of bars at 0, 1, 2 ...: one bar of each group in every cluster, one colour per group."""
    width = 0.8 / len(groups)
    for index, (label, values) in enumerate(groups.items()):
        at = [place + (index - (len(groups) - 1) / 2) * width for place in range(len(values))]
        axes.bar(at, values, width, label=label, color=COLOURS[index], edgecolor="white", linewidth=0.4)


def stages(axes: Axes, members: Sequence[str], *, named: bool = True) -> None:
    """Labels bars at 0, 1, 2 ... with the stage of each, and draws a line between stages."""
    starts = [at for at, stage in enumerate(members) if at == 0 or stage != members[at - 1]]
    ends = [*starts[1:], len(members)]
    for start in starts[1:]:
        axes.axvline(start - 0.5, color=GREY, linewidth=0.6, linestyle=":")
    axes.set_xlim(-0.8, len(members) - 0.2)
    middles = [(start + end - 1) / 2 for start, end in zip(starts, ends, strict=True)]
    axes.set_xticks(middles, labels=[members[start] if named else "" for start in starts])
    axes.tick_params(axis="x", length=0)

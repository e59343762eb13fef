"""Draws measured and predicted times of collectives: one panel for each machine and operation."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.extras import install
from syncline.files import write_whole
from syncline.input.problem import bad_value, cannot_write, error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.validation.collectives import Group

FORMATS = (".svg", ".png")
MAX_PANELS = 80
"""The most panels of a picture."""
_COLUMNS = 4
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#7d8590")
"""Colours that colour-blind people can tell apart (Okabe and Ito 2008)."""
_SHAPES = "os^Dv<>"


def check(path: str) -> None:
    """Checks that a picture can be drawn, before long work.

    :raises SynclineError: the name does not end in ``.svg`` or ``.png``, or matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise bad_value("not a name of a picture", path, allowed="a name that ends in .svg or .png")
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        raise_errors(error(Code.MISSING_PACKAGE, "this needs matplotlib, which is not installed", help=install("plot")))


def draw(groups: Sequence[Group], path: str) -> None:
    """Draws times by size: measured as points, predicted as lines, a colour for each number of GPUs.

    The same groups give the same bytes.

    :raises SynclineError: there are too many machines, or the file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        panels.setdefault((group.machine, group.operation), []).append(group)
    if len(panels) > MAX_PANELS:
        found, allowed = f"{len(panels)} machines and operations", f"at most {MAX_PANELS}"
        help = "name some of them with --machine and --operation"
        raise_errors(error(Code.BAD_VALUE, "too many panels", found=found, allowed=allowed, help=help))
    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    style: Any = {"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "syncline", "text.parse_math": False}
    kind = Path(path).suffix.lower()[1:]
    with mpl.rc_context(style):
        figure = Figure(figsize=(3.6 * columns, 2.8 * lines), layout="constrained")
        for at, ((machine, operation), chosen) in enumerate(panels.items()):
            axes = figure.add_subplot(lines, columns, at + 1)
            axes.set_title(f"{machine} {operation}", loc="left", fontsize=8.5, fontweight="bold")
            _panel(axes, chosen)
        # A picture may be as low and narrow as one panel: longer labels would leave it.
        figure.supxlabel("bytes of a call; points: measured, lines: predicted")
        figure.supylabel("time of a call, us")
        content = BytesIO()
        figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None, dpi=120)
    try:
        write_whole(path, content.getvalue())
    except OSError as problem:
        raise_errors(cannot_write(path, problem))


def _panel(axes: Any, groups: Sequence[Group]) -> None:
    for at, group in enumerate(groups):
        colour = _COLOURS[at % len(_COLOURS)]
        measured = sorted((point.row.bytes, point.row.seconds * 1e6) for point in group.points)
        predicted: dict[int, float] = {}
        for point in group.points:
            # Where types of elements differ, the line is that of the widest.
            if point.in_sample is not None and (point.row.element_bytes > 1 or point.row.bytes not in predicted):
                predicted[point.row.bytes] = point.row.seconds * 1e6 * (1 + point.in_sample)
        axes.plot(*zip(*measured, strict=True), _SHAPES[at % len(_SHAPES)], color=colour, markersize=2.5, alpha=0.6)
        if predicted:
            axes.plot(
                *zip(*sorted(predicted.items()), strict=True), color=colour, linewidth=1, label=f"{group.gpus} GPUs"
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([1 << power for power in range(10, 31, 5)], ["1K", "32K", "1M", "32M", "1G"])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(visible=True, linewidth=0.3, alpha=0.5)
    axes.legend(fontsize=7, frameon=False)

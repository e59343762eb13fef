"""Draws predictions over measurements: a scatter plot for each group.

Needs the extra ``plot``. The same figures give the same bytes.
"""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.extras import install
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from syncline.validation.groups import Group
    from syncline.validation.outcome import Outcome

# Colours that colour-blind readers can tell apart (Okabe and Ito 2008), and a marker for each, so that they differ in
# print, too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MODELS = len(COLOURS)
"""The most models that have a colour of their own; the others share the last one."""

_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#404040",
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "syncline",
    "text.parse_math": False,
}


def needed() -> None:
    """Checks that pictures can be drawn.

    :raises SynclineError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise_errors(error(Code.MISSING_PACKAGE, "the page needs matplotlib", help=install("plot")))


def scatter(group: Group, outcomes: Sequence[Outcome]) -> str:
    """A scatter plot of the predicted over the measured steps of a group, as SVG text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    compared = [each for each in outcomes if each.error is not None]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.0, 4.6))
        axes = figure.subplots()
        _draw(axes, group, compared)
        out = BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue().decode()


def _labelled(span: float) -> tuple[float, ...]:
    """The numbers of each decade that have a label, on an axis whose ends have this ratio."""
    if span < 5:
        return tuple(each / 2 for each in range(2, 20))
    return (1.0, 2.0, 5.0) if span < 300 else (1.0,)


def _draw(axes: Axes, group: Group, compared: Sequence[Outcome]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    by_model: dict[str, list[Outcome]] = {}
    for each in compared:
        by_model.setdefault(each.run.model, []).append(each)
    # The models with most rows get colours of their own.
    names = sorted(by_model, key=lambda name: (-len(by_model[name]), name))
    for index, name in enumerate(names):
        rows = by_model[name]
        at = min(index, MODELS - 1)
        axes.scatter(
            [each.run.step_s or 0.0 for each in rows],
            [each.prediction.step_s for each in rows if each.prediction is not None],
            s=16,
            color=COLOURS[at],
            marker=MARKERS[at],
            alpha=0.7,
            linewidths=0,
            label=name if index < MODELS - 1 or len(names) <= MODELS else "others" if index == MODELS - 1 else "_",
        )
    steps = [each.run.step_s or 0.0 for each in compared]
    ends = (min(steps) / 1.2, max(steps) * 1.2)
    axes.plot(ends, ends, color="#404040", linewidth=1)
    beyond = None if group.bar is None else group.bar.outlier
    if beyond is not None:
        for factor in (1 + beyond, max(1 - beyond, 0.01)):
            axes.plot(ends, [end * factor for end in ends], color="#8C8C8C", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=_labelled(ends[1] / ends[0])))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlim(*ends)
    axes.set_xlabel("measured step (s)")
    axes.set_ylabel("predicted step (s)")
    axes.set_title("\n".join(wrap(group.title, 60)))
    axes.legend(loc="upper left")

"""Plots time against cost."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING, Any

from syncline.design.bandwidth.schemes import Scheme

if TYPE_CHECKING:
    from pathlib import Path

    from syncline.design.bandwidth.search_rates import SearchResult

_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "grid.color": "#DDDDDD",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "syncline",
}
_LOOKS = {
    Scheme.EQUAL: ("#8C8C8C", "o"),
    Scheme.BY_BYTES: ("#0072B2", "s"),
    Scheme.BY_TURNS: ("#E69F00", "^"),
    Scheme.OPTIMUM: ("#D55E00", "D"),
    Scheme.PARETO: ("#CC79A7", "v"),
}


def available() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(found: SearchResult, file: Path) -> None:
    """Plots schemes and optima by cost and predicted time, and the front. The same search gives the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 4.0))
        axes = figure.subplots()
        if found.front:
            axes.plot(
                [(each.usd or 0.0) / 1e6 for each in found.front],
                [each.total_s * 1e3 for each in found.front],
                color="#009E73",
                marker=".",
                label="Pareto front",
            )
        shown: set[str] = set()
        for each in found.allocations:
            if each.usd is None:
                continue
            own = each.shape == found.winner.shape
            colour, marker = _LOOKS[each.scheme]
            label = each.scheme if own else "optimum of other shapes"
            axes.plot(
                each.usd / 1e6,
                each.total_s * 1e3,
                color=colour if own else "#BBBBBB",
                marker=marker if own else "x",
                linestyle="none",
                markersize=7 if own else 4,
                zorder=3 if own else 2,
                label=None if label in shown else label,
            )
            shown.add(label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(_number))
            axis.set_minor_formatter(FuncFormatter(_number))
            axis.set_tick_params(which="minor", labelsize=7)
        axes.set_xlabel("cost of the fabric [million $]")
        axes.set_ylabel("predicted time of a step [ms]")
        axes.set_title(f"{found.request.name}: {found.winner.shape}", loc="left", fontsize=9.5, fontweight="bold")
        axes.legend()
        metadata = {"Date": None} if file.suffix == ".svg" else None
        figure.savefig(file, metadata=metadata)


def _number(value: float, _: int) -> str:
    """The label of an axis tick; empty unless its first digit is 1, 2 or 5."""
    first = value / 10 ** floor(log10(value))
    return f"{value:,g}" if round(first, 6) in (1, 2, 5) else ""

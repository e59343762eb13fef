"""Draws groups of hosts: a heat map of the measurements, and a map of the hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from syncline.files import write_whole
from syncline.grouping.packages import needed
from syncline.input.problem import bad_value, cannot_write, raise_errors

if TYPE_CHECKING:
    from syncline.grouping.grouping import Grouping

FORMATS = (".svg", ".png")
_STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "syncline",
}


def check(path: str) -> None:
    """Checks that a picture can be drawn, before a long search.

    :raises SynclineError: the name does not end in ``.svg`` or ``.png``, or matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise bad_value("not a name of a picture", path, allowed="a name that ends in .svg or .png")
    needed("matplotlib", "matplotlib", "plot")


def draw(found: Grouping, path: str) -> None:
    """Draws the heat map, ordered by group, and the hosts on the two main axes of the embedding.

    The same groups give the same bytes.

    :raises SynclineError: the file cannot be written.
    """
    from io import BytesIO

    import matplotlib as mpl
    from matplotlib.figure import Figure

    factor, unit = (1e6, "us") if found.by == "rtt" else (1e-9, "GB/s")
    order = [host for group in found.members for host in group]
    place = {host: at for at, host in enumerate(order)}
    matrix = np.full((len(order), len(order)), np.nan)
    for (a, b), value in found.values.items():
        matrix[place[a], place[b]] = matrix[place[b], place[a]] = value * factor
    kind = Path(path).suffix.lower()[1:]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.6, 4.4))
        heat, plane = figure.subplots(1, 2)
        low, high = np.nanquantile(matrix, (0.01, 0.99))
        image = heat.imshow(matrix, cmap="viridis_r" if found.by == "rtt" else "viridis", vmin=low, vmax=high)
        for edge in np.cumsum([len(group) for group in found.members])[:-1]:
            heat.axhline(edge - 0.5, color="white", linewidth=0.6)
            heat.axvline(edge - 0.5, color="white", linewidth=0.6)
        what = "round trip" if found.by == "rtt" else "rate"
        figure.colorbar(image, ax=heat, label=f"{what} [{unit}]", shrink=0.8)
        heat.set_xlabel("host, in the order of groups")
        heat.set_ylabel("host, in the order of groups")
        heat.set_title("measured", loc="left", fontsize=9.5, fontweight="bold")
        points = _plane(found)
        colours = mpl.colormaps["tab20"]
        plane.scatter(points[:, 0], points[:, 1], s=14, c=[colours(group % 20) for group in found.groups])
        for number, group in enumerate(found.members):
            x, y = points[group].mean(axis=0)
            plane.annotate(f"{number}", (float(x), float(y)), fontsize=8, fontweight="bold")
        plane.set_xticks([])
        plane.set_yticks([])
        plane.set_title("hosts in the embedding, with group", loc="left", fontsize=9.5, fontweight="bold")
        content = BytesIO()
        figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None, dpi=150)
    try:
        write_whole(path, content.getvalue())
    except OSError as problem:
        raise_errors(cannot_write(path, problem))


def _plane(found: Grouping) -> Any:
    """Coordinates on the two main axes (principal components)."""
    assert found.coordinates is not None, "a search keeps its coordinates"  # noqa: S101
    centred = found.coordinates - found.coordinates.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    points = centred @ axes[:2].T
    return points if points.shape[1] == 2 else np.column_stack([points, np.zeros(len(points))])

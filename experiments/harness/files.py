"""Writes an experiment's CSV, JSON and picture files."""

from __future__ import annotations

import csv
import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import syncline
from experiments.harness.plot import STYLE

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.harness.study import Study

SCHEMA = "syncline-experiment/1"
"""Version of the JSON form."""
FORMATS = ("svg", "png")
"""Formats of pictures."""


def form(study: Study) -> dict[str, Any]:
    """An experiment's outcome as JSON data."""
    return {
        "schema": SCHEMA,
        "paper": study.experiment.paper,
        "experiment": study.experiment.name,
        "title": study.experiment.title,
        "syncline": syncline.__version__,
        "network": study.network,
        "compute": study.compute,
        "quick": study.quick,
        "claims": [
            {
                "id": each.claim.id,
                "where": each.claim.where,
                "claim": each.claim.text,
                "measured": each.measured,
                "holds": each.holds,
                "why": each.why,
            }
            for each in study.verdicts
        ],
        "tables": [
            {"name": table.name, "title": table.title, "columns": table.columns, "rows": table.rows}
            for table in study.tables
        ],
    }


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def save(study: Study, out: Path, *, pictures: bool) -> Path:
    """Writes all of an experiment's files into ``OUT/PAPER/FIGURE``; returns that folder."""
    folder = out / study.experiment.paper / study.experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(form(study), ensure_ascii=False, indent=1)
    (folder / "result.json").write_text(text + "\n", "utf-8")
    for table in study.tables:
        with (folder / f"{table.name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.columns)
            writer.writerows(table.rows)
    if pictures:
        draw(study, folder)
    return folder


def draw(study: Study, folder: Path) -> None:
    """Draws the figure. Pictures contain no date and no program version, so that equal data gives equal bytes."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = study.experiment.draw(study.findings)
        for kind in FORMATS:
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(folder / f"{study.experiment.name}.{kind}", metadata=metadata)

"""Writes ``runs.csv``: measured training runs from public sources, in one schema.

``python validation/make_runs.py FOLDER`` reads the source tables in FOLDER and writes ``runs.csv`` beside this file;
``--check`` compares instead. The tables are not part of the repository; ``README.md`` lists them, the columns, the
filters and every reading. Each table has one function in ``tables``. The same tables always give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path

from tables.a100 import bloom, megatron, vtrain
from tables.dgxc import dgxc
from tables.flop_rates import long_sequences, model_zoo
from tables.fsdp import automodel, internevo, mosaic, torchtitan
from tables.maxtext import maxtext
from tables.mlperf import mlperf
from tables.nanotron import nanotron
from tables.nemo import nemo
from tables.row import COLUMNS, FOLDER, Row
from tables.simumax import simumax

NEWEST_LAST = ("dgxc",)
"""Tables whose later rows restate earlier ones: the later row counts. In others the first one counts."""


def mark_repeats(rows: list[Row]) -> None:
    """Excludes rows that restate another of the same data set: same run, same result to the last digit."""
    seen: dict[tuple[str, ...], Row] = {}
    for row in rows:
        if row["excluded"] or not row["step_s"] or row["dataset"] == "nanotron":
            continue
        key = tuple(row[name] for name in ("dataset", "model", "layers", "cluster", "gpus", "global_batch", "sequence"))
        key += tuple(row[name] for name in ("precision", "task", "step_s"))
        first = seen.get(key)
        if first is None:
            seen[key] = row
            continue
        older, newer = (first, row) if row["dataset"] in NEWEST_LAST else (row, first)
        older.update(excluded=f"repeats {newer['id']}", calibrates="", filters="")
        seen[key] = newer


def runs(folder: Path) -> list[Row]:
    """All rows, in the order of the tables."""
    tables = (megatron, vtrain, bloom, nanotron, nemo, dgxc, automodel, long_sequences, model_zoo, mlperf, torchtitan)
    rows = [row for table in (*tables, mosaic, internevo, simumax, maxtext) for row in table(folder)]
    mark_repeats(rows)
    if len({row["id"] for row in rows}) != len(rows):
        raise ValueError("two rows have one id")
    return rows


def text(rows: list[Row]) -> str:
    """The rows as CSV."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def main() -> int:
    """Writes or checks ``runs.csv``; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the source tables")
    parser.add_argument("--check", action="store_true", help="compare with runs.csv instead of writing it")
    arguments = parser.parse_args()
    made_text, target = text(runs(arguments.folder)), FOLDER / "runs.csv"
    if arguments.check:
        same = target.read_text(encoding="utf-8") == made_text
        sys.stderr.write("" if same else "runs.csv differs from what its sources give\n")
        return 0 if same else 1
    target.write_text(made_text, encoding="utf-8", newline="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

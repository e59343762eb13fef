"""Rows that tests make, and a predictor for tests: 40 % of the peak, and nothing else."""

from __future__ import annotations

from pathlib import Path

from syncline.clusters.known import clusters
from syncline.validation.architecture import read_models
from syncline.validation.checks import Row
from syncline.validation.outcome import Outcome
from syncline.validation.prediction import Prediction
from syncline.validation.runs import Placed, Run, read_runs

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "validation"
MODELS = read_models((FOLDER / "models.yaml").as_posix())
CLUSTERS = clusters()

GOOD = {
    "id": "a",
    "model": "llama3-8b",
    "cluster": "dgx-h100",
    "gpus": 16,
    "tp": 2,
    "pp": 2,
    "cp": 2,
    "micro_batch": 1,
    "global_batch": 8,
    "sequence": 8192,
    "precision": "bf16",
    "step_s": 5.0,
}
"""A row without problems, as cells."""


def write(folder, *rows, **changes):
    """Writes rows like :data:`GOOD` into a file; returns its path."""
    cells = [{**GOOD, **row, **changes} for row in rows or ({},)]
    columns = list(dict.fromkeys(name for row in cells for name in row))
    lines = [",".join(columns), *(",".join(str(row.get(name, "")) for name in columns) for row in cells)]
    path = folder / "runs.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path.as_posix()


def row(folder, **changes) -> Row:
    """A row like :data:`GOOD`, with its model and cluster."""
    placed: Placed = read_runs(write(folder, **changes)).used[0]
    return Row(placed, MODELS[placed.run.model], CLUSTERS[placed.run.cluster])


def run(**changes) -> Run:
    """A run like :data:`GOOD`."""
    return Run(**{**GOOD, **changes})


def outcome(predicted_s=None, memory_bytes=None, *, fits=None, ran=None, **changes) -> Outcome:
    """A run with a prediction; refused without a predicted step. ``ran`` is the cell ``fits``."""
    made = run(fits=ran, **changes)
    prediction = None if predicted_s is None else Prediction(predicted_s, memory_bytes, fits)
    said = "" if prediction else "not modelled"
    return Outcome(made, MODELS[made.model], CLUSTERS[made.cluster], prediction, said)


def at_forty_percent(run, model, cluster) -> Prediction:
    """40 % of the peak in bf16, and half of the memory."""
    flop = 6 * model.multiplied(run.layers) * run.global_batch * run.sequence
    peak = cluster.card.peak_flop_per_s["bf16"] * run.gpus
    return Prediction(flop / (0.4 * peak), cluster.memory_bytes / 2)

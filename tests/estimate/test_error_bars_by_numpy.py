"""Error bars of estimates against numpy: grouping, errors and percentiles of alike rows, counted from the files anew."""

from __future__ import annotations

import csv
import json
import random
import re
from importlib.resources import files

import numpy as np
import pytest

from syncline.estimate import ErrorBar, shipped
from syncline.validation import load
from syncline.validation.calibration import CALIBRATIONS, held_out
from syncline.validation.outcome import Spread
from tests.validation.rows import FOLDER

CARDS = {
    "a100-40gb": "A100-SXM4-40GB",
    "a100": "A100-SXM4-80GB",
    "h100": "H100-SXM5-80GB",
    "h200": "H200-SXM-141GB",
    "gb200": "GB200-NVL72",
    "gb300": "GB300-NVL72",
    "b200": "B200-SXM-180GB",
    "b300": "B300-SXM-288GB",
    "v100": "V100",
}
"""Parts of clusters' names, the longest first, and their accelerators."""


def with_experts():
    """Models with experts, from the text of the file."""
    blocks = re.split(r"^(?=\S)", (FOLDER / "models.yaml").read_text("utf-8"), flags=re.M)
    return {block.split(":")[0] for block in blocks if re.search(r"^ +experts:", block, re.M)}


def measured():
    """Rows with a measured step, as the file has them."""
    with (FOLDER / "runs.csv").open(encoding="utf-8", newline="") as file:
        return {each["id"]: each for each in csv.DictReader(file) if each["step_s"] and not each["excluded"]}


@pytest.mark.slow
def test_the_bars_of_the_package_are_those_of_numpy():
    """No constant has seen the model of a row; rows of full fine-tuning are left out, as their page says."""
    rows = load((FOLDER / "runs.csv").as_posix()).rows
    predict = held_out(rows, shipped(), CALIBRATIONS, {})
    text, experts = measured(), with_experts()
    errors: dict[tuple[str, str], list[tuple[float, int, int]]] = {}
    for row in rows:
        cells = text.get(row.run.id)
        if cells is None or cells["task"] == "sft":
            continue
        kind = "adapters" if cells["task"] == "lora" else "experts" if cells["model"] in experts else "dense"
        error = abs(predict(row.run, row.model, row.cluster).step_s / float(cells["step_s"]) - 1)
        reach = int(cells["gpus"]), int(cells["sequence"])
        errors.setdefault((row.cluster.accelerator, kind), []).append((error, *reach))
    bars = json.loads((files("syncline") / "data" / "estimate-errors.json").read_text("utf-8"))
    for name, bar in bars.items():
        print(name, bar["rows"])
    assert errors

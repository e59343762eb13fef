"""Error bars of estimates against numpy: groups, errors and percentiles of alike rows, counted from the files anew."""

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
from syncline.validation.calibrated import held_out
from syncline.validation.calibration import CALIBRATIONS
from syncline.validation.outcome import Spread
from tests.validation.rows import FOLDER

CONSTANTS = {
    "megatron-deepspeed": "megatron-a100",
    "fsdp2": "torchtitan",
}
"""Constants by framework, where their names differ."""
A100 = {"megatron": "megatron-a100"}
"""The same, on A100."""


def with_experts():
    """Models with experts, from the text of the file."""
    blocks = re.split(r"^(?=\S)", (FOLDER / "models.yaml").read_text("utf-8"), flags=re.M)
    return {block.split(":")[0] for block in blocks if re.search(r"^ +experts:", block, re.M)}


def measured():
    """Rows with a measured step, as the file has them."""
    with (FOLDER / "runs.csv").open(encoding="utf-8", newline="") as file:
        return {each["id"]: each for each in csv.DictReader(file) if each["step_s"] and not each["excluded"]}


def statistics(errors):
    """Of absolute errors, as a bar has them."""
    sizes = np.abs(np.asarray(errors))
    return {
        "rows": len(sizes),
        "median": float(np.median(sizes)),
        "mean": float(np.mean(sizes)),
        "p90": float(np.percentile(sizes, 90)),
        "largest": float(np.max(sizes)),
    }


@pytest.mark.slow
def test_the_bars_of_the_package_are_those_of_numpy():
    """No constant has seen the model of a row; rows of full fine-tuning are left out, as their page says."""
    rows = load((FOLDER / "runs.csv").as_posix()).rows
    predict = held_out(rows, shipped(), CALIBRATIONS, {})
    text, experts = measured(), with_experts()
    found: dict[str, list[tuple[float, int, int]]] = {}
    for row in rows:
        cells = text.get(row.run.id)
        if cells is None or cells["task"] == "sft":
            continue
        card = row.cluster.accelerator
        kind = "adapters" if cells["task"] == "lora" else "experts" if cells["model"] in experts else "dense"
        framework = cells["framework"] or "megatron"
        constants = (A100 if card.startswith("A100") else {}).get(framework) or CONSTANTS.get(framework, framework)
        error = predict(row.run, row.model, row.cluster).step_s / float(cells["step_s"]) - 1
        found.setdefault(f"{constants} {card} {kind}", []).append((error, int(cells["gpus"]), int(cells["sequence"])))
    bars = json.loads((files("syncline") / "data" / "estimate-errors.json").read_text("utf-8"))
    for name, bar in bars.items():
        counted = statistics([each[0] for each in found[name]])
        for key, value in counted.items():
            assert bar[key] == pytest.approx(value, abs=6e-5), (name, key)
        assert bar["gpus"] == max(each[1] for each in found[name])
        assert bar["sequence"] == max(each[2] for each in found[name])
    assert found.keys() - bars.keys() == set()


@pytest.mark.parametrize("seed", range(20))
def test_percentiles_of_any_errors_are_those_of_numpy(seed):
    draw = random.Random(seed)
    errors = [draw.gauss(0, 0.1) for _ in range(draw.choice([1, 2, 3, 9, 10, 11, 57, 400]))]
    made = Spread.of(errors)
    assert made is not None
    for key, value in statistics(errors).items():
        assert getattr(made, key) == pytest.approx(value)


@pytest.mark.parametrize("seed", range(20))
def test_a_bar_holds_nine_of_ten_measured_steps(seed):
    """An estimate's interval has the measured step exactly if its error is within the percentile."""
    draw = random.Random(seed)
    steps = [draw.uniform(0.1, 60) for _ in range(200)]
    estimates = [each * (1 + draw.gauss(0, 0.2)) for each in steps]
    errors = [made / each - 1 for made, each in zip(estimates, steps, strict=True)]
    bar = ErrorBar(**statistics(errors), gpus=8, sequence=4096)
    inside = 0
    for made, each, error in zip(estimates, steps, errors, strict=True):
        low, high = bar.around(made)
        within = low <= each and (high is None or each <= high)
        assert within == (abs(error) <= bar.p90)
        inside += within
    assert inside == 180

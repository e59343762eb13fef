"""The measured runs of the repository: they are what their sources give, and none is impossible."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from syncline.models.architecture import Architecture
from syncline.validation.architecture import Unknown
from syncline.validation.folder import load
from tests.validation.rows import CLUSTERS, FOLDER, MODELS, ROOT

SHARED = Path(os.environ.get("SYNCLINE_SHARED", ROOT.parent / "shared"))
TABLES = SHARED / "data" / "measured" / "clusters"


@pytest.fixture(scope="module")
def inputs():
    return load((FOLDER / "runs.csv").as_posix())


@pytest.mark.skipif(not TABLES.is_dir(), reason="the source tables are not here")
def test_the_rows_are_what_their_sources_give():
    done = subprocess.run(
        [sys.executable, FOLDER / "make_runs.py", TABLES, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_row_is_impossible(inputs):
    # `load` raises for rows that are. The count is that of rows that are not excluded.
    found = len(inputs.rows), len(inputs.runs)
    assert found == (1365, 1365)


def test_each_excluded_row_has_a_reason(inputs):
    reasons = [each.reason for each in inputs.runs.excluded]
    assert len(reasons) == 314
    assert all(len(each) > 8 for each in reasons)


def test_predictions_of_other_tools_are_never_rows(inputs):
    vtrain = [each for each in inputs.runs if each.dataset == "vtrain"]
    assert vtrain
    assert all("ground_truth_multi.csv" in each.source and each.gpus >= 64 for each in vtrain)


def test_every_row_names_its_source(inputs):
    assert all(each.source for each in inputs.runs)


def test_rows_that_calibrate_have_a_step_and_a_group_that_may(inputs):
    sets = {}
    for each in inputs.runs:
        if each.calibrates:
            assert each.step_s
            sets.setdefault(each.calibrates, set()).add(each.dataset)
    assert sets == {
        "a100": {"vtrain"},
        "h100": {"nemo", "bridge", "dgxc"},
        "experts": {"bridge", "dgxc", "automodel", "model-zoo", "nemo"},
        "fsdp": {"torchtitan", "mosaic", "internevo"},
        "gb300": {"bridge"},
        "nanotron": {"nanotron"},
    }


def test_rows_judged_without_a_fit_calibrate_nothing(inputs):
    for each in inputs.rows:
        if each.run.dataset in ("mlperf", "korthikanti", "sc21", "simumax"):
            assert each.run.calibrates is None
        if each.run.calibrates == "h100":
            assert each.run.cluster == "dgx-h100"
            assert each.model.experts is None


def test_the_filter_of_nanotron_depends_on_inputs_alone(inputs):
    for each in inputs.runs:
        if each.dataset == "nanotron":
            small = each.gpus <= 128 and each.tp <= 8 and (each.pp == 1 or each.gpus == 8 or each.zero == 1)
            assert each.passes("inputs") == small


PUBLISHED = [name for name, model in MODELS.items() if isinstance(model, Architecture) and model.parameters]


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_architecture_has_the_parameters_that_its_source_publishes(name):
    model = MODELS[name]
    # Sources round to two or three digits; norms and biases are not counted.
    assert model.weights() == pytest.approx(model.parameters, rel=0.035)


def test_a_model_that_is_not_known_says_what_is_missing():
    unknown = {name for name, model in MODELS.items() if isinstance(model, Unknown)}
    assert {"deepseek-v4-flash", "nemotron-3-nano", "t5-3b"} < unknown


ACTIVE = {"deepseek-v3": 37e9, "qwen3-235b-a22b": 22e9, "qwen3-30b-a3b": 3.3e9, "mixtral-8x7b": 12.9e9, "kimi-k2": 32e9}


@pytest.mark.parametrize("name", ACTIVE)
def test_a_token_uses_the_parameters_that_are_published(name):
    model = MODELS[name]
    assert model.multiplied() + model.vocab * model.hidden == pytest.approx(ACTIVE[name], rel=0.04)


def test_every_row_has_a_model_and_a_cluster(inputs):
    assert not {each.cluster for each in inputs.runs} - set(CLUSTERS)
    # Some models have no row yet: those of families that others of the family represent.
    assert not {each.model for each in inputs.runs} - set(MODELS)


def test_the_readme_describes_every_column():
    header = (FOLDER / "runs.csv").read_text("utf-8").partition("\n")[0].split(",")
    described = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.+?) \|", _readme(), re.M))))
    assert set(header) <= described


def test_the_readme_names_every_table():
    ours = {"runs.csv", "recipes.csv"}
    code = "".join(each.read_text("utf-8") for each in (FOLDER / "tables").glob("*.py"))
    read = set(re.findall(r'"(\w+\.csv)"', code)) - ours
    assert read == set(re.findall(r"`(\w+\.csv)`", _readme().partition("## Columns")[0])) - ours


def _readme():
    return (FOLDER / "README.md").read_text("utf-8")

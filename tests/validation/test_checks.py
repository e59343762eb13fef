"""Impossible rows are named, with the nearest value that works."""

from __future__ import annotations

import pytest

from syncline.errors import SynclineError
from syncline.validation.checks import check, least_step_s, problems_of
from syncline.validation.runs import read_runs
from tests.validation.rows import CLUSTERS, MODELS, row, write

MOE = {"model": "qwen3-30b-a3b", "cluster": "dgx-h100", "gpus": 16, "tp": 1, "pp": 1, "cp": 1, "global_batch": 16}

CASES = [
    # changes, the cell that is named, part of the message, the nearest value
    ({"gpus": 20}, "gpus", "is not divisible by tp x pp x cp = 8", "16"),
    ({"dp": 4}, "dp", "dp is not gpus", "2"),
    ({"tp": 3, "gpus": 24, "global_batch": 24}, "tp", "the 32 heads are not divisible by tp", "2"),
    ({"pp": 64, "cp": 1, "gpus": 128, "global_batch": 4}, "pp", "more stages than the 32 layers", "32"),
    ({"pp": 48, "cp": 1, "gpus": 192, "global_batch": 8}, "pp", "more stages than the 32 layers", "24"),
    ({"pp": 2, "virtual_stages": 18}, "virtual_stages", "more chunks than the 32 layers", "17"),
    ({"split": "even", "pp": 3, "gpus": 24, "global_batch": 24}, "pp", "are not divisible by pp x virtual_stages", "2"),
    ({"split": "even", "virtual_stages": 3}, "virtual_stages", "are not divisible by pp x virtual_stages", "2"),
    ({"calibrates": "experts h200"}, "calibrates", "no constants are fitted to rows with `h200`", "h100"),
    ({"virtual_stages": 2, "pp": 1, "global_batch": 16}, "virtual_stages", "without a pipeline", "1"),
    ({"ep": 2}, "ep", "has no experts", "1"),
    ({**MOE, "ep": 3, "gpus": 24, "global_batch": 24}, "ep", "the 128 experts are not divisible by ep", "2"),
    ({**MOE, "ep": 32}, "ep", "is not divisible by ep x etp x pp = 32", "16"),
    ({"zero": 3, "shard_group": 3}, "shard_group", "do not divide into groups", "2"),
    ({"global_batch": 9}, "global_batch", "is not divisible by dp x micro_batch = 2 x 1", "8"),
    ({"accumulation": 8}, "accumulation", "is not global_batch / (dp x micro_batch)", "4"),
    ({"sequence": 8191}, "sequence", "is not divisible by cp = 2", "8192"),
    ({"sequence": 8190, "sequence_parallel": "yes"}, "sequence", "by cp x tp = 4", "8192"),
    ({"precision": "fp8", "cluster": "a100-vtrain", "step_s": 60}, "precision", "does not compute in fp8", "bf16"),
    ({"precision": "nvfp4"}, "precision", "does not compute in nvfp4", "fp8"),
    (
        {"recompute": "selective", "recompute_modules": "layernorm mla_up_pro"},
        "recompute_modules",
        "unknown module `mla_up_pro`",
        "mla_up_proj",
    ),
    ({"mfu": 100}, "mfu", "as fast as the peak", None),
    ({"step_s": 0.1}, "step_s", "faster than the peak of the accelerators allows", None),
    ({"memory_gib": 81}, "memory_gib", "more memory than the accelerator has", "80"),
]


def test_a_good_row_has_no_problem(tmp_path):
    assert problems_of(row(tmp_path)) == []


@pytest.mark.parametrize(("changes", "column", "message", "near"), CASES)
def test_an_impossible_row_is_named(tmp_path, changes, column, message, near):
    (found,) = problems_of(row(tmp_path, **changes))
    assert found["key"] == column
    assert message in found["message"]
    assert "(row `a`)" in found["message"]
    assert found.get("nearest") == near
    assert found["place"]["line"] == 2


@pytest.mark.parametrize(("changes", "column", "near"), [(a, b, d) for a, b, _, d in CASES if d is not None])
def test_the_nearest_value_works(tmp_path, changes, column, near):
    assert problems_of(row(tmp_path, **{**changes, column: near})) == []


def test_an_unknown_name_is_reported_with_the_nearest(tmp_path):
    for column, wrong, near in (("model", "llama3-8", "llama3-8b"), ("cluster", "dgx-h10", "dgx-h100")):
        with pytest.raises(SynclineError) as raised:
            check(read_runs(write(tmp_path, **{column: wrong})), MODELS, CLUSTERS)
        (found,) = raised.value.diagnostics
        assert found["message"] == f"unknown {column} `{wrong}` (row `a`)"
        assert found["nearest"] == near


def test_a_model_that_is_not_modelled_says_why(tmp_path):
    with pytest.raises(SynclineError) as raised:
        check(read_runs(write(tmp_path, model="nemotron-3-nano")), MODELS, CLUSTERS)
    assert "state-space layers" in raised.value.diagnostics[0]["message"]


def test_problems_of_several_rows_are_reported_together(tmp_path):
    with pytest.raises(SynclineError) as raised:
        check(read_runs(write(tmp_path, {"id": "a", "gpus": 20}, {"id": "b", "mfu": 100})), MODELS, CLUSTERS)
    assert [found["place"]["line"] for found in raised.value.diagnostics] == [2, 3]


def test_the_least_step_is_that_of_the_peak(tmp_path):
    made = row(tmp_path)
    # 6 x 7.5 billion weights x 8 x 8192 tokens on 16 x 989.4 TFLOP/s
    assert least_step_s(made) == pytest.approx(6 * 7.505e9 * 65536 / (16 * 989.4e12), rel=0.001)
    assert least_step_s(row(tmp_path, task="lora")) == pytest.approx(least_step_s(made) * 4 / 6)

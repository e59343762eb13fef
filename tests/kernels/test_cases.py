"""What is measured: coarse grids first, every case once."""

from __future__ import annotations

import pytest

from syncline.kernels.cases import FAMILIES, STAGES, plan
from syncline.kernels.columns import NAMES

PLAN = plan(FAMILIES, quick=False)


def test_no_case_is_measured_twice() -> None:
    keys = [case.key for _, cases in PLAN for case in cases]
    assert len(keys) > 5000
    assert len(set(keys)) == len(keys)


def test_every_case_has_a_stage_and_known_columns() -> None:
    levels = {(stage.family, stage.level) for stage in STAGES}
    for stage, cases in PLAN:
        assert (stage.family, stage.level) in levels
        for case in cases:
            assert case.level == stage.level
            assert set(case.row) <= set(NAMES)


def test_every_family_is_measured_coarsely_before_any_grid_is_refined() -> None:
    assert [stage.level for stage, _ in PLAN[: len(FAMILIES)]] == [0] * len(FAMILIES)
    assert {stage.family for stage, _ in PLAN[: len(FAMILIES)]} == set(FAMILIES)


def test_the_shares_of_the_stages_leave_time_for_all() -> None:
    assert 0.9 < sum(stage.share for stage in STAGES) < 1.6


def test_the_order_is_the_same_in_every_process() -> None:
    again = plan(FAMILIES, quick=False)
    assert [case.key for _, cases in again for case in cases] == [case.key for _, cases in PLAN for case in cases]


@pytest.mark.parametrize("operation", ["gemm", "attention"])
def test_only_chosen_families_are_planned(operation: str) -> None:
    assert {stage.family for stage, cases in plan([operation], quick=True) if cases} == {operation}


def test_flop_of_products_count_multiplications_and_additions() -> None:
    products = [case.row for stage, cases in PLAN if stage.family == "gemm" for case in cases]
    assert all(row["flop"] == 2 * row["m"] * row["n"] * row["k"] for row in products)
    forward = {(row["m"], row["n"], row["k"]) for row in products if row["layout"] == "nt"}
    # Llama 3 8B's projection down, of 4,096 tokens, and its gradients.
    assert (4096, 4096, 14336) in forward
    assert {(row["layout"], row["m"], row["n"], row["k"]) for row in products} >= {
        ("nn", 4096, 14336, 4096),
        ("tn", 4096, 14336, 4096),
    }


def test_causal_attention_counts_half_and_backward_two_and_a_half_times() -> None:
    rows = [case.row for stage, cases in PLAN if stage.family == "attention" for case in cases]
    flop = {
        (row["pass"], row["causal"]): row["flop"]
        for row in rows
        if (row["backend"], row["batch"], row["sequence"], row["heads"], row["kv_heads"], row["head_dim"])
        == ("flash", 1, 4096, 32, 32, 128)
    }
    full = 4 * 32 * 4096 * 4096 * 128
    assert flop == {
        ("forward", False): full,
        ("forward", True): full // 2,
        ("backward", False): full * 5 // 2,
        ("backward", True): full * 5 // 4,
    }

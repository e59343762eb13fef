"""Every row belongs to one group, by its inputs; the bars are those of the documentation."""

from __future__ import annotations

import re

import pytest

from syncline.validation.folder import load
from syncline.validation.groups import GROUPS, MEMORY, Bar, group, grouped, in_memory_bar
from syncline.validation.outcome import Spread, compare
from tests.validation.rows import FOLDER, ROOT, at_forty_percent, outcome


@pytest.fixture(scope="module")
def outcomes():
    return compare(load((FOLDER / "runs.csv").as_posix()).rows, at_forty_percent)


COUNTS = {
    "korthikanti": 2,
    "sc21": 2,
    "vtrain": 56,
    "h100-dense": 94,
    "blackwell-dense": 28,
    "blackwell-ultra-dense": 7,
    "mlperf-405b": 11,
    "mlperf-lora": 42,
    "mlperf-others": 20,
    "simumax-dense": 14,
    "simumax-experts": 5,
    "experts": 69,
    "experts-others": 17,
    "fsdp": 153,
    "nanotron": 148,
    "nanotron-others": 648,
    "finetuning": 25,
    "long-sequences": 2,
    "bloom": 21,
    "others": 1,
}
"""Rows of each group, for a predictor that finds all runs to take half of the memory."""


def test_the_groups_have_the_rows_that_are_expected(outcomes):
    assert {name: len(rows) for name, rows in grouped(outcomes).items()} == COUNTS


def test_membership_does_not_depend_on_measurements(outcomes):
    changed = [
        type(each)(
            each.run.model_copy(
                update={"step_s": each.run.step_s and 7 * each.run.step_s, "memory_gib": None, "mfu": None}
            ),
            *(each.model, each.cluster, each.prediction, each.refused),
        )
        for each in outcomes
    ]
    before = {each.run.id: name for name, rows in grouped(outcomes).items() for each in rows}
    assert {each.run.id: name for name, rows in grouped(changed).items() for each in rows} == before


def test_a_row_of_ones_own_is_in_the_last_group():
    assert list(grouped([outcome(1.0)])) == ["others"]


def test_nanotron_rows_near_the_limit_of_memory_are_not_compared():
    row = {"dataset": "nanotron", "filters": "inputs", "cluster": "h100-hugging-face"}
    assert list(grouped([outcome(1.0, 67 * 2**30, **row)])) == ["nanotron"]
    assert list(grouped([outcome(1.0, 68 * 2**30, **row)])) == ["nanotron-others"]
    # A row that the predictor refuses stays, so that refusing rows does not improve the figures.
    assert list(grouped([outcome(None, **row)])) == ["nanotron"]


def test_a_bar_names_what_is_missed():
    bar = Bar(mean=0.03, p90=0.07, largest=0.12)
    assert bar.missed(Spread(9, 0.02, 0.03, 0.07, 0.12)) == []
    assert bar.missed(Spread(9, 0.5, 0.031, 0.07, 0.13)) == ["mean", "largest"]
    assert bar.missed(None) == []


@pytest.mark.parametrize(
    ("bar", "beyond"),
    [
        (Bar(mean=0.03, p90=0.07, largest=0.12), 0.14),
        (Bar(mean=0.03, largest=0.08), 0.08),
        (Bar(mean=0.04), 0.16),
    ],
)
def test_an_outlier_is_beyond_twice_the_bar_of_the_90th_percentile(bar, beyond):
    assert bar.outlier == pytest.approx(beyond)


def test_the_page_lists_every_group_and_bar():
    page = (ROOT / "docs" / "explanation" / "validation.md").read_text("utf-8")
    section = page.partition("## Groups")[2].partition("## Filters")[0]
    named = {}
    for line in re.findall(r"^\| `.+\|$", section, re.M):
        names, _, *bars, _ = line.strip("|").split("|")
        for name in re.findall(r"`([\w-]+)`", names):
            named[name] = tuple(float(each) / 100 if each.strip() else None for each in bars)
    assert set(named) == {each.name for each in GROUPS}
    for each in GROUPS:
        bar = each.bar or Bar()
        wanted = (bar.median, bar.mean, bar.p90, bar.largest)
        assert named[each.name] == pytest.approx(wanted), each.name
    assert f"median {100 * MEMORY.median:g}, mean {100 * MEMORY.mean:g}" in section


def test_the_bar_of_memory_counts_tensor_parallelism_up_to_eight():
    row = {"dataset": "nanotron", "gpus": 32, "pp": 1, "cp": 1, "global_batch": 8}
    assert in_memory_bar(outcome(1.0, tp=8, **row))
    assert not in_memory_bar(outcome(1.0, tp=16, **row))


def test_a_model_is_left_out_where_the_bar_says_so():
    assert [each.name for each in GROUPS if each.held_out] == ["h100-dense", "experts"]
    assert group("h100-dense").bar.largest == 0.12

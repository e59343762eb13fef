"""Exchanges of tokens of mixtures of experts take as long as was measured."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from statistics import median

import pytest

from syncline.errors import SynclineError
from syncline.nccl import experts

ROWS = Path(__file__).parents[2] / "validation" / "collectives" / "deepep" / "deepep.csv.gz"


@pytest.mark.parametrize("phase", ["dispatch", "combine"])
@pytest.mark.parametrize("machine", ["h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300"])
def test_times_of_training_kernels_are_near_the_measured_ones(machine, phase):
    with gzip.open(ROWS, "rt", encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if (row["system"], row["phase"], row["kernels"], row["nodes"]) == (machine, phase, "normal", "1")
        ]
    calls = [
        (
            int(row["tokens"]),
            experts.token_bytes(int(row["hidden"]), phase),
            int(row["experts_per_token"]),
            int(row["sms"]),
        )
        for row in rows
    ]
    found = experts.exchange(machine, "normal", phase).times(calls)
    errors = [abs(time / float(row["seconds"]) - 1) for time, row in zip(found, rows, strict=True)]
    assert len(errors) > 600
    assert median(errors) < 0.11


def test_more_multiprocessors_are_faster_until_links_are_full():
    dispatch = experts.exchange("h100-sxm", "normal", "dispatch")
    times = dispatch.times([(8192, 7392, 8, sms) for sms in (4, 8, 16, 24, 1000, 2000)])
    assert times[0] > times[1] > times[2] > times[3] > times[4] == times[5]


def test_a_token_has_fp8_with_scales_to_the_experts_and_bf16_back():
    assert experts.token_bytes(7168, "dispatch") == 7168 + 7168 // 128 * 4
    assert experts.token_bytes(7168, "combine") == 14336


def test_what_was_not_measured_is_an_error():
    with pytest.raises(SynclineError, match="h100-sxm"):
        experts.exchange("h100", "normal", "dispatch")
    with pytest.raises(SynclineError, match="not measured on this machine"):
        experts.exchange("b200-sxm", "normal", "dispatch", 2)

"""All-reduces by kernels of inference frameworks take as long as was measured."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from syncline.errors import SynclineError
from syncline.nccl import shots
from syncline.nccl.rows import read

ROWS = read([Path(__file__).parents[2] / "validation" / "collectives" / "shots" / "shots.csv.gz"])
KERNELS = [(machine, framework) for machine, frameworks in shots.names().items() for framework in frameworks]


@pytest.mark.parametrize(("machine", "framework"), KERNELS)
def test_times_are_near_the_measured_ones(machine, framework):
    rows = [row for row in ROWS if (row.system, row.software) == (machine, framework)]
    found = shots.find(machine, framework).times([(row.gpus, row.bytes) for row in rows])
    errors = [abs(time / row.seconds - 1) for (time, _), row in zip(found, rows, strict=True)]
    assert len(errors) >= 10
    assert median(errors) < 0.08


def test_the_newest_version_counts():
    assert shots.find("h100-sxm", "vLLM").framework == "vLLM 0.24.0"
    assert shots.find("h100-sxm", "SGLang").framework == "SGLang 0.5.14"
    assert shots.find("a100-sxm", "SGLang").framework == "SGLang 0.5.10"
    assert shots.find("h100-sxm", "vllm").framework == "vLLM 0.24.0"
    assert shots.find("h100-sxm", "vLLM 0.19.0").framework == "vLLM 0.19.0"


def test_small_vectors_take_one_shot_and_large_ones_two():
    found = shots.find("h100-sxm", "vLLM").times([(8, 4096), (8, 4 * 2**20), (2, 4 * 2**20)])
    assert [each for _, each in found] == [1, 2, 1]


def test_what_was_not_measured_is_an_error():
    with pytest.raises(SynclineError, match="h100-sxm"):
        shots.find("h100", "vLLM")
    with pytest.raises(SynclineError, match="not measured on this machine"):
        shots.find("h100-sxm", "vLLM 0.1")

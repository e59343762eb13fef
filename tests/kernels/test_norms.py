"""Kernels that memory bounds, against NVIDIA's measurements of RMSNorm."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import pytest

from syncline import kernels

TABLE = Path(__file__).parents[2] / "validation" / "kernels" / "cudnn-norms.csv"


def over_measured(backend: str, accelerator: str) -> float:
    """Median of predicted over measured time of forward passes, which read each element and write it, 2 bytes each."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["direction"] == "forward" and row["backend"] == backend]
    found = [
        kernels.load(accelerator).memory_bound(2 * 2 * int(row["tokens"]) * int(row["hidden"])).seconds
        / float(row["seconds"])
        for row in rows
        if row["accelerator"] == accelerator
    ]
    assert len(found) >= 12
    return median(found)


@pytest.mark.parametrize("accelerator", ["H200-SXM-141GB", "GB200-NVL72", "GB300-NVL72"])
def test_norms_of_cudnn_take_the_time_of_their_bytes(accelerator: str) -> None:
    assert over_measured("cudnn", accelerator) == pytest.approx(1, abs=0.06)


def test_norms_of_pytorch_take_a_third_longer() -> None:
    """Estimates count operations that PyTorch has no fused kernel for with this factor, such as biases of experts."""
    accelerators = ("H200-SXM-141GB", "GB200-NVL72", "GB300-NVL72")
    slower = [1 / over_measured("pytorch", each) for each in accelerators]
    assert sum(slower) / 3 == pytest.approx(1.32, abs=0.03)
    assert max(slower) - min(slower) < 0.12

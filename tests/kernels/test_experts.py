"""Kernels that fuse products of experts with activations, against NVIDIA's measurements of cuDNN's."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from syncline import kernels

TABLE = Path(__file__).parents[2] / "validation" / "kernels" / "cudnn-experts.csv"
TOKENS, INPUTS, WIDTH = 32768, 8192, 4096
"""Tokens of all experts, elements of a token, and elements of an activation."""


def samples(accelerator: str, activation: str) -> list[float]:
    """Times of cuDNN's kernels, in the order in which they were measured."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = [row for row in rows if (row["accelerator"], row["activation"]) == (accelerator, activation)]
    assert {(int(row["tokens"]), int(row["inputs"]), int(row["width"])) for row in found} == {(TOKENS, INPUTS, WIDTH)}
    times = [float(row["seconds"]) for row in found if row["library"] == "cudnn"]
    assert len(times) == 5
    return times


def product(accelerator: str, columns: int) -> float:
    """One product of 8 bits with the tokens of all experts, without the cast of its left operand."""
    models = kernels.load(accelerator)
    cast = models.memory_bound(3 * TOKENS * INPUTS).seconds
    return models.gemm(TOKENS, columns, INPUTS, data_type="fp8").seconds - cast


@pytest.mark.parametrize("accelerator", ["GB200-NVL72", "GB300-NVL72"])
@pytest.mark.parametrize(("activation", "columns"), [("swiglu", 2 * WIDTH), ("geglu", 2 * WIDTH), ("srelu", WIDTH)])
def test_experts_take_the_time_of_one_product_with_all_tokens(accelerator: str, activation: str, columns: int) -> None:
    times = samples(accelerator, activation)
    # Without a gate, cuDNN's kernel is faster than the measured ones of TensorRT-LLM.
    near = 0.1 if columns == 2 * WIDTH else 0.2
    assert product(accelerator, columns) == pytest.approx(sum(times) / 5, rel=near)


@pytest.mark.parametrize("accelerator", ["GB200-NVL72", "GB300-NVL72"])
@pytest.mark.parametrize("activation", ["dswiglu", "dgeglu"])
def test_gradients_of_gates_take_longer_than_their_product(accelerator: str, activation: str) -> None:
    """Before the clock falls, each takes the 5.5 ps that estimates count (``GATE_S`` in the crate ``estimate``)."""
    cold = sum(samples(accelerator, activation)[:2]) / 2
    assert cold / (TOKENS * WIDTH) == pytest.approx(5.5e-12, rel=0.05)
    # The same product with an activation that needs less arithmetic is faster.
    assert cold / (sum(samples(accelerator, "srelu")[:2]) / 2) == pytest.approx(1.1, abs=0.02)

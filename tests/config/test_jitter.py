"""Jitter: values of its keys, and its resolved form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from syncline.config.load import Loaded

BASE = "workload: { collective: all_reduce, bytes: 1MiB }\nfabric: { shape: Ring(4), rate: 25GB/s }\n"
NONE = {"start": "0s", "compute": 0.0, "seed": None}


def test_there_is_no_jitter_by_default(scenario: Callable[..., Loaded]) -> None:
    assert scenario(BASE).resolved["jitter"] == NONE
    assert scenario(BASE + "jitter:\n").resolved["jitter"] == NONE


@pytest.mark.parametrize(
    ("given", "compute"), [("2%", 0.02), ("2 %", 0.02), ("0.5%", 0.005), ("0.02", 0.02), ("200%", 2.0), ("0", 0.0)]
)
def test_compute_noise_is_a_fraction_of_the_mean(given: str, compute: float, scenario: Callable[..., Loaded]) -> None:
    jitter = scenario(BASE + f"jitter: {{ start: 1us, compute: {given}, seed: 7 }}\n").resolved["jitter"]
    assert jitter == {"start": "1us", "compute": pytest.approx(compute), "seed": 7}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("start: 1", "a number without a unit"),
        ("compute: 201%", "a fraction of the mean from 0 to 2"),
        ("compute: -1%", "such as 2% or 0.02"),
        ("compute: 2ms", "such as 2% or 0.02"),
        ("compute: true", "such as 2% or 0.02"),
        ("seed: -1", "at least 0"),
        ("seed: 7", "`seed` has no effect without `start` or `compute`"),
        ("skew: 1us", "unknown key `skew`"),
    ],
)
def test_invalid_values_are_refused(given: str, expected: str, refused: Callable[..., str]) -> None:
    assert expected in refused(BASE + f"jitter: {{ {given} }}\n")

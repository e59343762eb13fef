"""Exchanges are simulated once for several shapes."""

from __future__ import annotations

import pytest

from syncline.design.bandwidth import spanned
from syncline.design.bandwidth.demand import Cache, demand_of
from tests.design.bandwidth.requests import SPEC, asked

SHAPES = ["Ring(4)_Switch(8)", "Switch(4)_Switch(8)", "Ring(8)_Switch(4)", "Ring(2)_Switch(4)_Ring(4)", "Ring(32)"]


def dims(*sizes: int) -> list[dict[str, object]]:
    return [{"name": f"dim{at}", "size": size, "shape": "ring"} for at, size in enumerate(sizes, start=1)]


@pytest.mark.parametrize(
    ("sizes", "inner", "tensor", "data"),
    [
        ((4, 8), 4, ["dim1", 8], [4, "dim2"]),
        ((2, 2, 8), 4, ["dim1", "dim2", 8], [4, "dim3"]),
        ((8, 2, 2), 4, ["dim1", 4], ["dim1", "dim2", "dim3"]),
        ((4, 2, 4), 4, ["dim1", 8], [4, "dim2", "dim3"]),
        ((4, 2), 1, [8], ["dim1", "dim2"]),
        ((4, 2), 8, ["dim1", "dim2"], [8]),
        ((4, 2), None, ["dim1", "dim2"], ["dim1", "dim2"]),
    ],
)
def test_dimensions_that_a_group_does_not_span_are_merged(
    sizes: tuple[int, ...], inner: int | None, tensor: list[object], data: list[object]
) -> None:
    def form(role: str) -> list[object]:
        found = spanned.standardised(dims(*sizes), role, inner, "1ps")
        return [dim["size"] if str(dim["name"]).startswith("other") else dim["name"] for dim in found]

    assert form("tensor") == tensor
    assert form("data") == data
    assert form("all") == [f"dim{at}" for at in range(1, len(sizes) + 1)]


def test_reused_results_equal_simulated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are equal to the last digit, even with latencies, and need fewer simulations."""

    def found(fabric: dict[str, object]) -> list[object]:
        request, cache = asked(fabric=fabric), Cache()
        whole = []
        for candidate in request.candidates():
            rates = [10**11] * len(candidate.sizes)
            whole.append(demand_of(request.scenario(0, candidate, rates), rates, cache=cache))
        return [whole, len(cache.probed)]

    fabric = {**SPEC["fabric"], "shape": SHAPES, "latency": "1us"}
    reused, few = found(fabric)
    monkeypatch.setattr(spanned, "inner", lambda *_: None)
    simulated, many = found(fabric)
    assert reused == simulated
    assert isinstance(few, int)
    assert isinstance(many, int)
    assert few < many


def test_dimensions_that_a_key_names_are_not_merged() -> None:
    parallel = {"tensor": {"degree": 4}, "data": "rest"}
    assert spanned.inner(parallel, {}, 32) == 4
    assert spanned.inner(parallel, {}, 6) is None
    assert spanned.inner({"tensor": {"dims": ["dim1"]}, "data": "rest"}, {}, 32) is None
    assert spanned.inner({**parallel, "order": ["data", "tensor"]}, {}, 32) is None
    assert spanned.inner(parallel, {"algorithms": {"dim1": "ring"}}, 32) is None
    assert spanned.inner(parallel, {"plans": {"all_reduce": "own.yaml"}}, 32) is None

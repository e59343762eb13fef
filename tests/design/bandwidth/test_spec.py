"""Errors in a design spec have a place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syncline.design.bandwidth.candidate import Candidate, read
from syncline.errors import SynclineError
from tests.design.bandwidth.requests import asked


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"budget": {"rate_per_npu": "0GB/s"}}, "SL0102", "the budget is 0"),
        ({"budget": {"rate_per_npu": "300"}}, "SL0104", "without a unit"),
        ({"budget": {}}, "SL0103", "the budget is empty"),
        ({"budget": {"usd": -5}}, "SL0102", "value not allowed"),
        ({"budget": {"usd": 1000}}, "SL0103", "needs `prices`"),
        ({"objective": "pareto"}, "SL0103", "needs `prices`"),
        ({"objective": "tmie"}, "SL0102", "value not allowed"),
        ({"budget": None}, "SL0103", "missing key `budget`"),
        ({"workload": None}, "SL0103", "missing key `workload`"),
        ({"jobs": [{"name": "a", "workload": {}}]}, "SL0102", "both `workload` and `jobs`"),
        ({"workload": None, "jobs": [{"name": "a", "workload": {}}] * 2}, "SL0102", "two jobs have the same name"),
        ({"workload": None, "jobs": [{"name": "a", "weight": 0, "workload": {}}]}, "SL0102", "value not allowed"),
        ({"fabric": {}}, "SL0103", "give exactly one of `shape` and `npus`"),
        ({"fabric": {"shape": "Ring(4)_Swich(8)"}}, "SL0102", "is not one of Ring"),
        ({"fabric": {"shape": "Ring(4)", "dims": 2}}, "SL0102", "`dims` has no effect with `shape`"),
        ({"fabric": {"npus": 32, "dims": [0]}}, "SL0102", "not allowed"),
        ({"bandwidth": {"dim1": {"min": "1GB/s", "fixed": "2GB/s"}}}, "SL0102", "`fixed` excludes"),
        ({"bandwidth": {"dim1": {"max": "0GB/s"}}}, "SL0102", "needs some bandwidth"),
        ({"bugdet": {}}, "SL0101", "unknown key `bugdet`"),
    ],
)
def test_invalid_specs_are_refused(changes: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(SynclineError) as refused:
        asked(**changes)
    problem = refused.value.diagnostics[0]
    assert problem["code"] == code
    assert text in problem["message"]
    assert refused.value.exit_status == 2


WORKLOAD = {"collective": "all_reduce", "bytes": "1MB"}


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"budget": {"usd": 1000}}, "budget.usd", "`budget.usd` needs `prices`"),
        ({"objective": "pareto"}, "objective", "`objective: pareto` needs `prices`"),
        (
            {"objective": "performance_per_cost", "prices": "hier2021"},
            "objective",
            "if only the network has a price, the slowest network has the most performance per cost",
        ),
        ({"jobs": [{"name": "a", "workload": {}}]}, "jobs", "both `workload` and `jobs` are given"),
        (
            {"workload": None, "jobs": [{"name": name, "workload": {}} for name in "aba"]},
            "jobs.2.name",
            "two jobs have the same name",
        ),
        ({"workload": None}, "workload", "missing key `workload`"),
        ({"npu_usd": 20000}, "npu_usd", "`npu_usd` needs `prices`"),
        ({"points": 8, "prices": "hier2021"}, "points", "`points` needs `objective: pareto`"),
        (
            {"fabric": {"shape": "Ring(4)_Switch(8)", "names": ["a", "a"]}},
            "fabric.names.1",
            "two dimensions have the same name",
        ),
        ({"fabric": {"shape": "Ring(4)_Switch(8)", "names": ["a", "last"]}}, "fabric.names.1", "`last` is reserved"),
        ({"fabric": {"npus": 32, "kinds": ["hypercube"]}}, "fabric.kinds.0", "value not allowed"),
        ({"fabric": {"npus": 32, "kinds": ["ring", ["ring", 3]]}}, "fabric.kinds.1", "value not allowed"),
        ({"fabric": {"shape": "Ring(4)", "kinds": ["ring"]}}, "fabric.kinds", "`kinds` has no effect with `shape`"),
    ],
)
def test_each_mistake_gives_one_error_with_key_and_place(
    tmp_path: Path, changes: dict[str, Any], key: str, text: str
) -> None:
    asks = {"workload": WORKLOAD, "fabric": {"shape": "Ring(4)_Switch(8)"}, "budget": {"rate_per_npu": "1GB/s"}}
    file = tmp_path / "spec.json"
    kept = {name: value for name, value in {**asks, **changes}.items() if value is not None}
    file.write_text(json.dumps(kept, indent=1), "utf-8")
    with pytest.raises(SynclineError) as refused:
        read(str(file))
    (problem,) = refused.value.diagnostics
    assert text in problem["message"]
    assert problem["key"] == key
    assert problem["place"]["line"] >= 1
    last = key.split(".")[-1]
    line = file.read_text("utf-8").splitlines()[problem["place"]["line"] - 1]
    assert last.isdigit() or last in line or key == "workload"
    assert "literal" not in json.dumps(problem)


def test_shapes_of_different_sizes_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(
        "workload: { collective: all_reduce, bytes: 1MB }\n"
        "budget: { rate_per_npu: 1GB/s }\n"
        "fabric:\n"
        "  shape:\n"
        "  - Ring(4)_Switch(8)\n"
        "  - Switch(32)\n"
        "  - Ring(4)_Switch(16)\n",
        "utf-8",
    )
    with pytest.raises(SynclineError) as refused:
        read(str(file)).candidates()
    (problem,) = refused.value.diagnostics
    assert problem["key"] == "fabric.shape"
    assert problem["place"]["line"] == 7
    assert problem["found"] == "Ring(4)_Switch(16), 64 NPUs"
    assert problem["allowed"] == "shapes of 32 NPUs, like Ring(4)_Switch(8)"
    assert "a separate search" in problem["help"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"npus": 31, "dims": 2}, "no shape has this number of NPUs"),
        ({"npus": 2**30, "dims": 8, "kinds": [["ring", "switch", "fully_connected"]]}, "too many shapes"),
        ({"shape": "Ring(4)_Switch(8)", "names": ["a"]}, "1 names for the 2 dimensions"),
    ],
)
def test_impossible_shapes_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SynclineError) as refused:
        asked(fabric=changes).candidates()
    assert text in refused.value.diagnostics[0]["message"]


def test_all_factorisations_are_candidates() -> None:
    request = asked(fabric={"npus": 12, "dims": [1, 2, 3], "kinds": ["ring", ["switch", "fully_connected"]]})
    shapes = [candidate.shape for candidate in request.candidates()]
    assert shapes[0] == "Ring(12)"
    assert "Ring(2)_FC(6)" in shapes
    assert "Ring(2)_Switch(2)_FC(3)" in shapes
    # 1 shape of one dimension; 4 ordered pairs of sizes in 2 ways; 3 ordered triples in 4 ways.
    assert len(shapes) == len(set(shapes)) == 1 + 4 * 2 + 3 * 4
    assert all(candidate.npus == 12 for candidate in request.candidates())


def test_dimensions_may_have_names() -> None:
    request = asked(fabric={"shape": "Ring(4)_Switch(8)", "names": ["node", "scale-out"]})
    assert request.candidates() == [Candidate("Ring(4)_Switch(8)", ("node", "scale-out"), (4, 8))]


def test_errors_of_the_job_have_the_place_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(
        "schema: syncline-design/1\n"
        "workload: { model: gpt3_175b, batch_per_npu: 1, parallel: { tensor: 7 } }\n"
        "compute: { model: roofline, peak: 234TFLOP/s, memory: 2TB/s }\n"
        "fabric: { shape: Ring(7)_Switch(4) }\n"
        "budget: { rate_per_npu: 300GB/s }\n",
        "utf-8",
    )
    request = read(str(file))
    with pytest.raises(SynclineError) as refused:
        from syncline.design.bandwidth.demand import demand_of

        demand_of(request.scenario(0, request.candidates()[0], [10**12] * 2), [10**12] * 2)
    problem = refused.value.diagnostics[0]
    assert "heads" in problem["message"]
    assert problem["place"]["line"] == 2
    assert problem["key"].startswith("workload.parallel")

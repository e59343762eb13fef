"""What is wrong with what is asked for is told with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncline.design.candidate import Candidate, read
from syncline.errors import SynclineError
from tests.design.requests import asked


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"budget": {"rate_per_npu": "0GB/s"}}, "SL0102", "a budget of nothing"),
        ({"budget": {"rate_per_npu": "300"}}, "SL0104", "without a unit"),
        ({"budget": {}}, "SL0103", "the budget is empty"),
        ({"budget": {"usd": -5}}, "SL0102", "value not allowed"),
        ({"budget": {"usd": 1000}}, "SL0103", "needs `prices`"),
        ({"objective": "pareto"}, "SL0103", "needs `prices`"),
        ({"objective": "tmie"}, "SL0102", "value not allowed"),
        ({"budget": None}, "SL0103", "missing key `budget`"),
        ({"workload": None}, "SL0103", "missing key `workload`"),
        ({"jobs": [{"name": "a", "workload": {}}]}, "SL0102", "both `workload` and `jobs`"),
        ({"workload": None, "jobs": [{"name": "a", "workload": {}}] * 2}, "SL0102", "two jobs have one name"),
        ({"workload": None, "jobs": [{"name": "a", "weight": 0, "workload": {}}]}, "SL0102", "value not allowed"),
        ({"fabric": {}}, "SL0103", "either `shape` or `npus`"),
        ({"fabric": {"shape": "Ring(4)_Swich(8)"}}, "SL0102", "is not one of Ring"),
        ({"fabric": {"shape": "Ring(4)", "dims": 2}}, "SL0102", "`dims` is for `npus`"),
        ({"fabric": {"npus": 32, "dims": [0]}}, "SL0102", "not allowed"),
        ({"bandwidth": {"dim1": {"min": "1GB/s", "fixed": "2GB/s"}}}, "SL0102", "`fixed` is both"),
        ({"bandwidth": {"dim1": {"max": "0GB/s"}}}, "SL0102", "needs some bandwidth"),
        ({"bugdet": {}}, "SL0101", "unknown key `bugdet`"),
    ],
)
def test_bad_input(changes: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(SynclineError) as refused:
        asked(**changes)
    problem = refused.value.diagnostics[0]
    assert problem["code"] == code
    assert text in problem["message"]
    assert refused.value.exit_status == 2


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"npus": 31, "dims": 2}, "no shape has so many NPUs"),
        ({"npus": 2**30, "dims": 8, "kinds": [["ring", "switch", "fully_connected"]]}, "too many shapes"),
        ({"shape": "Ring(4)_Switch(8)", "names": ["a"]}, "1 names for the 2 dimensions"),
    ],
)
def test_shapes_that_there_are_not(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SynclineError) as refused:
        asked(fabric=changes).candidates()
    assert text in refused.value.diagnostics[0]["message"]


def test_all_factorisations() -> None:
    request = asked(fabric={"npus": 12, "dims": [1, 2, 3], "kinds": ["ring", ["switch", "fully_connected"]]})
    shapes = [candidate.shape for candidate in request.candidates()]
    assert shapes[0] == "Ring(12)"
    assert "Ring(2)_FC(6)" in shapes
    assert "Ring(2)_Switch(2)_FC(3)" in shapes
    # 1 of one dimension, 4 ordered pairs in two ways, 3 ordered triples in four.
    assert len(shapes) == len(set(shapes)) == 1 + 4 * 2 + 3 * 4
    assert all(candidate.npus == 12 for candidate in request.candidates())


def test_names_of_dimensions() -> None:
    request = asked(fabric={"shape": "Ring(4)_Switch(8)", "names": ["node", "scale-out"]})
    assert request.candidates() == [Candidate("Ring(4)_Switch(8)", ("node", "scale-out"), (4, 8))]


def test_errors_of_the_job_have_the_place_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(
        "schema: syncline-design/1\n"
        "workload: { model: gpt3_175b, batch_per_npu: 1, parallel: { model: 7 } }\n"
        "compute: { model: roofline, peak: 234TFLOP/s, memory: 2TB/s }\n"
        "fabric: { shape: Ring(7)_Switch(4) }\n"
        "budget: { rate_per_npu: 300GB/s }\n",
        "utf-8",
    )
    request = read(str(file))
    with pytest.raises(SynclineError) as refused:
        from syncline.design.demand import demand

        demand(request.scenario(0, request.candidates()[0], [10**12] * 2), [10**12] * 2)
    problem = refused.value.diagnostics[0]
    assert "heads" in problem["message"]
    assert problem["place"]["line"] == 2
    assert problem["key"].startswith("workload.parallel")

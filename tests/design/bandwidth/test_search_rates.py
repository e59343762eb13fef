"""The complete search on a small job."""

from __future__ import annotations

import itertools
import json
import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import syncline
from syncline.config.load import Loaded
from syncline.design import folder
from syncline.design.bandwidth import demand as counting
from syncline.design.bandwidth import result_files, search_rates
from syncline.design.bandwidth.algorithms import chosen
from syncline.design.bandwidth.demand import demand_of
from syncline.design.bandwidth.screen import as_text
from syncline.design.bandwidth.search_rates import search
from syncline.design.bandwidth.trial import APART
from syncline.errors import SynclineError
from tests.design.bandwidth.requests import SPEC, asked

if TYPE_CHECKING:
    from syncline.config.load import Loaded
    from syncline.result import Result

pytest.importorskip("cvxpy")
pytestmark = pytest.mark.timeout(300)


def test_demand_is_counted_from_the_plans() -> None:
    """Among 4 ranks, an all-gather and an all-reduce of 4 M elements each; among 8, a quarter of the gradients."""
    request = asked()
    rates = [8 * 10**11] * 2
    found = demand_of(request.scenario(0, request.candidates()[0], rates), rates)
    element = 4
    tensor, data = found.role("tensor"), found.role("data")
    assert tensor == pytest.approx((4e6 * element * (3 / 4 + 2 * 3 / 4), 0.0), rel=1e-3)
    assert data == pytest.approx((0.0, 9e6 / 4 * element * 2 * 7 / 8), rel=1e-3)
    assert found.compute_s == pytest.approx(5 * 1e-3 / 4, rel=1e-3)


def test_predicted_times_match_simulated_ones() -> None:
    found = search(asked())
    assert [each.scheme for each in found.allocations] == ["equal", "by bytes", "by turns", "optimum"]
    for each in found.allocations:
        # The difference is the time in which chunks fill and empty the pipeline of dimensions.
        assert each.simulated[0] == pytest.approx(each.predicted[0], rel=0.02)
        assert sum(each.rates) <= 100e9
    best = found.winner
    assert best.scheme == "optimum"
    assert best.simulated[0] == pytest.approx(min(each.simulated[0] for each in found.allocations), rel=1e-4)
    smart = next(each for each in found.allocations if each.scheme == "by turns")
    assert best.rates == pytest.approx(smart.rates, rel=1e-4)
    assert "as fast as with equal bandwidths" in " ".join(as_text(found).split())


@pytest.mark.parametrize(
    ("shape", "tensor"),
    [("FC(8)_Switch(8)", 2), ("Ring(8)_Switch(8)", 4), ("FC(4)_FC(4)_Switch(4)", 8), ("Switch(6)_Switch(4)", 2)],
)
def test_predictions_hold_if_groups_are_parts_of_dimensions(shape: str, tensor: int) -> None:
    """Part of a full connection has only the links between its members; part of a ring sends through other ranks."""
    workload = {**SPEC["workload"], "parallel": {"tensor": tensor, "overlap": "none"}}
    found = search(asked(workload=workload, fabric={"shape": shape, "latency": "1ns"}))
    for each in found.allocations:
        assert each.simulated[0] == pytest.approx(each.predicted[0], rel=0.03), each.scheme
    assert found.winner.simulated[0] <= min(each.simulated[0] for each in found.allocations) * (1 + 1e-4)


def test_all_shapes_are_searched_and_unsuitable_ones_are_reported() -> None:
    workload = {**SPEC["workload"], "parallel": {"tensor": ["dim1"], "overlap": "none"}}
    found = search(
        asked(workload=workload, fabric={"npus": 32, "dims": [1, 2], "kinds": ["ring", "switch"]}, simulate=2)
    )
    shapes = {each.shape for each in found.allocations}
    assert shapes == {"Ring(32)", "Ring(2)_Switch(16)", "Ring(4)_Switch(8)", "Ring(8)_Switch(4)", "Ring(16)_Switch(2)"}
    optima = [each for each in found.allocations if each.scheme == "optimum"]
    assert found.winner.total_s == min(each.total_s for each in optima)
    assert sum(bool(each.simulated) for each in optima) == 2
    workload = {**SPEC["workload"], "parallel": {"tensor": ["dim2"], "overlap": "none"}}
    bad = search(asked(workload=workload, fabric={"shape": ["Ring(4)_Switch(8)", "Ring(32)"]}))
    assert [shape for shape, _ in bad.skipped] == ["Ring(32)"]


def test_several_jobs_are_weighed() -> None:
    """The fabric is optimised for the job with the larger weight."""
    data = {**SPEC["workload"], "parallel": {"data": "all", "tensor": "none", "overlap": "none"}}
    shares = []
    for weight in (0.01, 100):
        jobs = [{"name": "a", "workload": SPEC["workload"]}, {"name": "b", "weight": weight, "workload": data}]
        found = search(asked(workload=None, jobs=jobs))
        assert len(found.winner.predicted) == 2
        shares.append(found.winner.shares[1])
    alone = search(asked(workload=data)).winner.shares[1]
    assert abs(shares[1] - alone) < abs(shares[0] - alone)


def test_bounds_are_respected_and_schemes_that_break_them_are_reported() -> None:
    found = search(asked(bandwidth={"dim1": {"max": "20GB/s"}, "last": {"min": "30GB/s"}}))
    assert found.winner.rates[0] <= 20e9
    assert found.winner.reached == ("budget.rate_per_npu", "bandwidth.dim1.max")
    broken = {each.scheme: each.broken for each in found.allocations}
    assert "bandwidth.dim1.max" in broken["equal"]
    assert not broken["optimum"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"bandwidth": {"dim1": {"min": "80GB/s"}, "dim2": {"fixed": "30GB/s"}}}, "at least 110 GB/s together"),
        ({"bandwidth": {"dim1": {"max": "10GB/s"}, "dim2": {"min": "20GB/s"}}, "order": "descending"}, "dimension dim"),
    ],
)
def test_an_infeasible_constraint_is_named(changes: dict[str, object], why: str) -> None:
    with pytest.raises(SynclineError) as refused:
        search(asked(**changes))
    assert refused.value.exit_status == 1
    (problem,) = refused.value.diagnostics
    assert problem["code"] == "SL1001"
    assert why in problem["notes"][0]


def test_the_winner_runs_again_from_the_files_of_a_search(tmp_path: Path) -> None:
    found = search(asked())
    folder = tmp_path / "found"
    names = result_files.save(found, str(folder))
    assert set(names) >= {"design.json", "allocations.csv", "scenario.yaml", "run"}
    answer = json.loads((folder / "design.json").read_text("utf-8"))
    again = syncline.simulate(folder / "scenario.yaml")
    assert again.summary.step_time_s == pytest.approx(answer["best"]["simulated_s"][0], rel=1e-12)
    assert (folder / "run" / "report.html").is_file()
    before = (folder / "design.json").read_bytes()
    result_files.save(search(asked()), str(folder))
    assert (folder / "design.json").read_bytes() == before


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(SynclineError) as refused:
        result_files.save(search(asked()), str(tmp_path))
    assert refused.value.exit_status == 3
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_is_not_taken_for_an_earlier_search_because_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "design.json").write_text("{}", "utf-8")
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    with pytest.raises(SynclineError):
        folder.check(str(tmp_path))
    assert (tmp_path / "thesis.txt").is_file()


def test_jobs_with_names_that_give_equal_file_names_have_different_files(tmp_path: Path) -> None:
    jobs = [{"name": name, "workload": SPEC["workload"]} for name in ("a b", "a-b")]
    names = result_files.save(search(asked(workload=None, jobs=jobs)), str(tmp_path / "found"))
    assert {"a-b.yaml", "a-b-2.yaml", "run-a-b", "run-a-b-2"} <= set(names)


def test_stages_of_a_pipeline_are_refused() -> None:
    workload = {**SPEC["workload"], "parallel": {"tensor": 4, "pipeline": 2}, "micro_batches": 2}
    with pytest.raises(SynclineError) as refused:
        search(asked(workload=workload))
    assert refused.value.diagnostics[0]["key"] == "workload.parallel.pipeline"


@pytest.mark.parametrize(("key", "given"), [("axes", {"context": 2}), ("meshes", {"experts": {"axes": {"expert": 2}}})])
def test_further_axes_are_refused(key: str, given: dict[str, object]) -> None:
    workload = {**SPEC["workload"], "parallel": {"tensor": 4, key: given}}
    with pytest.raises(SynclineError) as refused:
        search(asked(workload=workload))
    assert refused.value.diagnostics[0]["key"] == f"workload.parallel.{key}"


def test_a_rate_without_any_bound_is_refused() -> None:
    """A ring has no cards and no ports, so with free cables its rate costs nothing."""
    prices = {
        "name": "cards only",
        "source": "made up",
        "year": 2026,
        "components": {"link": "none", "nic": {"usd_per_GBps": 48}, "switch": {"usd_per_GBps": 24}},
    }
    with pytest.raises(SynclineError) as refused:
        search(asked(budget={"usd": 1e5}, prices=prices))
    assert "nothing limits the rate of dimension dim1" in refused.value.diagnostics[0]["message"]


@pytest.mark.parametrize("chunks", [16, 64])
@pytest.mark.parametrize("reduction", [None, "20GB/s"])
def test_delays_of_endpoints_and_reductions_are_predicted(chunks: int, reduction: str | None) -> None:
    """Predictions use the simulation's algorithms, and count delays that overlap with busy links only once."""
    found = search(asked(collectives={"endpoint_delay": "20us", "reduction_rate": reduction, "chunks": chunks}))
    for each in found.allocations:
        # Exchanges of gradients overlap, so they wait for delays at the same time.
        assert each.simulated[0] == pytest.approx(each.predicted[0], rel=APART + 1e-3), each.scheme
    best = next(each for each in found.allocations if each.scheme == "optimum")
    assert best.simulated[0] == pytest.approx(best.predicted[0], rel=0.02)


def test_a_single_exchange_with_delays_takes_the_predicted_time() -> None:
    """With nothing else under way, prediction and simulation agree at the resulting rates."""
    job = {"collective": "all_reduce", "bytes": "64MB"}
    delays = {"endpoint_delay": "20us", "reduction_rate": "20GB/s"}
    for shape in ("Ring(4)", "Switch(8)"):
        winner = search(asked(workload=job, fabric={"shape": shape}, collectives=delays)).winner
        assert winner.simulated[0] == pytest.approx(winner.predicted[0], rel=2e-3), shape


def test_algorithms_are_chosen_for_the_resulting_rates() -> None:
    """The search ends with the algorithms that would be chosen for its resulting rates."""
    request = asked(collectives={"endpoint_delay": "5us"})
    found = search(request)
    rates = [round(8 * rate) for rate in found.winner.rates]
    assert found.is_settled
    assert found.algorithms == [chosen(request.scenario(0, found.candidate, rates))]
    assert "Algorithms: data all_reduce: " in as_text(found)
    answer = result_files.as_dict(found)["algorithms"]
    assert {each["collective"] for each in answer[0]["algorithms_of"]} == {"all_reduce", "all_gather"}


def test_a_search_that_does_not_settle_keeps_its_algorithms_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The choice changes at every call, so the search does not settle; its scenario then names the algorithms used."""
    choose = chosen
    looks = itertools.count()

    def restless(loaded: Loaded) -> dict[tuple[str, str, int], tuple[str, ...]]:
        name = f"direct(window={next(looks) + 1})"
        phases = (f"{name} reduce_scatter", f"{name} all_gather")
        return {of: phases if of[1] == "all_reduce" else own for of, own in choose(loaded).items()}

    monkeypatch.setattr(search_rates, "chosen", restless)
    found = search(asked(collectives={"endpoint_delay": "20us"}))
    assert not found.is_settled
    assert any("other algorithms would be chosen" in note for note in found.notes)
    result_files.save(found, str(tmp_path / "found"))
    monkeypatch.undo()
    again = syncline.simulate(tmp_path / "found" / "scenario.yaml")
    assert again.summary.step_time_s == pytest.approx(found.winner.simulated[0], rel=1e-12)
    text = (tmp_path / "found" / "scenario.yaml").read_text("utf-8")
    assert "algorithms_of" in text


def test_different_files_with_the_same_name_are_both_kept(tmp_path: Path) -> None:
    for name, text in (("a", "one"), ("b", "two"), ("c", "one")):
        (tmp_path / "from" / name / "x").mkdir(parents=True)
        (tmp_path / "from" / name / "x" / "config.json").write_text(text, "utf-8")
    named = [{"model": f"{name}/x/config.json", "layers": 4} for name in ("a", "b", "c")]
    made = result_files._with_files(named, tmp_path / "from", tmp_path)
    assert [each["layers"] for each in made] == [4] * 3
    texts = [(tmp_path / each["model"]).read_text("utf-8") for each in made]
    assert texts == ["one", "two", "one"]
    assert made[0] == made[2]


def test_predictions_hold_with_micro_batches() -> None:
    workload = {**SPEC["workload"], "micro_batches": 4}
    for each in search(asked(workload=workload)).allocations:
        assert each.simulated[0] == pytest.approx(each.predicted[0], rel=0.03)


@pytest.mark.parametrize(
    "algorithms",
    [
        {"dim2": {"all_reduce": "direct", "reduce_scatter": "direct", "all_gather": "direct"}},
        {"dim1": {"all_gather": "direct"}, "default": {"all_reduce": "halving_doubling"}},
    ],
)
def test_algorithms_of_single_dimensions_are_used(algorithms: dict[str, dict[str, str]]) -> None:
    found = search(asked(collectives={"algorithms": algorithms}))
    for each in found.allocations:
        assert each.simulated[0] == pytest.approx(each.predicted[0], rel=0.03)
    assert found.results[0].scenario is not None
    assert found.results[0].scenario["collectives"]["algorithms"] == algorithms


def test_an_algorithm_that_sends_more_gets_more_bandwidth() -> None:
    """Messages of a direct exchange cross several links of a ring."""
    job = {"collective": "all_reduce", "bytes": "64MB"}
    fabric = {"shape": "Ring(8)_Switch(4)"}
    usual, direct = (
        search(asked(workload=job, fabric=fabric, collectives={"algorithms": algorithms})).winner
        for algorithms in ({}, {"dim1": {"reduce_scatter": "direct", "all_gather": "direct"}})
    )
    assert direct.shares[0] > usual.shares[0] + 0.02
    assert direct.total_s > 1.1 * usual.total_s


def test_the_error_for_an_unknown_dimension_lists_the_known_ones() -> None:
    with pytest.raises(SynclineError) as refused:
        search(asked(collectives={"algorithms": {"dim3": {"all_reduce": "direct"}}}))
    (problem,) = refused.value.diagnostics
    assert problem["key"] == "collectives.algorithms.dim3"
    assert "dim1, dim2" in problem["allowed"]


def test_a_job_on_a_logical_grid_is_searched() -> None:
    found = search(asked(workload={"collective": "all_reduce", "bytes": "64MB"}, collectives={"logical": [4, 8]}))
    assert found.winner.predicted[0] > 0


@pytest.mark.parametrize("parallel", [{"tensor": 4}, {"data": 12}, {"tensor": "none"}, {"tensor": 6}])
def test_exchanges_are_counted_once_for_all_shapes(
    parallel: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exchanges depend on the number of NPUs; only their times depend on the shape."""
    counted: list[list[int]] = []
    simulate = counting._run

    def watched(loaded: Loaded, resolved: dict[str, Any]) -> Result:
        dims = resolved["fabric"]["dims"]
        if dims[0]["name"] == "part0":
            counted.append([dim["size"] for dim in dims])
        return simulate(loaded, resolved)

    monkeypatch.setattr(counting, "_run", watched)
    told: list[str] = []
    workload = {**SPEC["workload"], "parallel": {**parallel, "overlap": "none"}}
    fabric = {"npus": 48, "dims": [1, 2], "kinds": ["switch"]}
    found = search(asked(workload=workload, fabric=fabric, simulate=1), lambda done, what: told.append(what))
    assert len(counted) == 1
    # A tensor-parallel group fills the lowest parts.
    inner = parallel.get("tensor", 4)
    assert inner == "none" or inner in itertools.accumulate(counted[0], operator.mul)
    assert len([each for each in found.allocations if each.scheme == "optimum"]) + len(found.skipped) == 9
    assert told[0] == "shape 1 of 9: Switch(48)"
    alone = search(asked(workload=workload, fabric={"shape": found.winner.shape}))
    assert alone.winner.predicted == found.winner.predicted


def test_a_shape_with_many_individually_simulated_ranks_gives_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 65,536 ranks take minutes to simulate; this test lowers that number."""
    monkeypatch.setattr(search_rates, "_MANY", 3)
    found = {"code": "SL0505", "severity": "warning", "message": "many"}
    monkeypatch.setattr(Loaded, "check", lambda _: [found, {**found, "code": "SL0703"}])
    heard: list[object] = []
    search(asked(), warn=heard.extend)
    assert heard == [found]

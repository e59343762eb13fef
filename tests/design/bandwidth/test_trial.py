"""Simulated results of a search: used bandwidth, the best design, and notes on differences from predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from syncline.design.bandwidth import result_files, search_rates
from syncline.design.bandwidth.screen import as_text
from syncline.design.bandwidth.search_rates import SearchResult, search
from syncline.design.bandwidth.trial import Setup, Trial, _covered, trial
from tests.design.bandwidth.requests import SPEC, asked

if TYPE_CHECKING:
    from pathlib import Path


pytest.importorskip("cvxpy")
pytestmark = pytest.mark.timeout(300)

TRANSFORMER: dict[str, Any] = {
    "workload": {"model": "transformer", "layers": 4, "batch_per_npu": 4, "parallel": {"tensor": 8}},
    "compute": {"model": "roofline", "accelerator": "A100", "efficiency": 0.5},
    "fabric": {"shape": ["Ring(4)_Switch(8)_Switch(4)", "Ring(8)_Switch(16)"], "latency": "0.5us"},
    "budget": {"rate_per_npu": "200GB/s"},
}


def alone(kind: str, **changes: Any) -> SearchResult:
    return search(asked(workload={"collective": kind, "bytes": "1GB"}, **changes))


def test_overlapping_intervals_count_once() -> None:
    assert _covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 2.0)]) == pytest.approx(4.0)
    assert _covered([]) == 0.0


def test_the_used_bandwidth_comes_from_the_simulation() -> None:
    """An all-to-all uses its dimensions one after the other, so few chunks keep each busy only part of the time."""
    found = alone("all_to_all")
    winner, summary = found.winner, found.results[0].summary
    assert winner.utilization == pytest.approx(1.0, rel=1e-3)
    busy = sum(dim.busiest_link_busy * share for dim, share in zip(summary.dims, winner.shares, strict=True))
    assert winner.used == pytest.approx(busy, rel=1e-3)
    assert winner.used is not None
    assert winner.used < 0.8
    assert f"{winner.used:.1%}".replace("%", " %") in as_text(found)
    best = result_files.as_dict(found)["best"]
    assert (best["predicted_utilization"], best["simulated_utilization"]) == (winner.utilization, winner.used)


@pytest.mark.parametrize("changes", [{"iterations": 5}, {"micro_batches": 3}])
def test_the_used_bandwidth_is_that_of_one_step(changes: dict[str, int]) -> None:
    """If exchanges do not overlap, it equals the prediction, except for the time to fill dimensions."""
    for each in search(asked(workload={**SPEC["workload"], **changes}, collectives={"chunks": 64})).allocations:
        assert each.used == pytest.approx(each.utilization, rel=0.05)


@pytest.mark.parametrize(
    ("kind", "collectives"),
    [("all_reduce", {}), ("all_reduce", {"all_reduce": "baseline"}), ("broadcast", {}), ("all_to_all", {})],
)
def test_a_note_says_that_chunks_fill_dimensions_slowly(kind: str, collectives: dict[str, Any]) -> None:
    found = alone(kind, collectives=collectives)
    (note,) = [each for each in found.notes if "longer than predicted" in each]
    ratio = found.winner.found_s / found.winner.total_s
    assert f"{ratio - 1:.1%}".replace("%", " %") in note
    assert "with four times the chunks" in note
    more = alone(kind, collectives={**collectives, "chunks": 64})
    assert more.winner.found_s < found.winner.found_s
    assert f"{1e3 * more.winner.found_s:.4g} ms" in note


def test_a_note_says_that_more_chunks_do_not_help() -> None:
    endless = {"active_chunks": "unlimited", "issue_threshold": "unlimited"}
    assert any(
        "four times the chunks do not come closer" in note for note in alone("all_reduce", collectives=endless).notes
    )


def test_accurate_predictions_have_no_note() -> None:
    assert search(asked()).notes == []


def test_notes_mention_overlap_only_if_the_workload_overlaps() -> None:
    """Without overlap, runs are faster than predicted because exchanges of gradients wait for delays together."""
    rings = {"algorithms": {"default": {"all_reduce": "ring", "all_gather": "ring"}}}
    (note,) = search(asked(collectives={**rings, "chunks": 1, "endpoint_delay": "50us"})).notes
    assert "less than predicted" in note
    assert "the latencies of simultaneous exchanges overlap" in note
    assert "exchanges overlap compute" not in note
    layers = [
        {"name": "first", "parameters": 1000, "weight_grad": "50ms", "forward": "1ms", "input_grad": "1ms"},
        {"name": "second", "parameters": 900_000_000, "forward": "1ms", "input_grad": "1ms", "weight_grad": "1ms"},
    ]
    notes = search(asked(workload={"layers": layers})).notes
    assert any("exchanges overlap compute as the workload says (`parallel.overlap`)" in each for each in notes)


def test_the_winner_has_the_best_simulated_time() -> None:
    jobs = [
        {
            "name": "large",
            "weight": 3,
            "workload": {**TRANSFORMER["workload"], "parallel": {"tensor": 8, "overlap": "none"}},
        },
        {"name": "vision", "workload": {"model": "resnet50", "batch_per_npu": 32}},
    ]
    fabric = {"shape": "Ring(8)_Switch(8)", "latency": "0.5us"}
    found = search(asked(**{**TRANSFORMER, "workload": None, "jobs": jobs, "fabric": fabric}))
    optimum = next(each for each in found.allocations if each.scheme == "optimum")
    assert found.winner.scheme == "equal"
    assert found.winner.total_s > optimum.total_s
    assert found.winner.found_s == min(each.found_s for each in found.allocations) < optimum.found_s
    assert found.results[0].summary.step_time_s == found.winner.simulated[0]
    assert any("equal on Ring(8)_Switch(8) is better than optimum" in note for note in found.notes)
    told = " ".join(as_text(found).split())
    assert "100 GB/s for dim1 and 100 GB/s for dim2" in told
    assert "equal bandwidths are best" in told


def test_a_scheme_that_breaks_a_bound_cannot_win() -> None:
    jobs = [
        {
            "name": "large",
            "weight": 3,
            "workload": {**TRANSFORMER["workload"], "parallel": {"tensor": 8, "overlap": "none"}},
        },
        {"name": "vision", "workload": {"model": "resnet50", "batch_per_npu": 32}},
    ]
    fabric = {"shape": "Ring(8)_Switch(8)", "latency": "0.5us"}
    bounds = {"dim2": {"max": "80GB/s"}}
    found = search(asked(**{**TRANSFORMER, "workload": None, "jobs": jobs, "fabric": fabric}, bandwidth=bounds))
    assert not found.winner.broken
    assert found.winner.scheme == "optimum"


def test_if_another_shape_is_better_when_simulated_it_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The patched simulation makes the shape of two dimensions 1.5 times as fast."""
    simulate = trial

    def better(setup: Setup) -> Trial:
        tried = simulate(setup)
        return replace(tried, times=(tried.times[0] / 1.5,)) if len(setup.rates) == 2 else tried

    monkeypatch.setattr(search_rates, "trial", better)
    worth = {"prices": "hier2021", "npu_usd": 20000, "objective": "pareto"}
    found = search(asked(**TRANSFORMER, **worth))
    assert found.winner.shape == "Ring(8)_Switch(16)"
    own = [each.scheme for each in found.allocations if each.shape == found.winner.shape]
    assert own == ["equal", "by bytes", "by turns", "optimum"]
    assert all(each.simulated for each in found.allocations if each.shape == found.winner.shape)
    assert [each.scheme for each in found.allocations if each.shape != found.winner.shape] == ["optimum"]
    other = found.allocations[-1]
    assert other.objective(per_cost=True) > found.winner.objective(per_cost=True)
    assert other.per_cost > found.winner.per_cost  # type: ignore[operator]
    assert any(
        "Ring(4)_Switch(8)_Switch(4), which was predicted to be best, and is therefore the winner" in note
        for note in found.notes
    )
    assert any(each is found.winner for each in found.front)


def test_a_point_of_the_front_may_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patched simulation makes the cheapest network the best one."""
    simulate = trial
    cheapest: list[float] = []

    def better(setup: Setup) -> Trial:
        tried = simulate(setup)
        total = sum(setup.rates)
        cheapest.append(total)
        return replace(tried, times=(tried.times[0] * 1e-3,)) if total < 30e9 else tried

    monkeypatch.setattr(search_rates, "trial", better)
    found = search(asked(prices="hier2021", objective="pareto", npu_usd=20000.0, points=4))
    assert sum(found.winner.rates) == min(cheapest) < 30e9
    assert found.winner.scheme == "pareto"
    assert found.winner is found.front[0]
    assert [each.scheme for each in found.allocations] == ["equal", "by bytes", "by turns", "optimum", "pareto"]
    assert any("a point of the front on Ring(4)_Switch(8) is better than optimum" in note for note in found.notes)
    assert "pareto" in as_text(found)
    names = result_files.save(found, str(tmp_path / "found"))
    assert "pareto.csv" in names
    answer = json.loads((tmp_path / "found" / "design.json").read_text("utf-8"))
    assert answer["best"] == answer["front"][0]


@pytest.mark.parametrize("npu_usd", [0.0, 20000.0])
def test_the_winner_is_on_the_front(npu_usd: float) -> None:
    found = search(asked(prices="hier2021", objective="pareto", npu_usd=npu_usd, points=4))
    assert sum(each is found.winner for each in found.front) == 1
    costs, times = [each.usd for each in found.front], [each.total_s for each in found.front]
    assert costs == sorted(costs)  # type: ignore[type-var]
    assert times == sorted(times, reverse=True)
    assert len(set(costs)) == len(costs)

"""Results are stored under a name derived from the input, and long runs are simulated in child processes."""

from __future__ import annotations

import json
import multiprocessing
import signal
import threading
import time

import pytest

import syncline
from experiments.harness.case import Case
from experiments.harness.processes import LostError
from experiments.harness.store import Store
from syncline.plans import plan, receive, send
from tests.conftest import RING, SLOW


@pytest.fixture
def ring(tmp_path):
    (tmp_path / "ring.yaml").write_text(RING, "utf-8")
    return tmp_path / "ring.yaml"


def cases(ring, sizes=(1, 2, 4)):
    return [Case(ring, {"workload.bytes": f"{size}MiB", "report": False}, size) for size in sizes]


def times(results):
    return [result.summary.total_time_s for result in results]


def test_child_processes_give_the_same_results_in_the_requested_order(ring, tmp_path):
    said = []
    beside = Store(tmp_path / "kept", processes=2)
    results = beside.results(cases(ring, (4, 1, 2)), said.append)
    usual = Store().results(cases(ring, (4, 1, 2)), lambda _: None)
    assert times(results) == times(usual)
    assert times(usual)[1] < times(usual)[2] < times(usual)[0]
    assert [result.table("links") for result in results] == [result.table("links") for result in usual]
    assert said == sorted(said)
    assert said[-1] == 1
    assert (beside.effort.simulated, beside.effort.kept) == (3, 0)
    assert 1 << 24 < beside.effort.peak_bytes < 1 << 33, "an interpreter takes more than 16 MiB"


def test_equal_cases_are_simulated_once(ring):
    store = Store()
    one, two = store.results([*cases(ring, (1,)), *cases(ring, (1,))], lambda _: None)
    assert one is two is store.result(cases(ring, (1,))[0])
    assert store.effort.simulated == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_the_next_store_reuses_results(ring, tmp_path, processes):
    first = Store(tmp_path / "kept", processes).results(cases(ring), lambda _: None)
    second = Store(tmp_path / "kept", processes)
    assert times(second.results(cases(ring), lambda _: None)) == times(first)
    assert (second.effort.simulated, second.effort.kept) == (0, 3)
    fresh = Store(tmp_path / "kept", processes, fresh=True)
    assert times(fresh.results(cases(ring), lambda _: None)) == times(first)
    assert (fresh.effort.simulated, fresh.effort.kept) == (3, 0)


def test_damaged_results_are_simulated_again(ring, tmp_path):
    (case,) = cases(ring, (1,))
    usual = Store(tmp_path).result(case)
    (tmp_path / case.name / "summary.json").write_text("{}")
    store = Store(tmp_path)
    assert times([store.result(case)]) == times([usual])
    assert store.effort.simulated == 1
    assert times([Store(tmp_path).result(case)]) == times([usual])


def test_names_depend_on_input_version_and_build(ring, monkeypatch):
    one, two = cases(ring, (1, 2))
    assert one.name == cases(ring, (1,))[0].name
    assert one.name != two.name
    assert one.name.startswith("ring-")
    monkeypatch.setattr(syncline, "__version__", "0.0.0")
    assert one.name != Case(one.scenario, one.changes).name, "another version may simulate something else"
    monkeypatch.undo()
    monkeypatch.setattr(syncline, "__build__", "another", raising=False)
    assert one.name != Case(one.scenario, one.changes).name, "and so may another build"


def test_names_depend_on_the_content_of_files(ring, tmp_path):
    def saved(first):
        def program(rank, _):
            return [send(1, block=0), send(2, block=0)][:: 1 if first else -1] if rank == 0 else [receive(0, block=0)]

        return plan("two", "broadcast", 3, program, blocks=1).save(tmp_path / "plan.json")

    changes = {
        "workload": {"collective": "broadcast", "bytes": "1MiB"},
        "fabric": {"shape": "Switch(3)", "rate": "25GB/s", "latency": "1us"},
        "collectives": {"plans": {"broadcast": str(saved(first=True))}},
    }
    before = Case(ring, changes).name
    assert Case(ring, changes).name == before
    saved(first=False)
    assert Case(ring, changes).name != before


@pytest.mark.parametrize("processes", [1, 2])
def test_runs_stopped_by_a_limit_are_not_reused(ring, tmp_path, processes):
    case = Case(ring, {"limits.events": 10, "report": False})
    for _ in range(2):
        store = Store(tmp_path / "kept", processes)
        (result,) = store.results([case], lambda _: None)
        assert result.summary.ended == "limit_reached"
        assert (store.effort.simulated, store.effort.kept) == (1, 0)


def test_errors_of_child_processes_are_raised(ring, tmp_path):
    bad = Case(ring, {"collectives": {"plans": {"all_reduce": str(tmp_path / "plan.json")}}})
    (tmp_path / "plan.json").write_text(json.dumps({"name": "no plan"}))
    with pytest.raises(syncline.SynclineError, match="the file is not a plan"):
        Store(tmp_path / "kept", processes=2).results([*cases(ring), bad], lambda _: None)
    assert not multiprocessing.active_children()


def test_a_killed_process_is_reported(tmp_path):
    (tmp_path / "slow.yaml").write_text(SLOW, "utf-8")

    def kill():
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        children[0].kill()

    threading.Thread(target=kill).start()
    many = [Case(tmp_path / "slow.yaml", {"seed": seed}) for seed in range(2)]
    with pytest.raises(LostError, match=rf"simulated slow was killed by signal {signal.SIGKILL:d}; memory may be too"):
        Store(tmp_path / "kept", processes=2).results(many, lambda _: None)
    assert not multiprocessing.active_children()


def test_results_of_changed_input_are_not_stored_under_the_old_name(ring, tmp_path):
    (case,) = cases(ring, (1,))
    assert case.name
    ring.write_text(RING.replace("1us", "2us"), "utf-8")
    with pytest.raises(LostError, match="status 9: syncline, or a file of the scenario, has changed"):
        Store(tmp_path / "kept", processes=2).results([case], lambda _: None)
    assert not list(tmp_path.glob("kept/*"))

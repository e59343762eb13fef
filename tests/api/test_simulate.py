"""``syncline.simulate`` and its result."""

from __future__ import annotations

import copy
import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest

import syncline
from tests.conftest import RING, ROOT

WORKLOAD = {"collective": "all_reduce", "bytes": "1MiB"}
FABRIC = {"dims": [{"name": "ring", "shape": "ring", "size": 4, "rate": "25GB/s", "latency": "1us"}]}


@pytest.fixture
def result() -> syncline.Result:
    return syncline.simulate(workload=WORKLOAD, fabric=FABRIC, network="queued")


def test_a_file_and_a_mapping_give_the_same_result(result: syncline.Result, tmp_path: Path) -> None:
    path = tmp_path / "ring.yaml"
    path.write_text(RING)
    assert syncline.simulate(path).summary == syncline.simulate(str(path)).summary == result.summary


def test_arguments_override_values_of_the_file(result: syncline.Result, tmp_path: Path) -> None:
    path = tmp_path / "ring.yaml"
    path.write_text(RING)
    faster = syncline.simulate(path, set={"fabric.dims.ring.rate": "50GB/s"})
    assert faster.summary.step_time_s < result.summary.step_time_s
    assert syncline.simulate(path, network="analytical").summary.network_model == "analytical"


def test_an_all_reduce_on_a_ring_takes_the_time_of_the_closed_form() -> None:
    """Thakur et al. 2005: 2 (N - 1) steps; each takes one latency and the time of one N-th of the vector."""
    one_way = {**FABRIC["dims"][0], "direction": "one-way"}
    found = syncline.simulate(
        workload=WORKLOAD, fabric={"dims": [one_way]}, collectives={"chunks": 1}, network="queued"
    )
    steps = 2 * 3
    assert found.summary.total_time_s == pytest.approx(steps * (1e-6 + (1 << 20) / 4 / 25e9), rel=1e-9)


def test_every_column_of_every_table_has_a_meaning(result: syncline.Result) -> None:
    assert list(result.tables) == ["layers", "collectives", "phases", "links", "ranks", "activity", "critical_path"]
    for name in result.tables:
        columns = result.table(name)
        assert len({len(values) for values in columns.values()}) == 1
        assert result.meanings(name).keys() == columns.keys()
    assert result.table("collectives")["kind"] == ["all_reduce"]


def test_an_unknown_table_suggests_the_nearest_name(result: syncline.Result) -> None:
    with pytest.raises(KeyError, match="Did you mean 'layers'"):
        result.table("layer")


def test_a_table_converts_to_a_pandas_frame(result: syncline.Result) -> None:
    pandas = pytest.importorskip("pandas")
    frame = result.frame("links")
    assert isinstance(frame, pandas.DataFrame)
    assert frame["carried_bytes"].sum() == result.summary.bytes


def test_a_frame_without_pandas_and_polars_is_refused(result: syncline.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncline.run.find_spec", lambda _: None)
    with pytest.raises(ImportError, match="needs pandas or polars"):
        result.frame("links")


def test_a_saved_result_loads_unchanged(result: syncline.Result, tmp_path: Path) -> None:
    files = result.save(tmp_path / "run")
    assert set(files) == {path.name for path in (tmp_path / "run").iterdir()}
    loaded = syncline.Result.load(tmp_path / "run")
    assert loaded.summary == result.summary
    for name in result.tables:
        assert loaded.table(name) == result.table(name)
        assert loaded.meanings(name) == result.meanings(name)
    loaded.save(tmp_path / "copy")
    assert syncline.Result.load(tmp_path / "copy").summary == result.summary


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(syncline.SynclineError) as caught:
        syncline.Result.load(tmp_path)
    assert caught.value.exit_status == 3


def test_two_runs_write_equal_bytes(tmp_path: Path) -> None:
    def digests(folder: Path) -> dict[str, str]:
        syncline.simulate(workload=WORKLOAD, fabric=FABRIC, network="queued").save(folder)
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}

    first = digests(tmp_path / "one")
    assert first == digests(tmp_path / "two")
    assert {"manifest.json", "summary.json", "layers.parquet", "scenario.resolved.yaml"} <= first.keys()


def test_a_result_is_shown_as_text_and_in_a_notebook(result: syncline.Result) -> None:
    assert repr(result).startswith("<Result: ")
    assert "Bottleneck: " in str(result)
    assert result._repr_html_().startswith("<iframe")


def test_a_run_stopped_by_a_limit_has_partial_results() -> None:
    found = syncline.simulate(
        workload={**WORKLOAD, "iterations": 1000}, fabric=FABRIC, network="queued", limits={"sim_time": "1ms"}
    )
    assert found.summary.ended == "limit_reached"
    assert 0 < found.summary.total_time_s <= 1e-3
    assert [each["code"] for each in found.warnings] == ["SL0502"]


def test_check_returns_the_errors() -> None:
    assert syncline.check(workload=WORKLOAD, fabric=FABRIC) == []
    (found,) = syncline.check(workload=WORKLOAD, fabric=FABRIC, placement=[0, 1, 2, 2])
    assert found["code"] == "SL0203"


def test_all_errors_of_a_mapping_are_raised_at_once() -> None:
    with pytest.raises(syncline.SynclineError) as caught:
        syncline.simulate(workload={"collective": "all_reduce", "bytes": 5}, fabric=FABRIC, netwrk="queued")
    assert [each["code"] for each in caught.value.diagnostics] == ["SL0104", "SL0101"]
    assert caught.value.exit_status == 2
    assert "did you mean `network`?" in str(caught.value)


@pytest.mark.parametrize("given", [None, 5, {}, {"workload": None}, {"fabric": {"dims": []}}, {"workload": [1]}])
def test_input_that_is_not_a_scenario_is_refused(given: object) -> None:
    with pytest.raises((syncline.SynclineError, TypeError)):
        syncline.simulate(given)  # type: ignore[arg-type]


def test_a_run_is_repeated_from_its_folder_in_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def digests(folder: Path) -> dict[str, str]:
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}

    (tmp_path / "job" / "plans").mkdir(parents=True)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "far").symlink_to(tmp_path / "elsewhere" / "deep")
    plan = ROOT / "examples" / "custom-plan" / "plan.json"
    (tmp_path / "job" / "plans" / "own.json").write_bytes(plan.read_bytes())
    scenario = (ROOT / "examples" / "custom-plan" / "scenario.yaml").read_text().replace("plan.json", "plans/own.json")
    (tmp_path / "job" / "scenario.yaml").write_text(scenario)

    monkeypatch.chdir(tmp_path / "job")
    syncline.simulate("scenario.yaml").save("runs/one")
    syncline.simulate("scenario.yaml").save("../far/one")
    resolved = (tmp_path / "job" / "runs" / "one" / "scenario.resolved.yaml").read_text()
    assert "../../plans/own.json" in resolved
    assert str(tmp_path) not in resolved
    for folder, directory, name in (("job/runs/one", tmp_path, "job/runs/one"), ("far/one", tmp_path / "far", "one")):
        before = digests(tmp_path / folder)
        monkeypatch.chdir(directory)
        again = syncline.simulate(name)
        # Changing the working directory before saving does not change the files.
        monkeypatch.chdir(tmp_path / "elsewhere")
        again.save(tmp_path / folder)
        assert digests(tmp_path / folder) == before


def test_absolute_paths_stay_absolute(tmp_path: Path) -> None:
    plan = (ROOT / "examples" / "custom-plan" / "plan.json").as_posix()
    scenario = (ROOT / "examples" / "custom-plan" / "scenario.yaml").read_text().replace("plan.json", plan)
    (tmp_path / "scenario.yaml").write_text(scenario)
    syncline.simulate(tmp_path / "scenario.yaml").save(tmp_path / "run")
    assert plan in (tmp_path / "run" / "scenario.resolved.yaml").read_text()
    assert syncline.check(tmp_path / "run") == []


def test_a_result_in_a_folder_is_pickled_and_copied(result: syncline.Result, tmp_path: Path) -> None:
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="save it into a folder first"):
            attempt(result)
    result.save(tmp_path / "kept")
    loaded = syncline.Result.load(tmp_path / "kept")
    for each in (result, loaded):
        for again in (copy.deepcopy(each), pickle.loads(pickle.dumps(each))):
            assert again.summary == result.summary
            assert again.table("collectives") == result.table("collectives")
            assert (again.scenario, again.folder) == (each.scenario, tmp_path / "kept")


@pytest.mark.parametrize(
    ("arguments", "changes", "told"),
    [
        ((42,), None, "not a scenario"),
        ((["a.yaml"],), None, "not a scenario"),
        ((), ["seed=3"], "wrong type for `set`"),
        ((), {1: 2}, "wrong type for `set`"),
    ],
)
def test_invalid_arguments_are_refused(arguments: Any, changes: Any, told: str) -> None:
    with pytest.raises(syncline.SynclineError, match=told):
        syncline.simulate(*arguments, set=changes)

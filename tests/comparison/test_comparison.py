"""The differences between two runs, in numbers and in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import syncline
from syncline.comparison import pairs
from syncline.comparison.pairs import merge_equal_layers
from tests.comparison.runs import JOB, alone, job, kept
from tests.report.runs import resnet


class TestNumbers:
    def test_parts_add_up_to_the_step(self) -> None:
        found = syncline.compare(job(), job(fabric__dims__ring__rate="50GB/s"))
        step, *parts = found.parts
        assert sum(each.a_s for each in parts) == pytest.approx(step.a_s)
        assert sum(each.difference_s for each in parts) == pytest.approx(step.difference_s)
        assert (step.a_s, step.b_s) == (found.a.summary.step_time_s, found.b.summary.step_time_s)

    def test_parts_of_the_critical_path_add_up(self) -> None:
        found = syncline.compare(job(), job(fabric__dims__ring__rate="50GB/s"))
        assert sum(each.a for each in found.critical_path) == sum(each.b for each in found.critical_path) == 1000
        shares = {each.name: (each.a, each.b) for each in found.critical_path}
        assert shares["ring bytes"][0] > shares["ring bytes"][1] > 0

    def test_steps_of_different_work_are_compared_per_sample(self) -> None:
        a, b = (replace(job().summary) for _ in range(2))
        for each, samples in ((a, 8), (b, 16)):
            object.__setattr__(each, "samples_per_step", samples)
        (pair,) = pairs.per_work(a, b)
        assert (pair.name, pair.a_s, pair.b_s) == ("a sample", a.step_time_s / 8, b.step_time_s / 16)

    def test_layers_account_for_the_whole_difference(self) -> None:
        found = syncline.compare(job(), job(fabric__dims__ring__rate="50GB/s"))
        assert sum(each.share or 0.0 for each in found.layers) == pytest.approx(1.0, rel=1e-4)
        assert found.layers[0].name == "second"
        differences = [abs(each.difference_s) for each in found.layers]
        assert differences == sorted(differences, reverse=True)

    def test_swapping_the_runs_negates_the_differences(self) -> None:
        a, b = job(), job(fabric__dims__ring__rate="50GB/s")
        there, back = syncline.compare(a, b), syncline.compare(b, a)
        assert [each.difference_s for each in there.parts] == [-each.difference_s for each in back.parts]
        assert {each.name: each.difference_s for each in there.layers} == {
            each.name: -each.difference_s for each in back.layers
        }

    def test_layers_that_only_one_run_has_are_marked(self) -> None:
        fewer = syncline.simulate(JOB, set={"workload.layers": JOB["workload"]["layers"][:2]})
        found = {each.name: each for each in syncline.compare(job(), fewer).layers}
        assert [found[name].only for name in ("first", "second", "third")] == ["", "", "a"]
        assert found["third"].compute.b_s == 0

    def test_similar_layers_are_merged_and_their_sum_is_kept(self) -> None:
        found = syncline.compare(resnet(), _transformer())
        groups = merge_equal_layers(found.layers, found.step.difference_s)
        assert sum(each.count for each in groups) == len(found.layers) > len(groups)
        assert sum(each.difference_s for each in groups) == pytest.approx(
            sum(each.difference_s for each in found.layers)
        )

    def test_delays_match_the_tables(self) -> None:
        found = syncline.compare(alone(), alone("50GB/s"))
        phases = alone().table("phases")
        first = next(each for each in found.phases if each.name.startswith("P1 "))
        row = phases["phase"].index(1)
        assert first.network.a_s == pytest.approx(phases["network_delay_s"][row])
        assert first.queue.a_s == pytest.approx(phases["queue_delay_s"][row])

    def test_dimensions_match_the_summaries(self) -> None:
        a, b = job(), job(fabric__dims__ring__rate="50GB/s")
        found = syncline.compare(a, b)
        assert [each.utilization for each in found.dimensions] == [
            (one.utilization, other.utilization) for one, other in zip(a.summary.dims, b.summary.dims, strict=True)
        ]


def _transformer() -> syncline.Result:
    from tests.conftest import ROOT

    return syncline.simulate(ROOT / "examples" / "transformer-hybrid" / "scenario.yaml")


class TestAnswer:
    def test_the_answer_names_the_faster_run_the_reason_and_the_change(self) -> None:
        answer = syncline.compare(job(), job(fabric__dims__ring__rate="50GB/s")).answer
        assert answer == (
            "B is 1.2x faster: a step takes 182.6 us instead of 219.8 us. All of that is exposed communication, which"
            " fell from 197.3 us to 160.1 us, all of it for second, first and third. The inputs differ in"
            " fabric.dims.ring.rate (25GB/s -> 50GB/s)."
        )

    def test_a_slower_run_is_called_slower(self) -> None:
        answer = syncline.compare(job(fabric__dims__ring__rate="50GB/s"), job()).answer
        assert answer.startswith("B is 1.2x slower: ")
        assert "which rose from" in answer

    def test_a_small_difference_is_given_in_per_cent(self) -> None:
        answer = syncline.compare(job(), job(fabric__dims__ring__rate="26GB/s")).answer
        assert answer.startswith("B is 1.3 % faster: ")

    def test_a_difference_in_compute_is_named_with_its_layer_and_key(self) -> None:
        answer = syncline.compare(job(), job(workload__layers__third__forward="500us")).answer
        assert "Nearly all of that is compute" in answer or "All of that is compute" in answer
        assert "for third" in answer
        assert "workload.layers.third.forward" in answer

    def test_less_communication_is_said_to_make_up_for_more_compute(self) -> None:
        changed = {"workload__layers__third__forward": "500us", "fabric__dims__ring__rate": "50GB/s"}
        answer = syncline.compare(job(), job(**changed)).answer
        assert "The reason is compute, which rose from" in answer
        assert "less exposed communication makes up for some of that" in answer

    def test_runs_of_communication_alone_are_compared_by_their_delays(self) -> None:
        answer = syncline.compare(alone(), alone("50GB/s")).answer
        assert answer.startswith("B is 1.")
        assert "the communication takes" in answer
        assert "Delays differ most in P" in answer

    def test_without_a_complete_step_neither_is_faster(self) -> None:
        cut = syncline.simulate(JOB, limits={"events": 100})
        answer = syncline.compare(job(), cut).answer
        assert cut.summary.iterations == 0
        assert answer.startswith("It is not known which of them is faster. Stopped before a step was complete: B after")
        assert "faster:" not in answer

    def test_identical_runs_are_reported_as_the_same(self) -> None:
        found = syncline.compare(job(), syncline.simulate(JOB))
        assert found.identical
        assert found.changes == ()
        assert found.answer == ("A and B are the same in every number: a step takes 219.8 us. The inputs are the same.")

    def test_identical_runs_with_different_names_differ_in_name_only(self) -> None:
        found = syncline.compare(job(), job(name="other"))
        assert found.identical
        assert found.answer.endswith("The inputs are the same, except for name.")

    def test_a_change_without_effect_is_said_to_make_no_difference(self) -> None:
        found = syncline.compare(job(), job(seed=7))
        assert found.identical
        assert found.answer.endswith("The inputs differ in seed (0 -> 7); that made no difference.")

    def test_changes_of_a_model_are_not_listed_layer_by_layer(self) -> None:
        from tests.conftest import ROOT

        scenario = ROOT / "examples" / "transformer-hybrid" / "scenario.yaml"
        found = syncline.compare(_transformer(), syncline.simulate(scenario, set={"workload.batch_per_npu": 16}))
        assert "The inputs differ in workload.batch_per_npu (32 -> 16) and 16 keys of workload.layers." in found.answer


class TestWarnings:
    def warnings(self, a: syncline.Result, b: syncline.Result) -> str:
        return " ".join(syncline.compare(a, b).warnings)

    def test_a_different_rate_gives_no_warning(self) -> None:
        assert self.warnings(job(), job(fabric__dims__ring__rate="50GB/s")) == ""

    def test_different_numbers_of_ranks_give_a_warning(self) -> None:
        assert "A has 8 ranks and B 4" in self.warnings(job(), job(fabric__dims__ring__size=2))

    def test_different_jobs_give_a_warning(self) -> None:
        told = self.warnings(resnet(), _transformer())
        assert "A step does different work: 1024 samples in A and 128 in B" in told

    def test_a_job_of_communication_alone_gives_a_warning(self) -> None:
        assert "a job of communication alone" in self.warnings(job(), alone())

    def test_a_run_that_was_cut_short_gives_a_warning(self) -> None:
        cut = syncline.simulate(JOB, limits={"events": 100})
        text = self.warnings(job(), cut)
        assert "B was cut short. A limit was reached: all numbers describe the time before it." in text

    def test_different_network_models_give_a_warning(self) -> None:
        assert "The network models differ, queued and analytical" in self.warnings(job(), job(network="analytical"))

    def test_different_numbers_of_iterations_give_a_warning(self) -> None:
        assert "A is a mean of 2 iterations and B of 3" in self.warnings(job(), job(workload__iterations=3))

    def test_different_versions_give_a_warning(self, tmp_path: Path) -> None:
        kept(job(), tmp_path / "run")
        manifest = tmp_path / "run" / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"version": "', '"version": "9.'))
        found = syncline.compare(job(seed=1), tmp_path / "run")
        assert "B by version 9." in " ".join(found.warnings)
        assert found.facts[0].key == "version"


class TestGiven:
    def test_folders_and_results_give_the_same_answer(self, tmp_path: Path) -> None:
        a, b = job(), job(fabric__dims__ring__rate="50GB/s")
        kept(a, tmp_path / "a")
        kept(b, tmp_path / "b")
        answers = {
            syncline.compare(one, other).answer
            for one in (a, tmp_path / "a", str(tmp_path / "a"), tmp_path / "a" / "summary.json")
            for other in (b, tmp_path / "b", syncline.Result.load(tmp_path / "b"))
        }
        assert len(answers) == 1

    @pytest.mark.parametrize("same", ["a", "a/", "a/../a", "a/manifest.json"])
    def test_comparing_a_folder_with_itself_is_refused(self, same: str, tmp_path: Path) -> None:
        kept(job(), tmp_path / "a")
        with pytest.raises(syncline.SynclineError, match="a run is compared with itself"):
            syncline.compare(tmp_path / "a", f"{tmp_path}/{same}")

    def test_comparing_a_result_with_itself_is_refused(self) -> None:
        with pytest.raises(syncline.SynclineError, match="a run is compared with itself"):
            syncline.compare(job(), job())

    def test_results_without_a_scenario_have_unknown_changes(self) -> None:
        found = syncline.compare(job(), syncline.Result(job(seed=1)._tables))
        assert found.changes is None
        assert "is not known" in found.answer
        assert found.json()["inputs"] is None


class TestJson:
    def test_json_has_the_documented_keys(self) -> None:
        found: dict[str, Any] = syncline.compare(job(), job(fabric__dims__ring__rate="50GB/s")).json()
        assert set(found) == {
            "answer",
            "identical",
            "warnings",
            "a",
            "b",
            "parts",
            "per_work",
            "critical_path",
            "cost_and_performance",
            "inputs",
            "dimensions",
            "layers",
            "collectives",
            "phases",
            "facts",
        }
        json.dumps(found, allow_nan=False)

    def test_json_is_the_same_every_time(self) -> None:
        a, b = job(), job(fabric__dims__ring__rate="50GB/s")
        assert json.dumps(syncline.compare(a, b).json()) == json.dumps(syncline.compare(a, b).json())

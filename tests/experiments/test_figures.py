"""Every figure runs, judges all its claims, and is drawn."""

from __future__ import annotations

import csv
import json

import pytest

import syncline
from experiments.harness import files, library
from experiments.harness.study import study
from tests.experiments.conftest import EXPERIMENTS, figures_with_slow_ones, quickly, title

each_figure = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=title)


@each_figure
def test_every_claim_is_judged(experiment):
    done = quickly(experiment.paper, experiment.name)
    assert [verdict.claim for verdict in done.verdicts] == list(experiment.claims)
    for verdict in done.verdicts:
        assert any(letter.isdigit() for letter in verdict.measured), "a verdict quotes numbers"
        assert verdict.why


@each_figure
def test_scenarios_of_a_figure_are_valid(experiment):
    for scenario in experiment.folder.glob("*.yaml"):
        assert syncline.check(scenario) == []
        assert scenario.read_text("utf-8").startswith("# yaml-language-server: $schema=../../../syncline.schema.json\n")


@pytest.mark.parametrize("experiment", library.find("astra2020", []), ids=title)
def test_links_of_a_figure_match_table_iv(experiment):
    """Except in figures about links: Figures 10 and 11 have other rates of local links."""
    free = {"fig10": {"local"}, "fig11": {"local"}}.get(experiment.name, set())
    for scenario in experiment.folder.glob("*.yaml"):
        fabric = syncline.simulate(scenario, set={"workload": {"collective": "all_reduce", "bytes": "1KiB"}}).scenario
        for dim in fabric["fabric"]["dims"]:
            assert dim["efficiency"] == 0.94
            if dim["name"] in free:
                continue
            rate, latency = ("200GB/s", "90ns") if dim["name"] == "local" else ("25GB/s", "200ns")
            assert (dim["rate"], dim["latency"]) == (rate, latency)


@pytest.mark.parametrize("experiment", figures_with_slow_ones(quick=True))
def test_the_files_are_the_same_every_time(experiment, tmp_path):
    pytest.importorskip("matplotlib")
    runs = []
    again = study(experiment, quick=True)
    for name, done in (("first", quickly(experiment.paper, experiment.name)), ("second", again)):
        folder = files.save(done, tmp_path / name, pictures=True)
        runs.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert runs[0] == runs[1]
    assert {f"{experiment.name}.svg", f"{experiment.name}.png", "result.json"} <= set(runs[0])
    assert all(len(content) > 5000 for name, content in runs[0].items() if name.endswith(("svg", "png")))


@each_figure
def test_files_contain_the_tables_that_people_see(experiment, tmp_path):
    done = quickly(experiment.paper, experiment.name)
    folder = files.save(done, tmp_path, pictures=False)
    form = json.loads((folder / "result.json").read_text("utf-8"))
    assert [claim["id"] for claim in form["claims"]] == [claim.id for claim in experiment.claims]
    for table in done.tables:
        rows = list(csv.reader((folder / f"{table.name}.csv").read_text("utf-8").splitlines()))
        assert tuple(rows[0]) == table.columns
        assert len(rows) == 1 + len(table.rows)
        assert len(table.shown()) == len(table.rows)


def test_a_figure_may_use_another_network_model():
    (experiment,) = library.find("astra2020", ["9"])
    done = study(experiment, "analytical", quick=True)
    assert (done.network, quickly("astra2020", "fig09").network) == ("analytical", "queued")
    times, usual = (each.findings.table("times") for each in (done, quickly("astra2020", "fig09")))
    assert times.column("alltoall_s") != usual.column("alltoall_s")


def test_names_of_claims_are_unique():
    names = [claim.id for experiment in EXPERIMENTS for claim in experiment.claims]
    assert len(names) == len(set(names))


def test_figures_are_found_by_number_or_name():
    assert [each.name for each in library.find("astra2020", ["9", "fig10", "011"])] == ["fig09", "fig10", "fig11"]
    named = library.find("luo2020", ["6.5", "fig6.10", "fig0610", "tab21"])
    assert [each.name for each in named] == ["fig0605", "fig0610", "fig0610", "tab21"]
    with pytest.raises(library.UnknownError, match="only fig09, fig10"):
        library.find("astra2020", ["8"])
    with pytest.raises(library.UnknownError, match="Did you mean astra2020"):
        library.find("astra202", [])

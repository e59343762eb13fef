"""``syncline compare``."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli


@pytest.fixture
def runs(cli: Cli, ring: str) -> tuple[str, str]:
    assert cli("simulate", ring, "--quiet").returncode == 0
    assert cli("simulate", ring, "--quiet", "--set", "fabric.dims.ring.rate=50GB/s", "--out", "b").returncode == 0
    return "runs/ring", "b"


def test_the_answer_comes_first(cli: Cli, runs: tuple[str, str]) -> None:
    done = cli("compare", *runs)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "A  runs/ring  4 ranks, 1 iteration\n"
        "B  b          4 ranks, 1 iteration\n"
        "\n"
        "B is 1.93x faster: the communication takes 16.83 us instead of 32.46 us. Delays\n"
        "differ most in P1 ring reduce_scatter (ring): a message takes 1.977 us instead\n"
        "of 3.771 us. The inputs differ in fabric.dims.ring.rate (25GB/s -> 50GB/s).\n"
        "\n"
        "              A          B   difference     B / A\n"
    )
    assert "\nfabric.dims.ring.rate   25GB/s   50GB/s\n" in done.stdout


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_output_fits_the_terminal(columns: str, cli: Cli, runs: tuple[str, str]) -> None:
    lines = cli("compare", *runs, COLUMNS=columns).stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)


def test_identical_runs_are_reported_as_the_same(cli: Cli, ring: str, runs: tuple[str, str]) -> None:
    cli("simulate", ring, "--quiet", "--out", "again")
    done = cli("compare", runs[0], "again")
    assert done.stdout.splitlines()[3:] == [
        "A and B are the same in every number: the communication takes 32.46 us. The",
        "inputs are the same.",
    ]


def test_json_has_the_inputs_folders_and_parts(cli: Cli, runs: tuple[str, str]) -> None:
    answer = json.loads(cli("compare", *runs, "--json").stdout)
    assert answer["inputs"][0]["key"] == "fabric.dims.ring.rate"
    assert (answer["a"]["folder"], answer["b"]["folder"]) == runs
    assert answer["parts"][0]["ratio"] < 1


def test_the_output_is_the_same_every_time(cli: Cli, runs: tuple[str, str]) -> None:
    assert cli("compare", *runs).stdout == cli("compare", *runs).stdout


class TestPage:
    def test_the_page_does_not_change_the_output(self, cli: Cli, runs: tuple[str, str]) -> None:
        done = cli("compare", *runs, "--out", "compare.html")
        assert done.stdout == cli("compare", *runs).stdout
        assert done.stderr == "Wrote the comparison to compare.html\n"
        assert (cli.folder / "compare.html").read_text("utf-8").startswith("<!doctype html>")

    def test_the_page_has_the_same_bytes_every_time(self, cli: Cli, runs: tuple[str, str]) -> None:
        for file in ("one.html", "other.html"):
            cli("compare", *runs, "--out", file)
        assert (cli.folder / "one.html").read_bytes() == (cli.folder / "other.html").read_bytes()

    def test_stdout_contains_only_json(self, cli: Cli, runs: tuple[str, str]) -> None:
        json.loads(cli("compare", *runs, "--json", "--out", "compare.html").stdout)

    def test_a_page_in_a_folder_that_does_not_exist_is_refused(self, cli: Cli, runs: tuple[str, str]) -> None:
        done = cli("compare", *runs, "--out", "no/such/folder.html")
        assert done.returncode == 3
        assert "SL0801" in done.stderr


class TestBadInput:
    def test_a_missing_results_folder_is_reported(self, cli: Cli, runs: tuple[str, str]) -> None:
        done = cli("compare", runs[0], "runs/none")
        assert done.returncode == 3
        assert "the results folder does not exist" in done.stderr

    def test_a_folder_without_results_is_refused(self, cli: Cli, runs: tuple[str, str]) -> None:
        done = cli("compare", "runs", runs[0])
        assert done.returncode == 3
        assert "it has no manifest.json" in done.stderr

    def test_a_scenario_instead_of_results_is_refused(self, cli: Cli, ring: str, runs: tuple[str, str]) -> None:
        done = cli("compare", runs[0], ring)
        assert done.returncode == 2
        assert "simulate it with `syncline simulate ring.yaml`, and name the folder of its results" in done.stderr

    @pytest.mark.parametrize("file", ["layers.parquet", "phases.parquet", "scenario.resolved.yaml"])
    def test_a_damaged_file_is_named(self, file: str, cli: Cli, runs: tuple[str, str]) -> None:
        (cli.folder / runs[1] / file).write_bytes(b"damaged")
        done = cli("compare", *runs, "--json")
        assert done.returncode == 3
        (problem,) = json.loads(done.stdout)["diagnostics"]
        assert problem["code"] == "SL0802"
        assert file in problem["place"]["file"]

    def test_a_missing_table_is_refused(self, cli: Cli, runs: tuple[str, str]) -> None:
        (cli.folder / runs[1] / "ranks.parquet").unlink()
        assert cli("compare", *runs).returncode == 3

    @pytest.mark.parametrize("same", ["runs/ring", "runs/ring/", "./runs/ring", "runs/ring/summary.json"])
    def test_comparing_a_run_with_itself_is_refused(self, same: str, cli: Cli, runs: tuple[str, str]) -> None:
        done = cli("compare", runs[0], same)
        assert done.returncode == 2
        assert "a run is compared with itself" in done.stderr

    def test_results_of_a_newer_version_are_refused(self, cli: Cli, runs: tuple[str, str]) -> None:
        manifest = cli.folder / runs[1] / "manifest.json"
        manifest.write_text(manifest.read_text().replace("syncline-results/1", "syncline-results/2"))
        done = cli("compare", *runs)
        assert done.returncode == 3
        assert "the results were written by a newer version" in done.stderr

    def test_results_without_a_scenario_are_compared(self, cli: Cli, runs: tuple[str, str]) -> None:
        """The drop-in for ASTRA-sim writes such results."""
        cli.astra_sim("runs/astra")
        done = cli("compare", runs[0], "runs/astra")
        assert done.returncode == 0, done.stderr
        assert "one of the runs has no scenario" in " ".join(done.stdout.split())
        assert cli("explain", "runs/astra").returncode == 0

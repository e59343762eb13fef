"""``syncline explain``: runs and names of the results. Codes are in ``test_commands``."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli


@pytest.fixture
def run(cli: Cli, ring: str) -> str:
    assert cli("simulate", ring, "--quiet").returncode == 0
    return "runs/ring"


class TestRun:
    def test_a_run_is_explained_in_sections(self, cli: Cli, run: str) -> None:
        done = cli("explain", run)
        assert done.returncode == 0
        assert done.stdout.startswith(
            "ring  runs/ring\n"
            "\n"
            "What was simulated\n"
            "  ring runs one all_reduce of 1MiB and nothing else on 4 ranks.\n"
            "  The cluster has 4 NPUs in 1 dimension: ring, 1 ring of 4, both ways, 25 GB/s\n"
            "  and 1 us per link.\n"
            "  The network model is queued.\n"
        )
        assert "`syncline simulate runs/ring --set KEY=VALUE --out DIR`" in " ".join(done.stdout.split())

    @pytest.mark.parametrize("file", ["manifest.json", "summary.json"])
    def test_a_run_may_be_given_by_a_file_of_its_folder(self, file: str, cli: Cli, run: str) -> None:
        assert cli("explain", f"{run}/{file}").stdout == cli("explain", run).stdout

    @pytest.mark.parametrize("columns", ["50", "80", "120"])
    def test_the_output_fits_the_terminal(self, columns: str, cli: Cli, run: str) -> None:
        lines = cli("explain", run, COLUMNS=columns).stdout.splitlines()
        assert max(map(len, lines)) <= int(columns)

    def test_json_has_the_sections_and_the_summary(self, cli: Cli, run: str) -> None:
        answer = json.loads(cli("explain", run, "--json").stdout)
        assert set(answer) == {"folder", "version", "sections", "summary", "diagnostics"}
        assert answer["folder"] == run
        assert answer["sections"][0]["title"] == "What was simulated"
        assert answer["summary"]["ranks"] == 4

    def test_a_missing_folder_is_reported(self, cli: Cli) -> None:
        done = cli("explain", "runs/none")
        assert done.returncode == 3
        assert "the results folder does not exist" in done.stderr

    def test_a_folder_without_results_is_refused(self, cli: Cli) -> None:
        cli.write("other/file.txt", "")
        done = cli("explain", "other")
        assert done.returncode == 3
        assert "it has no manifest.json" in done.stderr

    @pytest.mark.parametrize("file", ["phases.parquet", "summary.json", "scenario.resolved.yaml", "report.html"])
    def test_a_damaged_file_is_named(self, file: str, cli: Cli, run: str) -> None:
        (cli.folder / run / file).write_bytes(b"damaged")
        done = cli("explain", run)
        assert done.returncode == 3
        assert "SL0802" in done.stderr
        assert file in done.stderr

    def test_a_damaged_manifest_is_reported(self, cli: Cli, run: str) -> None:
        cli.write(f"{run}/manifest.json", "{")
        done = cli("explain", run, "--json")
        assert done.returncode == 3
        assert json.loads(done.stdout)["diagnostics"][0]["code"] == "SL0802"

    def test_a_scenario_instead_of_results_is_refused(self, cli: Cli, ring: str) -> None:
        done = cli("explain", ring)
        assert done.returncode == 2
        assert "simulate it with `syncline simulate ring.yaml`" in done.stderr


class TestNames:
    def test_a_column_is_explained_with_its_unit_and_file(self, cli: Cli) -> None:
        assert cli("explain", "queue_delay_s").stdout == (
            "phases.queue_delay_s  float, in seconds\n"
            "  Mean time of a chunk in the phase's scheduling queue.\n"
            "  Each row is one phase of one collective, over all its ranks and chunks.\n"
            '  It is in phases.parquet. More: docs/explanation/semantics.md, "Delays of a\n'
            '  message".\n'
        )

    def test_a_column_of_several_tables_is_explained_for_each(self, cli: Cli) -> None:
        shown = cli("explain", "exposed_communication_s").stdout
        assert shown.startswith("exposed_communication_s is in 6 places.\n")
        for name in ("summary", "summary.jobs[]", "summary.exposed_by_axis[]", "layers", "ranks", "jobs"):
            assert f"\n{name}.exposed_communication_s  float, in seconds\n" in shown

    def test_a_table_is_explained_with_its_columns(self, cli: Cli) -> None:
        shown = cli("explain", "phases").stdout
        assert shown.startswith("phases.parquet\n  Each row is one phase of one collective")
        assert "\nnetwork_delay_s  float  Mean time of a message from send to arrival\n" in shown

    def test_a_name_takes_precedence_over_a_folder_of_that_name(self, cli: Cli, ring: str) -> None:
        cli("simulate", ring, "--quiet", "--out", "phases")
        assert cli("explain", "phases").stdout.startswith("phases.parquet")
        assert cli("explain", "./phases").stdout.startswith("ring  ")

    def test_json_has_the_type_unit_and_file_of_a_column(self, cli: Cli) -> None:
        answer = json.loads(cli("explain", "phases.queue_delay_s", "--json").stdout)
        assert answer["name"] == "phases.queue_delay_s"
        (found,) = answer["found"]
        assert (found["type"], found["unit"], found["file"]) == ("float", "seconds", "phases.parquet")

    @pytest.mark.parametrize(
        ("given", "near"),
        [
            ("queue_delay", "queue_delay_s"),
            ("phases.queue_delai_s", "phases.queue_delay_s"),
            ("exposd_fraction", "exposed_fraction"),
        ],
    )
    def test_a_misspelt_name_suggests_the_nearest(self, given: str, near: str, cli: Cli) -> None:
        done = cli("explain", given)
        assert done.returncode == 2
        assert f"did you mean `{near}`?" in done.stderr

    def test_a_run_without_its_folder_suggests_the_folder(self, cli: Cli, run: str) -> None:
        done = cli("explain", "ring")
        assert done.returncode == 2
        assert f"did you mean `{run}`?" in done.stderr

    def test_an_unknown_name_is_refused(self, cli: Cli) -> None:
        done = cli("explain", "xyzzyx")
        assert done.returncode == 2
        assert "neither a run, nor a name in the results, nor an error code" in done.stderr

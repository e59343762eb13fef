"""Commands that have no test file of their own."""

from __future__ import annotations

import csv
import json
from xml.etree import ElementTree

import pytest

from tests.conftest import RING, ROOT, Cli


class TestCheck:
    def test_a_valid_scenario_is_reported_as_ok(self, cli: Cli, ring: str) -> None:
        done = cli("check", ring)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ring.yaml: ok\n", "")

    def test_an_invalid_scenario_is_reported_with_the_number_of_errors(self, cli: Cli, ring: str) -> None:
        wrong = cli.write("wrong.yaml", RING.replace("ring, size: 4", "ring, size: 4.5, x: 1"))
        done = cli("check", ring, wrong)
        assert done.returncode == 1
        assert done.stdout == "ring.yaml: ok\n"
        assert "SL0101" in done.stderr
        assert done.stderr.endswith("\nwrong.yaml: 2 errors\n1 of 2 scenarios are valid\n")

    def test_an_error_shared_by_two_parts_of_a_fabric_is_reported_once(self, cli: Cli) -> None:
        fabric = "fabric: { torus: 1x2x2, package: { rate: 0GB/s } }\n"
        wrong = cli.write("wrong.yaml", "workload: { collective: all_reduce, bytes: 1MiB }\n" + fabric)
        done = cli("check", wrong)
        assert done.stderr.count("error[") == 1
        assert done.stderr.endswith("wrong.yaml: 1 error\n")

    def test_a_folder_is_accepted_only_if_it_holds_results(self, cli: Cli, ring: str) -> None:
        done = cli("check", ".")
        assert done.returncode == 3
        assert done.stderr.startswith(
            "error[SL0105]: this folder holds no results: it has no scenario.resolved.yaml\n--> .\n"
            " = help: name a file, such as ring.yaml\n"
        )
        cli("simulate", ring)
        assert cli("check", "runs/ring").returncode == 0

    def test_an_error_that_the_core_finds_has_its_line(self, cli: Cli) -> None:
        wrong = cli.write("wrong.yaml", RING + "placement: [0, 0, 1, 2]\n")
        done = cli("check", wrong)
        assert done.returncode == 1
        assert "wrong.yaml:6:" in done.stderr

    def test_a_missing_file_is_refused(self, cli: Cli) -> None:
        assert cli("check", "none.yaml").returncode == 3

    def test_json_lists_every_file_with_its_outcome(self, cli: Cli, ring: str) -> None:
        answer = json.loads(cli("check", ring, "none.yaml", "--json").stdout)
        assert answer["exit_status"] == 3
        assert [each["ok"] for each in answer["files"]] == [True, False]


class TestShow:
    @pytest.mark.parametrize("columns", ["0", "20"])
    def test_a_narrow_screen_loses_no_text(self, columns: str, cli: Cli) -> None:
        scenario = str(ROOT / "examples/transformer-hybrid/scenario.yaml")
        for command in (["simulate", "-q"], ["show", "plan"], ["show", "fabric"]):
            done = cli(command[0], *command[1:], scenario, COLUMNS=columns)
            assert done.returncode == 0
            for name in ("node", "cluster"):
                assert f"{name} " in done.stdout
        shown = cli("show", "plan", scenario, COLUMNS=columns).stdout
        assert "phase" in shown
        assert "   888 kB\n" in shown

    def test_a_fabric_is_described_and_drawn(self, cli: Cli, ring: str) -> None:
        assert cli("show", "fabric", ring).stdout == (
            "Ring(4)  4 NPUs, 8 directed links\n"
            "Degree of an NPU 2; diameter 2 links; bisection 50 GB/s each way (50.0 % of what\n"
            "half of the NPUs can send)\n"
            "\n"
            "dimension                     what      link   latency   NPU sends\n"
            "──────────────────────────────────────────────────────────────────\n"
            "ring        1 ring of 4, both ways   25 GB/s      1 us     50 GB/s\n"
            "\n"
            "ring  25 GB/s per link\n"
            "  0───1───2───3\n"
            "  │           │\n"
            "  └───────────┘\n"
        )

    def test_a_switch_and_a_full_mesh_are_drawn(self, cli: Cli, ring: str) -> None:
        shape = "fabric={shape: FC(4)_Switch(16), rate: 25GB/s}"
        shown = cli("show", "fabric", ring, "--set", shape).stdout
        assert shown.endswith(
            "dim1  25 GB/s per link\n"
            "  0   1   2   3\n"
            "  ═════════════  every pair is joined\n"
            "\n"
            "dim2  25 GB/s per link\n"
            "  switch\n"
            "  ┌───┬───┬───┬───┬───┬───┬───┐\n"
            "  0   1   2   3   4   5   …   15\n"
        )

    def test_the_choice_of_switches_and_paths_is_shown(self, cli: Cli, ring: str) -> None:
        dim = "name: node, shape: switch, size: 8, switches: 7, spread: pair, rate: 25GB/s"
        shown = cli("show", "fabric", ring, "--set", f"fabric={{dims: [{{ {dim} }}]}}").stdout
        assert " 8 on 7 switches, chosen by the pair " in shown
        link = "{ from: npu0, to: npu1, rate: 1GB/s }, { from: npu0, to: npu2, rate: 1GB/s }"
        for routing, words in (
            ("shortest", "fewest links, ties to the smaller vertex number"),
            ("[[npu1, npu0, npu2]]", "fewest links, ties to the smaller vertex number; 1 pair by a given path"),
            ("ecmp", "fewest links, ties by a hash of the flow (ecmp, seed 5)"),
            ("{ policy: ecmp, seed: 9 }", "fewest links, ties by a hash of the flow (ecmp, seed 9)"),
        ):
            graph = f"fabric={{ npus: 3, links: [{link}], routing: {routing} }}"
            shown = cli("show", "fabric", ring, "--set", graph, "--set", "seed=5").stdout
            assert shown.splitlines()[1] == f"Routes: {words}"

    def test_a_graph_is_drawn_by_its_links(self, cli: Cli) -> None:
        shown = cli("show", "fabric", str(ROOT / "examples/custom-plan/scenario.yaml")).stdout
        assert shown == (
            "graph  4 NPUs, 6 directed links\n"
            "Routes: fewest links, ties to the smaller vertex number\n"
            "Degree of an NPU 1 to 2; diameter 3 links; bisection 25 GB/s each way (33.3 % of\n"
            "what half of the NPUs can send)\n"
            "\n"
            "  NPU 0 ──── NPU 1  25 GB/s, 500 ns\n"
            "  NPU 1 ──── NPU 2  25 GB/s, 500 ns\n"
            "  NPU 2 ──── NPU 3  25 GB/s, 500 ns\n"
        )

    def test_a_picture_of_a_fabric_shows_every_npu(self, cli: Cli, ring: str) -> None:
        done = cli("show", "fabric", ring, "--svg", "ring.svg")
        assert (done.returncode, done.stderr) == (0, "Wrote the picture to ring.svg\n")
        picture = ElementTree.parse(cli.folder / "ring.svg").getroot()
        circles = [each for each in picture.iter() if each.tag.endswith("circle")]
        assert len(circles) == json.loads(cli("show", "fabric", ring, "--json").stdout)["fabric"]["npus"]

    @pytest.mark.parametrize(
        ("arguments", "status", "message"),
        [
            (["workload", "--svg", "f.svg"], 2, "only a fabric has a picture"),
            (["fabric", "--svg", "no/folder/f.svg"], 3, "cannot be written: no such file or directory"),
            (["fabric", "--svg", "f.svg", "--set", "fabric={ fat_tree: { k: 16, rate: 1GB/s } }"], 2, "too many links"),
        ],
    )
    def test_invalid_requests_for_a_picture_are_refused(
        self, arguments: list[str], status: int, message: str, cli: Cli, ring: str
    ) -> None:
        done = cli("show", arguments[0], ring, *arguments[1:])
        assert done.returncode == status
        assert message in done.stderr

    def test_a_workload_is_shown_with_its_collectives(self, cli: Cli) -> None:
        shown = cli("show", "workload", str(ROOT / "examples/resnet50-torus/scenario.yaml")).stdout
        assert shown.startswith("resnet50  32 ranks, 2 iterations, 54 layers\n")
        assert "all_reduce   data      54   102.2 MB\n" in shown

    def test_layers_have_operations_and_parameters(self, cli: Cli) -> None:
        scenario = str(ROOT / "examples/resnet50-torus/scenario.yaml")
        view = json.loads(cli("show", "workload", scenario, "--json").stdout)["workload"]
        assert len(view["work"]) == view["layers"] == 54
        assert sum(each["parameters"] for each in view["work"]) == 25_557_032
        assert sum(each["flop"] for each in view["work"]) == view["classes"][0]["flop"]
        shown = cli("show", "workload", scenario).stdout
        assert "layer " in shown
        assert "and 46 more layers, which --json lists" in shown

    def test_layers_have_compute_times(self, cli: Cli) -> None:
        text = RING.replace("{ collective: all_reduce, bytes: 1MiB }", "{ model: mlp }")
        scenario = cli.write("mlp.yaml", f"{text}compute: {{ model: roofline, accelerator: H100 }}\n")
        view = json.loads(cli("show", "workload", scenario, "--json").stdout)["workload"]
        spent = sum(each["compute_s"] for each in view["work"])
        assert spent == pytest.approx(view["classes"][0]["compute_s"])
        (head,) = [line for line in cli("show", "workload", scenario).stdout.splitlines() if line.startswith("layer ")]
        assert head.endswith("compute")

    def test_a_plan_is_shown_with_its_phases(self, cli: Cli, ring: str) -> None:
        assert "\n1 ring                     ring       4" in cli("show", "plan", ring).stdout

    @pytest.mark.parametrize("part", ["fabric", "workload", "plan"])
    def test_json_contains_the_requested_part(self, part: str, cli: Cli, ring: str) -> None:
        assert part in json.loads(cli("show", part, ring, "--json").stdout)

    @pytest.mark.parametrize("part", ["fabric", "workload", "plan"])
    def test_every_part_fits_a_narrow_terminal(self, part: str, cli: Cli, ring: str) -> None:
        lines = cli("show", part, ring, COLUMNS="76").stdout.splitlines()
        assert max(len(line) for line in lines) <= 76

    def test_an_unknown_part_is_refused(self, cli: Cli, ring: str) -> None:
        assert cli("show", "fabrics", ring).returncode == 2


class TestInit:
    def test_the_help_names_every_template(self, cli: Cli) -> None:
        shown = " ".join(cli("init", "--help", COLUMNS="300").stdout.split())
        names = [line.split()[0] for line in cli("init", "--list").stdout.splitlines()]
        assert f"The template to copy: {', '.join(names[:-1])} or {names[-1]}." in shown

    def test_the_written_scenario_runs(self, cli: Cli) -> None:
        done = cli("init", "first")
        assert (done.returncode, done.stdout) == (0, "first.yaml\n")
        assert (cli.folder / "syncline.schema.json").is_file()
        assert cli("simulate", "first.yaml").returncode == 0

    def test_every_template_is_valid_and_equals_an_example(self, cli: Cli) -> None:
        names = [line.split()[0] for line in cli("init", "--list").stdout.splitlines()]
        assert names == ["all-reduce-3d", "dlrm", "resnet50-torus", "transformer-hybrid"]
        for name in names:
            assert cli("init", name, "--template", name).returncode == 0
            assert cli("check", f"{name}.yaml").returncode == 0
            example = (ROOT / "examples" / name / "scenario.yaml").read_text("utf-8")
            written = (cli.folder / f"{name}.yaml").read_text("utf-8")
            assert written == example.replace("$schema=../../", "$schema=", 1)

    def test_an_existing_file_is_overwritten_only_with_force(self, cli: Cli, ring: str) -> None:
        done = cli("init", "ring")
        assert done.returncode == 2
        assert "the file exists already" in done.stderr
        assert (cli.folder / ring).read_text() == RING
        assert cli("init", "ring", "--force").returncode == 0

    def test_an_unknown_template_suggests_the_nearest_name(self, cli: Cli) -> None:
        done = cli("init", "--template", "resnet-50-torus")
        assert done.returncode == 2
        assert "did you mean `resnet50-torus`?" in done.stderr

    @pytest.mark.parametrize("name", ["", ".yaml", "folder/"])
    def test_a_file_without_a_name_is_refused(self, name: str, cli: Cli) -> None:
        (cli.folder / "folder").mkdir()
        done = cli("init", name)
        assert done.returncode == 2
        assert "NAME is empty" in done.stderr
        assert not [*cli.folder.rglob(".yaml")]

    def test_a_folder_that_does_not_exist_is_refused(self, cli: Cli) -> None:
        assert cli("init", "no/such/folder").returncode == 3


class TestConvert:
    def test_a_table_is_converted_to_csv_and_json(self, cli: Cli, ring: str) -> None:
        cli("simulate", ring)
        assert cli("convert", "runs/ring/links.parquet", "links.csv").returncode == 0
        rows = list(csv.DictReader((cli.folder / "links.csv").open()))
        assert len(rows) == 8
        assert cli("convert", "runs/ring/links.parquet", "links.json").returncode == 0
        assert len(json.loads((cli.folder / "links.json").read_text())["link"]) == 8

    def test_a_scenario_is_converted_to_its_resolved_form(self, cli: Cli, ring: str) -> None:
        assert cli("convert", ring, "resolved.yaml").returncode == 0
        assert cli("convert", ring, "resolved.json").returncode == 0
        assert cli("simulate", "resolved.yaml").returncode == 0
        assert json.loads((cli.folder / "resolved.json").read_text())["network"] == {"model": "queued"}

    def test_no_file_is_lost(self, cli: Cli, ring: str) -> None:
        for force in ([], ["--force"]):
            done = cli("convert", ring, f"./{ring}", *force)
            assert done.returncode == 2
            assert done.stderr.startswith("error[SL0102]: OUT is the same file as IN\n")
        assert (cli.folder / ring).read_text() == RING
        cli.write("there.json", "mine")
        done = cli("convert", ring, "there.json")
        assert done.returncode == 2
        assert "add --force" in done.stderr
        assert (cli.folder / "there.json").read_text() == "mine"
        assert cli("convert", ring, "there.json", "--force").returncode == 0
        assert json.loads((cli.folder / "there.json").read_text())["name"] == "ring"

    def test_traces_are_written_and_overwritten_only_with_force(self, cli: Cli, ring: str) -> None:
        done = cli("convert", ring, "none/x.et")
        assert done.returncode == 3
        assert "there is no folder none" in done.stderr
        assert not (cli.folder / "none").exists()
        assert cli("convert", ring, "x.et").returncode == 0
        assert cli("convert", ring, "x.et").returncode == 2
        assert cli("convert", ring, "x.et", "--force").returncode == 0

    def test_paths_are_adjusted_to_the_new_folder(self, cli: Cli) -> None:
        cli.write("a/plan.json", (ROOT / "examples/custom-plan/plan.json").read_text())
        cli.write("a/s.yaml", (ROOT / "examples/custom-plan/scenario.yaml").read_text())
        (cli.folder / "b" / "c").mkdir(parents=True)
        assert cli("convert", "a/s.yaml", "b/c/resolved.yaml").returncode == 0
        assert "../../a/plan.json" in (cli.folder / "b/c/resolved.yaml").read_text()
        assert cli("check", "b/c/resolved.yaml").returncode == 0

    def test_a_plan_is_converted_to_and_from_msccl(self, cli: Cli) -> None:
        program = str(ROOT / "crates/formats/src/msccl/testdata/ring_all_reduce.xml")
        assert cli("convert", program, "plan.json").returncode == 0
        assert json.loads((cli.folder / "plan.json").read_text())["kind"] == "all_reduce"
        assert cli("convert", "plan.json", "again.xml").returncode == 0
        assert cli("convert", "again.xml", "again.json").returncode == 0

    def test_a_plan_that_msccl_cannot_express_is_refused(self, cli: Cli) -> None:
        worker = {"streams": [{"ops": [{"op": "send", "to": 2, "block": 0}, {"op": "receive", "from": 2, "block": 0}]}]}
        receives = [{"op": "receive", "from": rank, "block": 0, "reduce": True} for rank in (0, 1)]
        sends = [{"op": "send", "to": rank, "block": 0} for rank in (0, 1)]
        hub = {"streams": [{"ops": [*receives, {"op": "wait"}, *sends]}]}
        plan = {
            "name": "hub",
            "kind": "all_reduce",
            "ranks": 2,
            "helpers": 1,
            "blocks": 1,
            "seats": [worker, worker, hub],
        }
        done = cli("convert", cli.write("plan.json", json.dumps(plan)), "plan.xml")
        assert done.returncode == 2
        assert "MSCCL has no seats that are not ranks" in done.stderr

    def test_a_plan_whose_streams_have_several_peers_is_converted(self, cli: Cli) -> None:
        assert cli("convert", str(ROOT / "examples/custom-plan/plan.json"), "plan.xml").returncode == 0
        assert cli("convert", "plan.xml", "again.json").returncode == 0

    def test_an_invalid_program_is_refused(self, cli: Cli) -> None:
        done = cli("convert", cli.write("bad.xml", "<algo><gpu></algo>"), "x.json")
        assert done.returncode in (2, 3)
        assert "bad.xml" in done.stderr

    def test_an_unknown_conversion_is_refused(self, cli: Cli, ring: str) -> None:
        done = cli("convert", ring, "x.csv")
        assert done.returncode == 2
        assert "no such conversion" in done.stderr
        assert "found `.yaml -> .csv`" in done.stderr

    def test_a_file_without_an_extension_is_refused(self, cli: Cli) -> None:
        assert "found `a file without an ending -> .json`" in cli("convert", cli.write("job", ""), "x.json").stderr
        cli.write("runs/x", "")
        assert "found `a folder -> .csv`" in cli("convert", "runs", "x.csv").stderr


class TestExplain:
    def test_a_code_is_explained_with_its_exit_status(self, cli: Cli) -> None:
        done = cli("explain", "sl0104")
        assert done.stdout.startswith("SL0104: unit missing or unknown\n\nQuantities are strings with a unit")
        assert done.stdout.endswith("exit status 2: wrong usage or configuration.\n")

    @pytest.mark.parametrize("code", ["104", "0104"])
    def test_a_code_may_be_given_by_its_digits(self, code: str, cli: Cli) -> None:
        assert cli("explain", code).stdout.startswith("SL0104: ")

    def test_a_code_that_is_always_a_warning_is_explained_as_one(self, cli: Cli) -> None:
        assert cli("explain", "SL0703").stdout.endswith(
            "This is always a warning: the command continues, and its exit status does not\nchange.\n"
        )

    def test_an_unknown_code_is_refused(self, cli: Cli) -> None:
        done = cli("explain", "SL9999")
        assert done.returncode == 2
        assert "no such code" in done.stderr


class TestDoctor:
    def test_a_working_installation_passes(self, cli: Cli) -> None:
        done = cli("doctor")
        assert done.returncode == 0
        assert "a test simulation gave the known answer" in done.stdout

    def test_json_reports_no_problems_of_a_working_installation(self, cli: Cli) -> None:
        states = {each["state"] for each in json.loads(cli("doctor", "--json").stdout)["findings"]}
        assert states <= {"ok", "absent"}


class TestRoot:
    def test_the_version_is_printed(self, cli: Cli) -> None:
        from syncline import __version__

        assert cli("--version").stdout == f"syncline {__version__}\n"

    def test_an_unknown_command_suggests_the_nearest_name(self, cli: Cli) -> None:
        done = cli("simulat", "x.yaml")
        assert done.returncode == 2
        assert done.stderr.startswith("error[SL0101]: no such command\n")
        assert "did you mean `simulate`?" in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["simulate", "x.yaml", "--max-evnts", "3"], ("SL0101", "no such option", "--max-evnts", "--max-events")),
            (["check", "--nonsense"], ("SL0101", "no such option", "--nonsense", None)),
            (["simulate"], ("SL0103", "missing argument `SCENARIO`", None, None)),
            (["simulate", "x.yaml", "--out"], ("SL0102", "option `--out` requires an argument", None, None)),
            (["simulat", "x.yaml"], ("SL0101", "no such command", "simulat", "simulate")),
            (["show", "fabrik", "x.yaml"], ("SL0102", "value not allowed for `PART`", "fabrik", "fabric")),
        ],
    )
    def test_misuse_is_reported_as_json(self, arguments: list[str], expected: tuple[str | None, ...], cli: Cli) -> None:
        done = cli(arguments[0], "--json", *arguments[1:])
        assert done.returncode == 2
        assert done.stderr.startswith(f"error[{expected[0]}]: {expected[1]}\n")
        answer = json.loads(done.stdout)
        assert answer["exit_status"] == 2
        (problem,) = answer["diagnostics"]
        assert tuple(problem.get(key) for key in ("code", "message", "found", "nearest")) == expected

    @pytest.mark.parametrize(
        "command",
        [
            "simulate",
            "check",
            "show",
            "init",
            "convert",
            "profile",
            "kernels",
            "compare",
            "explain",
            "doctor",
            "astra-sim",
        ],
    )
    def test_every_command_has_help_of_at_most_110_columns(self, command: str, cli: Cli) -> None:
        done = cli(command, "--help")
        assert done.returncode == 0
        assert "Usage:" in done.stdout
        assert max(len(line) for line in done.stdout.splitlines()) <= 110

    def test_a_bug_prints_no_traceback(self, cli: Cli) -> None:
        cli.write(
            "sitecustomize.py",
            "import syncline.cli.commands.explain as e\ndef f(*a, **k): raise RuntimeError('odd')\ne.explain = f\n",
        )
        done = cli("explain", "SL0101", PYTHONPATH=str(cli.folder))
        assert done.returncode == 70
        assert "SL0901" in done.stderr
        assert "RuntimeError: odd" in done.stderr
        assert "Traceback" not in done.stderr

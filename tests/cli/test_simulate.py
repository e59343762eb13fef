"""``syncline simulate``: its output on each stream, and its exit statuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from syncline.api import run
from syncline.config.load import load
from tests.conftest import RING, Cli, on_a_terminal


def test_the_answer_is_on_stdout_and_the_rest_on_stderr(cli: Cli, ring: str) -> None:
    done = cli("simulate", ring)
    assert done.returncode == 0
    assert done.stdout.startswith("ring  4 ranks, 1 iteration\n")
    assert "Bottleneck: " in done.stdout
    assert done.stderr == "Results are in runs/ring\n"
    assert (cli.folder / "runs/ring/manifest.json").is_file()


def piped(cli: Cli, text: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """A command that reads ``text`` from standard input."""
    command = [sys.executable, "-m", "syncline", *arguments]
    return subprocess.run(command, cwd=cli.folder, env=cli.environment(), input=text, capture_output=True, check=False)


def test_a_scenario_is_read_from_standard_input(cli: Cli, ring: str) -> None:
    text = (cli.folder / ring).read_bytes()
    done = piped(cli, text, "simulate", "-")
    assert (done.returncode, done.stderr) == (0, b"Results are in runs/ring\n")
    assert done.stdout.decode() == cli("simulate", ring, "--out", "other").stdout
    assert piped(cli, text, "check", "-").stdout == b"-: ok\n"
    # A scenario without a `name` gets none from a file, either.
    assert b"runs/scenario" in piped(cli, text.replace(b"name: ring\nworkload", b"workload"), "simulate", "-").stderr


def test_errors_name_standard_input(cli: Cli, ring: str) -> None:
    text = (cli.folder / ring).read_bytes()
    wrong = piped(cli, text.replace(b"1MiB", b"1"), "simulate", "-")
    assert wrong.returncode == 2
    assert b" --> standard input:3:" in wrong.stderr
    assert b"the file is empty\n--> standard input" in piped(cli, b"", "check", "-").stderr
    assert b"not UTF-8 text" in piped(cli, b"\xff", "check", "-").stderr
    large = piped(cli, b"#" * (16 * 1024 * 1024 + 1), "check", "-")
    assert (large.returncode, b"larger than 16 MiB" in large.stderr) == (3, True)


def test_json_is_one_object(cli: Cli, ring: str) -> None:
    done = cli("simulate", ring, "--json", "--out", "here")
    answer = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert (answer["exit_status"], answer["folder"]) == (0, "here")
    assert answer["summary"]["ranks"] == 4
    assert answer["diagnostics"] == []


SHAPELESS = """\
workload: { layers: [{ name: a, forward: { flop: 1GFLOP, memory: 1MB } }] }
compute: { model: systolic, memory: 900GB/s }
fabric: { shape: Ring(4), rate: 25GB/s }
"""


def test_warnings_are_printed_once(cli: Cli) -> None:
    scenario = cli.write("s.yaml", SHAPELESS)
    done = cli("simulate", scenario)
    assert (done.returncode, done.stderr.count("warning[")) == (0, 1)
    assert done.stderr.startswith("warning[SL0301]: no layer gives the shapes")
    assert cli("simulate", scenario, "--quiet").stderr == ""
    answer = cli("simulate", scenario, "--json")
    assert answer.stderr.count("warning[") == 1
    assert [each["code"] for each in json.loads(answer.stdout)["diagnostics"]] == ["SL0301"]


def test_warnings_known_before_the_run_are_reported_before_the_first_event(cli: Cli) -> None:
    heard: list[str] = []
    loaded = load(cli.folder / cli.write("s.yaml", SHAPELESS + "limits: { events: 1 }\n"))
    result = run(loaded, lambda *_: heard.append("progress"), lambda found: heard.append(found))
    assert json.loads(heard[0])[0]["code"] == "SL0301"
    # The warning about the end of the run is not known before.
    assert [each["code"] for each in result.warnings] == ["SL0301", "SL0502"]


def test_errors_are_reported_as_json_too(cli: Cli) -> None:
    done = cli("simulate", cli.write("s.yaml", RING.replace("1MiB", "1")), "--json")
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert answer["exit_status"] == 2
    assert answer["diagnostics"][0]["code"] == "SL0104"
    assert answer["diagnostics"][0]["place"]["line"] == 3


def test_quiet_prints_nothing_on_stderr(cli: Cli, ring: str) -> None:
    assert cli("simulate", ring, "-q").stderr == ""


def test_options_change_the_scenario(cli: Cli, ring: str) -> None:
    answers = [
        json.loads(cli("simulate", ring, "--json", *options).stdout)["summary"]
        for options in (["--network", "analytical"], ["--set", "fabric.dims.0.rate=50GB/s"])
    ]
    assert answers[0]["network_model"] == "analytical"
    assert answers[0]["total_time_s"] > answers[1]["total_time_s"]


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["--network", "queud"], 2, "did you mean `queued`?"),
        (["--set", "fabric.dims.0.rate=5"], 2, "--set:1:20"),
        (["--max-events", "zero"], 2, "--max-events:1:1"),
        (["--max-wall", "3"], 2, 'add a unit, such as "3s"'),
        (["--max-sim-time", "3"], 2, 'add a unit, such as "3us"'),
        (["--nonsense"], 2, "error[SL0101]: no such option"),
        (["--max-events", "3"], 5, "SL0502"),
        (["--max-wall", "1ns"], 5, "was reached while building the fabric"),
        (["--out", "ring.yaml"], 3, "SL0801"),
        (["--out", ""], 2, "--out is empty"),
    ],
)
def test_each_outcome_has_its_exit_status(options: list[str], status: int, text: str, cli: Cli, ring: str) -> None:
    done = cli("simulate", ring, *options)
    assert done.returncode == status
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_collectives_that_look_alike_share_a_row(cli: Cli, ring: str) -> None:
    shown = cli("simulate", ring, "--set", "workload.iterations=40").stdout
    assert [line.split("  ")[0] for line in shown.splitlines() if line.startswith("all_reduce")] == ["all_reduce x40"]
    assert "shorter" not in shown


def test_a_missing_file_suggests_the_nearest_name(cli: Cli, ring: str) -> None:
    done = cli("simulate", "rong.yaml")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "did you mean ring.yaml?" in done.stderr


def test_a_limit_gives_valid_results(cli: Cli, ring: str) -> None:
    done = cli("simulate", ring, "--max-events", "10")
    assert done.returncode == 5
    assert "A limit was reached" in done.stdout
    assert json.loads((cli.folder / "runs/ring/summary.json").read_text())["ended"] == "limit_reached"


@pytest.mark.parametrize(
    "change",
    [
        "collectives.plans.all_reduce=huge.json",
        "collectives.plans.all_reduce=huge.xml",
        "fabric={file: huge.csv}",
        "fabric={file: huge.yaml}",
        "workload={astra_text: huge.txt}",
    ],
)
def test_a_huge_file_is_refused_by_its_size(change: str, cli: Cli, ring: str) -> None:
    """A sparse file of a terabyte takes no disk space, but would fill all memory if it were read."""
    name = next(word.strip("}") for word in change.replace("=", " ").split() if "huge" in word)
    with (cli.folder / name).open("wb") as file:
        file.truncate(1 << 40)
    done = cli("simulate", ring, "--set", change)
    assert done.returncode == 3, done.stderr
    assert "larger than" in done.stderr


def test_a_run_without_a_complete_iteration_has_no_step_time(cli: Cli, ring: str) -> None:
    done = cli("simulate", ring, "--max-sim-time", "1us")
    assert done.returncode == 5
    lines = done.stdout.splitlines()
    assert lines[0] == "ring  4 ranks, 0 iterations"
    assert lines[2] == "No iteration was completed: the step time is not known."
    assert lines[4].split() == ["time", "so", "far", "1", "us"]
    assert "the step time is not known" in json.loads((cli.folder / "runs/ring/summary.json").read_text())["notes"][0]


@pytest.mark.parametrize(
    ("parallel", "shown"),
    [
        ("data: all", "data 8"),
        ("tensor: [dim1], data: rest", "tensor 2 x data 4"),
        ("tensor: 4", "tensor 4 x data 2"),
        ("tensor: all, data: none", "tensor 8"),
    ],
)
def test_the_header_shows_the_parallelism(parallel: str, shown: str, cli: Cli) -> None:
    scenario = f"""
workload: {{ model: mlp, parallel: {{ {parallel} }} }}
compute: {{ model: roofline, accelerator: A100 }}
fabric: {{ shape: Ring(2)_Ring(4), rate: 25GB/s }}
"""
    done = cli("simulate", cli.write("job.yaml", scenario))
    assert done.stdout.splitlines()[0] == f"job  mlp, 8 ranks, {shown}, 1 iteration"
    assert json.loads((cli.folder / "runs/job/summary.json").read_text())["parallelism"] == shown


def test_names_never_lead_outside_of_the_folder(cli: Cli) -> None:
    done = cli("simulate", cli.write("s.yaml", RING.replace("name: ring\n", 'name: "../../x y/é"\n')))
    assert done.stderr == "Results are in runs/x-y-é\n"


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_output_fits_the_terminal(columns: int, cli: Cli, ring: str) -> None:
    lines = cli("simulate", ring, COLUMNS=str(columns)).stdout.splitlines()
    assert max(len(line) for line in lines) <= columns


def test_a_terminal_without_unicode_gets_ascii(cli: Cli, ring: str) -> None:
    done = cli("simulate", ring, PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "####" in done.stdout


def test_ctrl_c_saves_the_results_so_far(cli: Cli, slow: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "syncline", "simulate", slow],
        cwd=cli.folder,
        env=cli.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Interrupted: all numbers describe the time before that." in out
    assert "Traceback" not in err
    assert json.loads((cli.folder / "runs/slow/summary.json").read_text())["ended"] == "interrupted"


def test_ctrl_c_before_the_simulation_saves_nothing(cli: Cli) -> None:
    cli.write("sitecustomize.py", "import syncline.config.load as l\ndef f(*a): raise KeyboardInterrupt\nl.load = f\n")
    done = cli("simulate", "x.yaml", "--json", PYTHONPATH=str(cli.folder))
    assert done.returncode == 130
    assert json.loads(done.stdout) == {"exit_status": 130, "diagnostics": []}
    assert done.stderr.endswith("interrupted: no results were saved\n")


def test_ctrl_c_wrapped_by_a_library_is_not_reported_as_a_bug(cli: Cli) -> None:
    wrap = "import os, signal\nimport syncline.config.load as l\ndef f(*a):\n"
    wrap += "    try: os.kill(os.getpid(), signal.SIGINT); signal.sigwait([])\n"
    wrap += "    except KeyboardInterrupt: raise RuntimeError('building failed')\nl.load = f\n"
    cli.write("sitecustomize.py", wrap)
    done = cli("simulate", "x.yaml", PYTHONPATH=str(cli.folder))
    assert done.returncode == 130
    assert done.stderr == "interrupted: no results were saved\n"


@pytest.mark.parametrize("delay", [0.1, 0.15, 0.2, 0.3, 0.4])
def test_ctrl_c_while_modules_are_loaded_is_not_reported_as_a_bug(cli: Cli, slow: str, delay: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "syncline", "simulate", slow],
        cwd=cli.folder,
        env=cli.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    # If our code has not started yet, the interpreter itself handles the signal.
    assert process.returncode == 130 or "syncline/cli" not in err
    assert "internal error" not in err


def test_progress_is_shown_on_a_terminal_after_two_seconds(cli: Cli, slow: str) -> None:
    shown = _on_a_terminal(cli, ["simulate", slow, "--max-wall", "3500ms"])
    assert "% done" in shown
    assert "events/s" in shown


def test_ci_gets_no_progress_and_no_colour(cli: Cli, slow: str) -> None:
    shown = _on_a_terminal(cli, ["simulate", slow, "--max-wall", "2500ms"], CI="1")
    assert "% done" not in shown
    assert "\x1b[" not in shown


def test_colours_are_only_for_terminals(cli: Cli, ring: str) -> None:
    assert "\x1b[" not in cli("simulate", ring, NO_COLOR="").stdout
    assert "\x1b[" in _on_a_terminal(cli, ["simulate", ring])
    assert "\x1b[" not in _on_a_terminal(cli, ["simulate", ring, "--no-color"])
    assert "\x1b[" not in _on_a_terminal(cli, ["simulate", ring], NO_COLOR="1")


def test_a_closed_pipe_is_not_an_error(cli: Cli, ring: str) -> None:
    command = f"'{sys.executable}' -m syncline simulate {ring} | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=cli.folder,
        env=cli.environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stdout == "ring  4 ranks, 1 iteration\n"
    assert "Error" not in done.stderr


def _on_a_terminal(cli: Cli, arguments: list[str], **environment: str) -> str:
    """The output of a command on a terminal."""
    variables = {**cli.environment(TERM="xterm-256color"), **environment}
    if "NO_COLOR" not in environment:
        del variables["NO_COLOR"]
    return on_a_terminal([sys.executable, "-m", "syncline", *arguments], cli.folder, variables)


def test_a_simulation_writes_only_its_results(cli: Cli, ring: str) -> None:
    before = {path.relative_to(cli.folder) for path in cli.folder.rglob("*")}
    cli("simulate", ring, "--out", "out")
    after = {path.relative_to(cli.folder) for path in cli.folder.rglob("*")} - before
    assert {path.parts[0] for path in after} == {"out"}
    assert Path("out/manifest.json") in after

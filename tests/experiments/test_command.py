"""The command line ``python -m experiments``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.harness import command as command_line
from experiments.harness import files
from tests.conftest import ROOT, Cli, on_a_terminal


@pytest.fixture
def command(tmp_path):
    """A function that runs the command from the project's root."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "experiments", *arguments],
            cwd=ROOT,
            env=Cli(tmp_path).environment(),
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )

    return run


def test_a_figure_is_printed_on_the_terminal(command, tmp_path):
    done = command("astra2020", "9", "--quick", "--no-plot", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for said in ("astra2020 fig09", "Models: network queued", "astra-01", "verdict", "why"):
        assert said in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "Files are in" in done.stderr
    assert not list(tmp_path.rglob("*.png"))


def test_several_figures_end_with_all_verdicts(command, tmp_path):
    done = command("astra2020", "9", "11", "--quick", "--no-plot", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "of 4 claims hold" in done.stdout


def test_json_is_one_object(command, tmp_path):
    done = command(
        "astra2020", "9", "--quick", "--no-plot", "--json", "--network", "analytical", "--out", str(tmp_path)
    )
    (experiment,) = json.loads(done.stdout)["experiments"]
    assert experiment["network"] == "analytical"
    assert {"id", "claim", "measured", "holds", "why"} <= set(experiment["claims"][0])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["astra2021"], "Did you mean astra2020?"),
        (["astra2020", "fig99"], "there is no figure 'fig99'"),
        (["astra2020", "9", "--network", "queud"], "only queued, analytical, packet"),
        (["dlrm2020", "7", "--network", "queued"], "fig07 does not support the network model 'queued', only packet"),
        (["astra2020", "--sloow"], "No such option"),
    ],
)
def test_bad_input_is_reported(command, tmp_path, arguments, said):
    done = command(*arguments, "--quick", "--no-plot", "--out", str(tmp_path))
    assert done.returncode == 2
    # The message is in a box, which wraps it.
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_refused(command, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = command("astra2020", "9", "--quick", "--no-plot", "--out", str(file))
    assert done.returncode == 3
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_says_what_is_saved(tmp_path):
    arguments = [sys.executable, "-m", "experiments", "astra2020", "9", "17", "--no-plot", "--out", str(tmp_path)]
    running = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert "fig09" in running.stderr.readline()  # printed when Figure 9 is finished; 17 takes seconds
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said.startswith("interrupted: 1 of 2 figures are saved")
    assert "Traceback" not in said


def test_without_matplotlib_the_other_files_are_written(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(files, "find_spec", lambda _: None)
    command_line.run("astra2020", ["9"], out=tmp_path, quick=True)
    assert "No pictures: matplotlib is not installed" in capsys.readouterr().err
    assert sorted(path.suffix for path in Path(tmp_path).rglob("fig09/*.*")) == [".csv", ".json"]


def test_the_next_command_reuses_results(command, tmp_path):
    first = command("astra2020", "9", "--quick", "--no-plot", "--out", str(tmp_path))
    again = command("astra2020", "9", "--quick", "--no-plot", "--out", str(tmp_path))
    fresh = command("astra2020", "9", "--quick", "--no-plot", "--fresh", "--out", str(tmp_path))
    assert again.stdout == first.stdout == fresh.stdout
    runs = first.stderr.splitlines()[-1].partition(" runs in ")[0]
    assert int(runs) > 0
    assert again.stderr.splitlines()[-1] == f"{runs} results reused"
    assert fresh.stderr.splitlines()[-1].startswith(f"{runs} runs in ")


def test_an_interrupted_command_continues_where_it_stopped(command, tmp_path):
    arguments = ["dlrm2020", "8", "--quick", "--no-plot", "--jobs", "2", "--out", str(tmp_path)]
    running = subprocess.Popen(
        [sys.executable, "-m", "experiments", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(tmp_path.glob("kept/[!.]*/manifest.json")):
        assert running.poll() is None
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said.startswith("interrupted: 0 of 1 figures are saved, and every finished run")
    assert len(said.splitlines()) == 1, "child processes print nothing"
    with pytest.raises(ProcessLookupError):
        for _ in range(500):  # a helper process of Python ends a moment after its parent
            os.killpg(running.pid, 0)
            time.sleep(0.01)
    kept = len(list(tmp_path.glob("kept/[!.]*/manifest.json")))
    done = command(*arguments)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        rf"{12 - kept} runs? in .*, at most \d+ MiB each; {kept} results? reused", done.stderr.splitlines()[-1]
    )


IMPATIENT = """
from experiments.harness import command
from syncline.terminal import progress

progress.PATIENCE_S = 0.0
command.main()
"""
"""The command with progress shown from the start; a fast machine would finish before it is shown otherwise."""


def test_progress_is_shown_on_a_terminal(tmp_path):
    arguments = ["dlrm2020", "8", "--quick", "--no-plot", "--jobs", "1", "--out", str(tmp_path)]
    variables = {**Cli(tmp_path).environment(TERM="xterm-256color")}
    shown = on_a_terminal([sys.executable, "-c", IMPATIENT, *arguments], ROOT, variables)
    assert re.search(r"[1-9]\d?\.\d % done, (\d min )?\d+ s left, fig08", shown)

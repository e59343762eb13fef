"""``python -m experiments``, as people call it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.harness import command as command_line
from experiments.harness import files
from tests.conftest import ROOT, Cli


@pytest.fixture
def command(tmp_path):
    """Runs the command from the root; files go to ``tmp_path``."""

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


def test_a_figure_on_the_terminal(command, tmp_path):
    done = command("astra2020", "9", "--quick", "--no-plot", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for said in ("astra2020 fig09", "Obtained by: network queued", "astra-01", "verdict", "why"):
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
        (["astra2020", "9", "--network", "queud"], "queued"),
        (["astra2020", "--sloow"], "No such option"),
    ],
)
def test_bad_input_is_told(command, tmp_path, arguments, said):
    done = command(*arguments, "--quick", "--no-plot", "--out", str(tmp_path))
    assert done.returncode == 2
    # The message stands in a box, whose lines end wherever they are full.
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written(command, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = command("astra2020", "9", "--quick", "--no-plot", "--out", str(file))
    assert done.returncode == 3
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_says_what_is_kept(tmp_path):
    arguments = [sys.executable, "-m", "experiments", "astra2020", "9", "17", "--no-plot", "--out", str(tmp_path)]
    running = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert "fig09" in running.stderr.readline()  # which is written when Figure 9 is done; 17 takes seconds
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said.strip() == "interrupted: 1 of 2 figures are kept"


def test_without_a_library_to_draw_with(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(files, "find_spec", lambda _: None)
    command_line.run("astra2020", ["9"], out=tmp_path, quick=True)
    assert "Without pictures: matplotlib is not installed" in capsys.readouterr().err
    assert sorted(path.suffix for path in Path(tmp_path).rglob("*.*")) == [".csv", ".json"]

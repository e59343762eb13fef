"""``python -m experiments``, as people call it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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

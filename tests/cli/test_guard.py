"""Failures outside of a command: bugs, encodings, a working directory that was removed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from syncline.cli.guard import guarded
from tests.conftest import Cli

NAME = "日本"


def _fails(*_: object, **__: object) -> int:
    raise IndexError("a bug")


def test_a_bug_is_reported_as_one_json_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("syncline.cli.commands.check.check", _fails)
    assert guarded(["check", "x.yaml", "--json"]) == 70
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert answer["exit_status"] == 70
    assert [each["code"] for each in answer["diagnostics"]] == ["SL0901"]
    assert "IndexError: a bug" in printed.err
    assert guarded(["check", "x.yaml"]) == 70
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_name_that_stdout_cannot_encode_is_escaped(encoding: str, cli: Cli, ring: str) -> None:
    for arguments in (["simulate", ring, "--json"], ["simulate", ring], ["check", ring], ["init", NAME]):
        named = [*arguments, "--set", f"name={NAME}"] if arguments[0] != "init" else arguments
        done = subprocess.run(
            [sys.executable, "-m", "syncline", *named],
            cwd=cli.folder,
            env={**cli.environment(PYTHONIOENCODING=encoding), "PYTHONUTF8": "0"},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        if "--json" in arguments:
            assert json.loads(done.stdout.decode(encoding))["folder"] == f"runs/{NAME}"
        if arguments[0] == "init":
            shown = f"{NAME}.yaml\n" if encoding == "utf-8" else "\\u65e5\\u672c.yaml\n"
            assert done.stdout.decode(encoding) == shown


def test_an_argument_that_is_not_utf_8_is_refused(cli: Cli) -> None:
    done = cli("check", "\udcff.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("error[SL0102]: an argument is not UTF-8 text\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a directory that is used cannot be removed there")
def test_a_removed_working_directory_matters_only_if_results_go_there(cli: Cli, ring: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", 'mkdir gone && cd gone && rmdir ../gone && "$@"', "bash", *arguments],
            cwd=cli.folder,
            env=cli.environment(),
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )

    command = (sys.executable, "-m", "syncline", "simulate", str(tmp_path / ring))
    done = run(*command, "--out", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kept" / "summary.json").is_file()
    done = run(*command)
    assert done.returncode == 3
    assert done.stderr.startswith("error[SL0801]: the results cannot be written")

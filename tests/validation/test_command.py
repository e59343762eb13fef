"""``syncline validate runs``, without the arguments of the command line."""

from __future__ import annotations

import json

import pytest

from syncline.cli.commands.validate_runs import RunsOptions, constants, runs
from syncline.errors import ExitStatus, SynclineError
from tests.validation.rows import FOLDER, at_forty_percent, write


def options(file, **more):
    here = {"models": (FOLDER / "models.yaml").as_posix()}
    return RunsOptions(file=file, **here, **more)


def test_it_prints_tables(tmp_path, capsys):
    assert runs(options(write(tmp_path)), at_forty_percent) == ExitStatus.DONE
    assert "1 measured step compared with predictions" in capsys.readouterr().out


def test_it_prints_json(tmp_path, capsys):
    runs(options(write(tmp_path), as_json=True), at_forty_percent)
    found = json.loads(capsys.readouterr().out)
    assert (found["exit_status"], found["worse"]) == (0, [])
    assert found["validation"]["groups"][0]["name"] == "others"


def test_figures_are_written_and_compared(tmp_path, capsys):
    figures = (tmp_path / "figures.json").as_posix()
    file = write(tmp_path)
    assert runs(options(file, figures=figures, update=True), at_forty_percent) == ExitStatus.DONE
    assert runs(options(file, figures=figures), at_forty_percent) == ExitStatus.DONE

    def wrong(run, model, cluster):
        found = at_forty_percent(run, model, cluster)
        return type(found)(found.step_s / 2, found.memory_bytes)

    assert runs(options(file, figures=figures), wrong) == ExitStatus.PROBLEM
    assert "Worse: others: mean" in capsys.readouterr().err


def test_the_page_is_written_once(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.html"
    assert runs(options(write(tmp_path), report=page.as_posix()), at_forty_percent) == ExitStatus.DONE
    assert "<svg" in page.read_text("utf-8")
    with pytest.raises(SynclineError, match="exists already"):
        runs(options(write(tmp_path), report=page.as_posix()), at_forty_percent)
    with pytest.raises(SynclineError, match="not a name of a page"):
        runs(options(write(tmp_path), report="page.txt"), at_forty_percent)


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"vtrain": 3}', "[" * 100_000])
def test_a_file_without_figures_is_refused(tmp_path, text):
    figures = tmp_path / "figures.json"
    figures.write_text(text, "utf-8")
    with pytest.raises(SynclineError, match="not a file of figures"):
        runs(options(write(tmp_path), figures=figures.as_posix()), at_forty_percent)


def test_update_needs_a_file(tmp_path):
    with pytest.raises(SynclineError, match="`--update` needs a file"):
        runs(options(write(tmp_path), update=True), at_forty_percent)


def test_rows_anywhere_have_the_models_of_the_package(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path)
    assert runs(RunsOptions(file=file), at_forty_percent) == ExitStatus.DONE
    # A file beside the rows adds models, and replaces those of the package.
    (tmp_path / "models.yaml").write_text("mine: { hidden: 8 }\n", "utf-8")
    with pytest.raises(SynclineError, match="missing key"):
        runs(RunsOptions(file=file), at_forty_percent)
    (tmp_path / "models.yaml").unlink()
    with pytest.raises(SynclineError, match=r"describe it in a file models.yaml beside the rows"):
        runs(RunsOptions(file=write(tmp_path, model="zzz")), at_forty_percent)


def test_constants_need_rows_that_may_calibrate_them(tmp_path):
    with pytest.raises(SynclineError) as raised:
        constants(write(tmp_path), (tmp_path / "out.yaml").as_posix(), force=False, quiet=True)
    (found,) = raised.value.diagnostics
    assert found["help"] == "write one of a100, fsdp, h100, nanotron into the column `calibrates`"

"""Measuring: what a worker sends becomes rows, and its failures cost one case."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from syncline.kernels import measure as module
from syncline.kernels.measure import MeasureError, Outcome, Request, measure
from syncline.kernels.table import read
from tests.conftest import ROOT, Cli

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

WORKER = """\
import json, os, sys, time
request = json.loads(sys.stdin.readline())
def send(**message):
    print(json.dumps(message), flush=True)
send(facts={{"device": "none"}})
for case in ("one", "two", "three"):
    if case in request["done"]:
        continue
    send(case=case, patience_s=1)
    if case == "two":
        {two}
    send(row={{"operation": case, "seconds": 1.0}})
send(end=True)
"""


def run_worker(two: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **request: object) -> tuple[Outcome, list[str]]:
    """Measures with a worker that runs ``two`` in its second case."""
    script = folder / "worker.py"
    script.write_text(WORKER.format(two=two), "utf-8")
    popen = subprocess.Popen

    def start(command: list[str], **options: object) -> object:
        return popen([sys.executable, str(script)], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(module.subprocess, "Popen", start)
    said: list[str] = []
    return measure(Request(str(folder / "t.csv"), **request), said.append), said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("two", "why"),
    [
        ("os._exit(9)", "the process ended with status 9"),
        ("time.sleep(60)", "no answer for 1 s"),
        ("send(error='device', why='lost'); sys.exit(1)", "lost"),
    ],
)
def test_a_worker_that_fails_costs_one_case(
    two: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, _ = run_worker(two, tmp_path, monkeypatch)
    assert outcome.skipped == {"two": why}
    assert outcome.complete
    assert [row["operation"] for row in read(str(tmp_path / "t.csv")).rows] == ["one", "three"]


def test_a_case_that_no_graph_can_hold_is_measured_again_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = "'x' in request['no_capture'] or (send(no_capture='x', case=case, why='no'), os._exit(1))"
    outcome, said = run_worker(two, tmp_path, monkeypatch)
    assert [row["operation"] for row in read(str(tmp_path / "t.csv")).rows] == ["one", "two", "three"]
    assert outcome.skipped == {}
    assert "starts again without graphs of x: no" in said


def test_a_case_that_captures_in_spite_of_that_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, _ = run_worker("send(no_capture='x', case=case, why='no'); os._exit(1)", tmp_path, monkeypatch)
    assert outcome.skipped == {"two": "no"}
    assert outcome.complete


def test_graphs_are_given_up_where_none_can_be_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = (
        "tried = len(request['no_capture']); "
        "tried > 3 or (send(no_capture=f'x{tried}', case=case, why='no'), os._exit(1)); "
        "send(skipped=case, why=request['no_capture'][-1])"
    )
    outcome, _ = run_worker(two, tmp_path, monkeypatch)
    assert outcome.skipped == {"two": "everything"}


def test_time_that_is_over_leaves_the_rows_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    two = "[(send(case=case, patience_s=60), time.sleep(0.1)) for _ in range(600)]"
    began = time.monotonic()
    outcome, _ = run_worker(two, tmp_path, monkeypatch, seconds=1.0)
    assert time.monotonic() - began < 20
    assert not outcome.complete
    assert [row["operation"] for row in read(str(tmp_path / "t.csv")).rows] == ["one"]


def test_an_existing_file_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("mine", "utf-8")
    with pytest.raises(MeasureError, match="exists"):
        run_worker("pass", tmp_path, monkeypatch)
    assert (tmp_path / "t.csv").read_text("utf-8") == "mine"


def test_a_table_is_replaced_only_when_there_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("mine", "utf-8")
    monkeypatch.setattr(sys.modules[__name__], "WORKER", "{two}")
    with pytest.raises(MeasureError, match="the process ended with status 4"):
        run_worker("import os; os._exit(4)", tmp_path, monkeypatch, force=True)
    assert (tmp_path / "t.csv").read_text("utf-8") == "mine"


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "none" / "t.csv"
    request = Request(str(script))
    monkeypatch.setattr(module._Supervisor, "run", lambda self: self._open({}))
    with pytest.raises(MeasureError, match=r"cannot write .*No such file or directory") as raised:
        measure(request, print)
    assert raised.value.file


def test_measuring_imports_only_the_standard_library() -> None:
    code = (
        "import sys, syncline.kernels.measure, syncline.kernels.worker\n"
        "from syncline.kernels.cases import FAMILIES, plan\n"
        "plan(FAMILIES, quick=False)\n"
        "names = {name.partition('.')[0] for name in sys.modules} - {'syncline', '__main__'}\n"
        "print(sorted(name for name in names - sys.stdlib_module_names if name[0] != '_'))\n"
    )
    # -S: no third-party package can be found at all.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "python")},
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed")
def test_without_pytorch_the_error_says_what_to_install(cli: Cli) -> None:
    done = cli("kernels", "measure", "-o", "t.csv", "--device", "cpu", "--quick")
    assert done.returncode == 2
    assert "PyTorch cannot be imported" in done.stderr
    assert "pip install torch" in done.stderr
    assert not (cli.folder / "t.csv").exists()


def test_unknown_operations_are_named(cli: Cli) -> None:
    done = cli("kernels", "measure", "-o", "t.csv", "--operations", "gemm,atention")
    assert done.returncode == 2
    assert "value not allowed for `--operations`" in done.stderr
    assert "attention" in done.stderr


@needs_torch
def test_every_family_has_rows_on_the_processor(cli: Cli) -> None:
    done = cli("kernels", "measure", "-o", "t.csv", "--device", "cpu", "--quick", "--seconds", "100")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "0 cases skipped" in done.stderr
    table = read(str(cli.folder / "t.csv"))
    assert {"date", "torch", "device", "threads"} <= set(table.facts)
    operations = {row["operation"] for row in table.rows}
    assert operations >= {"gemm", "grouped_gemm", "attention", "adamw", "copy", "launch", "sustained_gemm"}
    assert operations >= {"rms_norm", "cross_entropy", "swiglu", "llama_layers", "gpt_layers"}
    for row in table.rows:
        assert row["seconds"] > 0
        assert row["p10_s"] <= row["seconds"] <= row["p90_s"]
        assert row["launch"] in ("loop", "host")


@needs_torch
@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="no Ctrl-C")
def test_ctrl_c_leaves_the_rows_so_far(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "syncline", "kernels", "measure", "-o", "t.csv", "--device", "cpu", "--seconds", "100"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    file = tmp_path / "t.csv"
    ends = time.monotonic() + 60
    while (
        process.poll() is None
        and time.monotonic() < ends
        and not (file.exists() and file.read_text("utf-8").count("\n") > 20)
    ):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert re.search(r"interrupted: t.csv has the \d+ rows so far", said)
    assert len(read(str(file)).rows) > 5

"""``benches/flow.py``: its output with SimGrid installed, and without."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys

import pytest

from tests.conftest import ROOT

OURS = [
    {"name": "all-to-all of 128 hosts, all sizes different", "flows": 16_256, "cpu_s": 0.94, "dumped": "0.txt"},
    {"name": "65,536 equal flows, fat tree of 1,024 hosts", "flows": 65_536, "cpu_s": 1.0, "dumped": "2.txt"},
    {"name": "a million random flows, fat tree, 16 a host", "flows": 1_000_448, "cpu_s": 61.0, "dumped": None},
    {"name": "close, 0.1 %", "flows": 9, "cpu_s": 1.0, "dumped": None, "worst": 0.008, "median": 0.0001},
    {"name": "few", "flows": 2, "cpu_s": 0.5, "dumped": "5.txt"},
]
DUMPED = "3 1\n12500000000 0.0000005\n0 1 100 2e-6 1 0\n0 2 100 4e-6 1 0\n"


@pytest.fixture
def bench(monkeypatch):
    """The benchmark module, with made-up results of our own runs."""
    # Python puts the folder of a program on its path.
    monkeypatch.syspath_prepend(ROOT / "benches")
    spec = importlib.util.spec_from_file_location("bench_flow", ROOT / "benches" / "flow.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_flow", module)
    spec.loader.exec_module(module)

    def ours(folder, *, everything):
        assert not everything
        (folder / "5.txt").write_text(DUMPED)
        more = {"memory_bytes": 3_000_000, "done_ps": 4_000_000, "worst": None, "median": None}
        return [{**more, **each} for each in OURS]

    monkeypatch.setattr(module, "ours", ours)
    monkeypatch.setattr(sys, "argv", ["flow.py"])
    return module


def test_without_simgrid_it_prints_how_to_install_it_and_recorded_results(bench, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    bench.main()
    out = capsys.readouterr().out
    assert "SimGrid is not installed, so it was not run; to run SimGrid beside it: sudo apt-get install" in out
    assert "Debian's SimGrid" not in out
    first, second = (line for line in out.splitlines() if "SimGrid 4.1 *" in line)
    assert first.split()[-2:] == ["55.0", "x"], "51.7 s to 0.94 s"
    assert second.split()[-2:] == ["75.7", "x"]
    assert "at least 50 x SimGrid 4.1: reached" in out
    assert "at least 100 x SimGrid 4.1: NOT reached" in out
    assert "at most 60 s: NOT reached" in out
    assert "beside those of exact sharing: at most 0.008 apart, half of them at most 0.0001" in out


@pytest.mark.parametrize(("end", "close"), [("4.02e-6", "within 1%"), ("4.2e-6", "not all within 1%")])
def test_with_simgrid_the_end_of_each_flow_is_compared(bench, monkeypatch, capsys, tmp_path, end, close):
    program = tmp_path / "flows"
    said = {"version": "3.32", "flows": 2, "cpu_s": 25.0, "done_s": 4e-6}
    script = f"echo $3 >> {tmp_path}/asked\nprintf '2e-6\\n{end}\\n' > $2\necho '{json.dumps(said)}'\n"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setattr(bench, "PROGRAM", program)
    monkeypatch.setattr(bench, "simgrid", lambda: "3.32")
    bench.main()
    out = capsys.readouterr().out
    lazy, full = (line for line in out.splitlines() if "Debian's SimGrid 3.32, CM02" in line)
    assert lazy.split()[-2:] == full.split()[-2:] == ["50.0", "x"]
    assert out.count(f"ends of flows {close} of it") == 2
    assert (tmp_path / "asked").read_text().split() == ["lazy", "full"]
    assert "SimGrid needs minutes for the large cases" in out
    assert "not installed" not in out


def test_simgrid_is_stopped_after_a_time_limit(bench, monkeypatch, capsys, tmp_path):
    program = tmp_path / "flows"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(bench, "PROGRAM", program)
    monkeypatch.setattr(bench, "LONGEST_S", 0.25)
    monkeypatch.setattr(bench, "simgrid", lambda: "3.32")
    bench.main()
    stopped = [line for line in capsys.readouterr().out.splitlines() if "then stopped" in line]
    assert [line.split()[-4:] for line in stopped] == [["0.5", "x", "at", "least"]] * 2, "0.25 s to 0.5 s"

"""``benches/packet.py``: its output with ns-3 installed, and without."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys

import pytest

from tests.conftest import ROOT

OURS = [
    {"hosts": 32, "bytes": 2_000_000, "buffer": 16 << 20, "transport": "Tcp", "cpu_s": 0.02, "hops": 349_184},
    {"hosts": 128, "bytes": 8_000_000, "buffer": 64 << 20, "transport": "Rdma", "cpu_s": 1.0, "hops": 5_592_064},
]


@pytest.fixture
def bench(monkeypatch):
    """The benchmark module, with made-up results of two runs of our own."""
    # Python puts the folder of a program on its path.
    monkeypatch.syspath_prepend(ROOT / "benches")
    spec = importlib.util.spec_from_file_location("bench_packet", ROOT / "benches" / "packet.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_packet", module)
    spec.loader.exec_module(module)
    runs = [{**each, "memory_bytes": 3_000_000, "done_ps": 328_800_000} for each in OURS]
    monkeypatch.setattr(module, "ours", lambda: [(case, module.measured("syncline", case)) for case in runs])
    return module


def test_without_ns_3_it_prints_how_to_install_it(bench, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    bench.main()
    out = capsys.readouterr().out
    assert "ns-3 is not installed, so it was not run; to run ns-3 beside it: sudo apt-get install libns3-dev" in out
    assert "Debian's ns-3" not in out
    (written,) = [line for line in out.splitlines() if "ns-3 3.48-dev, optimised" in line]
    assert written.split()[-3:] == ["76.0", "x", "0.9973"], "1.52 s and 0.3279 ms to 0.02 s and 0.3288 ms"
    assert out.count("htsim, csg-htsim") == 1, "the other case uses TCP"


def test_with_ns_3_both_results_are_printed(bench, monkeypatch, capsys, tmp_path):
    program = tmp_path / "star"
    said = {"cpu_s": 2.5, "hops": 277_824, "memory_bytes": 55_000_000, "done_ps": 327_900_000}
    program.write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/asked\necho '{json.dumps(said)}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(bench, "PROGRAM", program)
    monkeypatch.setattr(bench, "ns3", lambda: "3.37")
    bench.main()
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "Debian's ns-3 3.37 (logging compiled in)" in line]
    assert line.split()[-3:] == ["125.0", "x", "0.9973"]
    assert (tmp_path / "asked").read_text().splitlines() == ["32 2000000 16777216"] * 5
    assert "not installed" not in out


def test_the_ns_3_program_includes_the_header_of_every_linked_package(bench):
    assert all(f"ns3/{package.removeprefix('ns3-')}-module.h" in bench.SOURCE.read_text() for package in bench.PACKAGES)

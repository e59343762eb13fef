"""Commands write files completely or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import syncline
from syncline.files import write_whole

LIMITED = """
import resource, runpy, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
runpy.run_module("syncline", run_name="__main__", alter_sys=True)
"""
"""The command line with a limit of 1000 bytes per file, so that a write fails as on a full disk."""


def limited(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="files have no limit here")
def test_a_full_disk_leaves_the_old_file_unchanged(tmp_path):
    before = "schema: syncline/1\n"
    (tmp_path / "ring.yaml").write_text(before)
    done = limited(tmp_path, "init", "ring", "--force")
    assert done.returncode == 3, done.stderr
    assert "SL0801" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ring.yaml"]
    assert (tmp_path / "ring.yaml").read_text() == before


RING = """
workload: { collective: all_reduce, bytes: 1MB }
fabric: { shape: Ring(32), rate: 50GB/s }
jitter: { start: 1us }
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="files have no limit here")
@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "fabric", "ring.yaml", "--svg", "ring.svg"),
        ("convert", "ring.yaml", "out.json"),
        ("simulate", "ring.yaml", "--out", "run"),
        ("simulate", "ring.yaml", "--seeds", "2", "--out", "runs"),
        ("compare", "a", "b", "--out", "page.html"),
    ],
    ids=lambda arguments: " ".join(arguments[::2]),
)
def test_commands_write_files_completely_or_not_at_all(tmp_path, arguments):
    (tmp_path / "ring.yaml").write_text(RING)
    if arguments[0] == "compare":
        for name in "ab":
            syncline.simulate(tmp_path / "ring.yaml").save(tmp_path / name)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    done = limited(tmp_path, *arguments)
    assert done.returncode == 3, done.stderr
    assert "SL0801" in done.stderr
    assert "file too large" in done.stderr.lower()
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="files have no limit here")
def test_a_full_disk_leaves_no_partial_trace_files(tmp_path):
    layers = "".join(f"layer{index} -1 5 NONE 0 6 NONE 0 7 ALLREDUCE 1048576 9\n" for index in range(40))
    (tmp_path / "w.txt").write_text(f"DATA\n40\n{layers}")
    done = limited(tmp_path, "convert", "w.txt", "w.et", "--dims", "4")
    assert done.returncode == 3, done.stderr
    assert "SL0801" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["w.txt"]


def test_a_file_keeps_its_permissions_and_a_link_its_target(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, "after")
    assert (target.read_text(), target.stat().st_mode & 0o777, link.is_symlink()) == ("after", 0o640, True)
    mask = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", "x")
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "new", "target"]


def test_a_pipe_is_written_in_place(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        write_whole(pipe, "through")
        assert reader.communicate(timeout=60)[0] == "through"
    assert pipe.is_fifo()

"""Fixtures of all tests: the command line in a temporary folder, and small scenarios."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import loaded

# How long a case takes depends on what else the machine does.
# The same cases every time, so that what passes goes on passing; SYNCLINE_RANDOM draws new ones.
settings.register_profile("untimed", deadline=None, derandomize="SYNCLINE_RANDOM" not in os.environ)
settings.load_profile("untimed")

# A shell makes background processes ignore Ctrl-C. Commands started by tests would inherit that and ignore it, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent

REQUIRABLE = {"torch": "PyTorch is not installed", "namespaces": "no testbed on this machine"}
"""Words of ``SYNCLINE_REQUIRES``, and the reasons that tests give when they skip themselves for lack of it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Turns a skip into a failure if ``SYNCLINE_REQUIRES`` says that the machine has what the test needs."""
    report = yield
    required = [REQUIRABLE[name] for name in os.environ.get("SYNCLINE_REQUIRES", "").split()]
    if report.skipped and any(why in str(report.longrepr) for why in required):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, but SYNCLINE_REQUIRES names what it needs: {report.longrepr}"
    return report


LONGEST = (
    "tests/report/test_browser.py",
    "tests/testbed/test_testbed.py",
    "tests/docs/test_console.py",
    "tests/experiments/test_luo2020.py",
    "tests/experiments/test_figures.py",
    "tests/runtime/test_partitions.py",
    "tests/runtime/test_faults.py",
    "tests/examples/test_examples.py",
    "tests/comparison/test_browser.py",
)
"""Files that take longest. They run first, so that no process is left alone with one of them at the end."""


def pytest_collection_modifyitems(items):
    """Puts tests of the longest files first; each file's own order stays."""
    place = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(LONGEST)))


RING = """\
schema: syncline/1
name: ring
workload: { collective: all_reduce, bytes: 1MiB }
fabric: { dims: [{ name: ring, shape: ring, size: 4, rate: 25GB/s, latency: 1us }] }
network: queued
"""
"""A scenario that runs in almost no time."""

SLOW = """\
symmetry: false
schema: syncline/1
name: slow
workload: { collective: all_to_all, bytes: 64MiB, iterations: 100000 }
fabric: { shape: Ring(8)_Ring(8)_Ring(8), rate: 25GB/s, latency: 1us }
collectives: { chunks: 64 }
network: queued
"""
"""A scenario that runs far longer than any test."""


@dataclass(frozen=True)
class Cli:
    """The command line in a temporary folder."""

    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        """An environment without colours, with 80 columns, and without variables that change the output.

        Commands run the package of this checkout, also if the interpreter has that of another one. They also find what
        the tests find, such as a PyTorch in a folder of its own.
        """
        path = os.pathsep.join([str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        return {**kept, "PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "80", "PYTHONUTF8": "1", **more}

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in a forked process, or in a new interpreter if ``environment`` requires it."""
        if not environment.keys() - {"COLUMNS", "NO_COLOR", "PATH"}:
            return loaded.run(arguments, self.folder, self.environment(**environment))
        return subprocess.run(
            [sys.executable, "-m", "syncline", *arguments],
            cwd=self.folder,
            env=self.environment(**environment),
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )

    def write(self, name: str, text: str) -> str:
        """Writes a file in the folder; returns its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return name

    def astra_sim(self, out: str) -> str:
        """Runs the drop-in for ASTRA-sim on traces of the ring, with ASTRA-sim's own files; returns ``out``, the
        results."""
        (self.folder / "traces").mkdir()
        assert self("convert", self.write("ring.yaml", RING), "traces/job.et").returncode == 0
        self.write("system.json", '{"all-reduce-implementation": ["ring"], "preferred-dataset-splits": 4}')
        self.write("network.yml", "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 25.0 ]\nlatency: [ 1000.0 ]\n")
        done = self(
            "astra-sim",
            "--workload-configuration=traces/job",
            "--system-configuration=system.json",
            "--network-configuration=network.yml",
            f"--out={out}",
        )
        assert done.returncode == 0, done.stderr
        return out


def on_a_terminal(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Runs a command on a terminal; returns its output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    process.wait(timeout=30)
    os.close(ours)
    return shown.decode("utf-8", "replace")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless browser."""
    from tests.report.browser import chromium

    with chromium() as opened:
        yield opened


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def ring(cli: Cli) -> str:
    return cli.write("ring.yaml", RING)


@pytest.fixture
def slow(cli: Cli) -> str:
    return cli.write("slow.yaml", SLOW)

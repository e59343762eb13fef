"""Runs on the testbed, beside what is predicted: the same fabric, the same plan.

A scenario's fabric becomes a testbed (``syncline testbed run SCENARIO``), and a program runs on its hosts. What is
measured differs a little every time, so figures take it from a record beside their page (:class:`Record`), unless they
are asked to measure (:class:`Live`), and then may write the record anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from syncline import SynclineError, _core
from syncline.testbed.cores import busy_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).parents[2]
"""The project's folder."""
RECORD = "measured.json"
"""Name of a figure's record, in its folder."""
ROUNDS = 3
"""How often a trial's program is started."""
LABEL = re.compile(r"^\[[0-9]+\] (?=\[)")
"""What stands before a rank's line."""
TIMEOUT = "180s"
PATIENCE_S, QUIET = 600.0, 0.2
"""How long a patient command waits for others before each round, and the cores that an idle machine may have busy."""


STOLEN = 0.05
"""Cores that the machine's host may take away."""


@dataclass(frozen=True)
class Trial:
    """A program that runs on hosts of a testbed, one process each; or once, on this machine as it is."""

    name: str
    """By which its measurement is found again."""
    scenario: Path | None
    """Whose fabric the testbed has; there is none for a program that runs on this machine as it is."""
    changes: Mapping[str, Any]
    """Of that fabric: what ``--set`` takes."""
    hosts: Sequence[int]
    """The host of each rank."""
    program: Sequence[str]
    """A Python program and its arguments, or without a testbed any command, which runs in the project's folder. One of
    its processes prints a line of JSON: a list of seconds."""
    torch: bool = False
    """Whether it needs PyTorch."""


@dataclass(frozen=True)
class Measured:
    """What came out of a trial."""

    median_s: float
    least_s: float
    repeats: int
    """Exchanges that were timed, of all rounds."""
    others: float
    """Cores that others kept busy just before it, at most: what it had to share the machine with."""
    made: str = ""
    """The day, and the version that was measured."""
    stolen: float = 0.0
    """Cores that the machine's host took away while it ran, at most: other virtual machines are not seen before."""


class Bench(Protocol):
    """Where measurements come from."""

    def measure(self, trial: Trial) -> Measured | str:
        """What a trial measures; or why it is not measured."""


@dataclass
class Record:
    """Measurements that were made before."""

    folder: Path
    """The figure's."""

    def measure(self, trial: Trial) -> Measured | str:
        """What the record has."""
        found = self.kept().get("trials", {}).get(trial.name)
        return "not recorded" if found is None else Measured(**found)

    def kept(self) -> dict[str, Any]:
        """The record's file."""
        path = self.folder / RECORD
        return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else {}


@dataclass
class Live:
    """Measures now."""

    tell: Callable[[str], object] = lambda _: None
    """Hears of each trial."""
    rounds: int = ROUNDS
    gloo: str | None = None
    """A Python that has PyTorch, where the own one has not."""
    patience_s: float = 0.0
    """How long it waits before each round for others to leave the machine idle."""
    found: dict[str, Measured] = field(default_factory=dict)

    def measure(self, trial: Trial) -> Measured | str:
        """Runs a trial's program a few times."""
        if (why := cannot(trial)) is not None:
            return why
        python = sys.executable if not trial.torch or find_spec("torch") else self.gloo
        if python is None:
            return "needs PyTorch"
        if trial.name not in self.found:
            self.tell(trial.name)
            times: list[float] = []
            others = stolen = 0.0
            try:
                for _ in range(self.rounds):
                    others = max(others, self._quiet())
                    began, before = time.monotonic(), stolen_s()
                    times += run(trial, python)
                    stolen = max(stolen, (stolen_s() - before) / (time.monotonic() - began))
            except RuntimeError as problem:
                self.tell(f"failed: {problem}")
                return "failed"
            made = f"{datetime.now(UTC).date()}, syncline {_core.version()}"
            median, least = statistics.median(times), min(times)
            shares = round(others, 2), made, round(stolen, 3)
            self.found[trial.name] = Measured(median, least, len(times), *shares)
        return self.found[trial.name]

    def _quiet(self) -> float:
        """Waits for others, as long as it may; gives the cores that they still keep busy."""
        until = time.monotonic() + self.patience_s
        while (others := busy()) > QUIET and time.monotonic() < until:
            time.sleep(1.0)
        return others

    def write(self, folder: Path) -> None:
        """Writes the record of a figure anew; what was not measured now stays.

        What was measured while others kept the machine busy is not written.
        """
        kept = Record(folder).kept().get("trials", {})
        trials = dict(kept)
        for name, each in self.found.items():
            if each.others > QUIET:
                self.tell(f"not recorded, as others kept {each.others:g} cores busy: {name}")
            elif each.stolen > STOLEN:
                self.tell(f"not recorded, as the machine's host took {each.stolen:g} cores away: {name}")
            else:
                trials[name] = asdict(each)
        form = {"machine": machine(), "trials": dict(sorted(trials.items()))}
        (folder / RECORD).write_text(json.dumps(form, indent=1) + "\n", "utf-8")


@dataclass
class Nothing:
    """Measures nothing."""

    def measure(self, _: Trial) -> Measured | str:
        """Nothing."""
        return "not measured"


def cannot(trial: Trial) -> str | None:
    """Why this machine does not run a trial: a few words."""
    from syncline.testbed import kernel

    if trial.scenario is None:
        return None if shutil.which(trial.program[0]) else f"needs {trial.program[0]}"
    if os.geteuid() != 0:
        return "needs root"
    try:
        kernel.require()
    except SynclineError:
        return "needs network namespaces"
    return None


def stolen_s() -> float:
    """Seconds for which cores of this machine had work, and its host had others go first."""
    fields = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def busy(seconds: float = 0.5) -> float:
    """Cores that are busy now."""
    before = busy_s()
    time.sleep(seconds)
    return (busy_s() - before) / seconds


def run(trial: Trial, python: str) -> list[float]:
    """Seconds of each exchange of a trial's program, which is run once, by that Python.

    Raises ``RuntimeError`` with what it said where it fails.
    """
    command = list(trial.program) if trial.scenario is None else _on_hosts(trial, trial.scenario, python)
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)  # noqa: S603 - our own command
    # Lines of ranks have their number before them.
    lines = [LABEL.sub("", line) for line in done.stdout.splitlines()]
    said = next((line for line in lines if line.startswith("[")), None)
    if done.returncode or said is None:
        last = done.stderr.strip().splitlines()[-6:] or ["it measured nothing"]
        raise RuntimeError("\n".join([trial.name, *last]))
    return list(json.loads(said))


def _on_hosts(trial: Trial, scenario: Path, python: str) -> list[str]:
    """The command that runs a trial's program on hosts of a testbed."""
    command = [sys.executable, "-m", "syncline", "testbed", "run", str(scenario), "--timeout", TIMEOUT]
    # A name of its own, so that two commands have two testbeds.
    command += ["--set", f"name=figure-{os.getpid()}"]
    for key, value in trial.changes.items():
        command += ["--set", f"{key}={json.dumps(value)}"]
    return [*command, "--hosts", ",".join(map(str, trial.hosts)), "--", python, "-W", "ignore", *trial.program]


def machine() -> dict[str, Any]:
    """The machine's shape."""
    system = os.uname()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count() or 1,
        "architecture": system.machine,
        "memory_gib": round(memory / 2**30),
        "kernel": ".".join(system.release.split(".")[:2]),
    }

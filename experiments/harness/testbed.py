"""Measures on a testbed with the fabric and the plan of a simulation, to compare with its prediction.

``syncline testbed run SCENARIO`` builds a testbed from a scenario's fabric and runs a program on its hosts.
Measurements vary between runs, so figures show recorded ones from a file beside their page (:class:`Record`). A command
may instead measure (:class:`Live`) and, if asked, replace the record.
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

import syncline
from syncline import SynclineError
from syncline.testbed import busy_s, require

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).parents[2]
"""The project's folder."""
RECORD = "measured.json"
"""File name of a figure's record, in the figure's folder."""
ROUNDS = 3
"""How many times a trial's program is started."""
LABEL = re.compile(r"^\[[0-9]+\] (?=\[)")
"""Prefix of a rank's output line."""
TIMEOUT = "180s"
PATIENCE_S, QUIET = 600.0, 0.2
"""``PATIENCE_S``: how long ``--patient`` waits before each round for the machine to become idle. ``QUIET``: the number
of busy cores up to which a machine counts as idle."""


STOLEN = 0.05
"""Largest steal time of a recorded measurement, in cores: CPU time that the hypervisor gave to other machines."""


@dataclass(frozen=True)
class Trial:
    """A program to measure: one process on each of some hosts of a testbed, or one process directly on this machine."""

    name: str
    """Key of its measurement in the record."""
    scenario: Path | None
    """The scenario whose fabric the testbed has; ``None`` to run directly on this machine."""
    changes: Mapping[str, Any]
    """Changes to the scenario, as with ``--set``."""
    hosts: Sequence[int]
    """The host of each rank."""
    program: Sequence[str]
    """A Python program and its arguments; without a testbed, any command. It runs in the project's folder. One of its
    processes prints a line of JSON: a list of times in seconds."""
    torch: bool = False
    """Whether the program needs PyTorch."""


@dataclass(frozen=True)
class Measurement:
    """The measurement of a trial."""

    median_s: float
    least_s: float
    repeats: int
    """Number of timed exchanges, over all rounds."""
    others: float
    """Cores that other processes kept busy just before a round; the maximum over rounds."""
    made: str = ""
    """Date and version of the measurement."""
    stolen: float = 0.0
    """Steal time during a round, in cores; the maximum over rounds. Unlike ``others``, it is unknown before the run."""


class Bench(Protocol):
    """A source of measurements."""

    def measure(self, trial: Trial) -> Measurement | str:
        """The measurement of a trial, or the reason why there is none."""


@dataclass
class Record:
    """Supplies measurements from a figure's record."""

    folder: Path
    """The figure's folder."""

    def measure(self, trial: Trial) -> Measurement | str:
        """The recorded measurement of a trial."""
        found = self.kept().get("trials", {}).get(trial.name)
        return "not recorded" if found is None else Measurement(**found)

    def kept(self) -> dict[str, Any]:
        """The content of the record's file; empty if there is none."""
        path = self.folder / RECORD
        return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else {}


@dataclass
class Live:
    """Measures by running programs now."""

    tell: Callable[[str], object] = lambda _: None
    """Called with a message for each trial."""
    rounds: int = ROUNDS
    gloo: str | None = None
    """A Python interpreter with PyTorch, if this one has none."""
    patience_s: float = 0.0
    """Longest wait before each round for the machine to become idle."""
    found: dict[str, Measurement] = field(default_factory=dict)

    def measure(self, trial: Trial) -> Measurement | str:
        """Runs a trial's program :attr:`rounds` times."""
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
            made = f"{datetime.now(UTC).date()}, syncline {syncline.__version__}"
            median, least = statistics.median(times), min(times)
            shares = round(others, 2), made, round(stolen, 3)
            self.found[trial.name] = Measurement(median, least, len(times), *shares)
        return self.found[trial.name]

    def _quiet(self) -> float:
        """Waits for an idle machine, up to ``patience_s``; returns the cores that are busy at the end."""
        until = time.monotonic() + self.patience_s
        while (others := busy()) > QUIET and time.monotonic() < until:
            time.sleep(1.0)
        return others

    def write(self, folder: Path) -> None:
        """Writes new measurements into a figure's record; the record's other entries remain.

        Leaves out measurements made while the machine was busy with other work.
        """
        kept = Record(folder).kept().get("trials", {})
        trials = dict(kept)
        for name, each in self.found.items():
            if each.others > QUIET:
                self.tell(f"not recorded, because other processes kept {each.others:g} cores busy: {name}")
            elif each.stolen > STOLEN:
                self.tell(f"not recorded, because the hypervisor took {each.stolen:g} cores away: {name}")
            else:
                trials[name] = asdict(each)
        form = {"machine": machine(), "trials": dict(sorted(trials.items()))}
        (folder / RECORD).write_text(json.dumps(form, indent=1) + "\n", "utf-8")


@dataclass
class Nothing:
    """Supplies no measurements."""

    def measure(self, _: Trial) -> Measurement | str:
        """Always ``"not measured"``."""
        return "not measured"


def cannot(trial: Trial) -> str | None:
    """Why this machine cannot run a trial, in a few words; ``None`` if it can."""
    if trial.scenario is None:
        return None if shutil.which(trial.program[0]) else f"needs {trial.program[0]}"
    if os.geteuid() != 0:
        return "needs root"
    try:
        require()
    except SynclineError:
        return "needs network namespaces"
    return None


def stolen_s() -> float:
    """Steal time since boot: CPU seconds that the hypervisor gave to other machines while a core here had work."""
    fields = Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def busy(seconds: float = 0.5) -> float:
    """Average number of busy cores over the next ``seconds``."""
    before = busy_s()
    time.sleep(seconds)
    return (busy_s() - before) / seconds


def run(trial: Trial, python: str) -> list[float]:
    """Runs a trial's program once, with the interpreter ``python``; returns the seconds of each exchange.

    Raises ``RuntimeError`` with the end of the program's error output if it fails.
    """
    command = list(trial.program) if trial.scenario is None else _on_hosts(trial, trial.scenario, python)
    process = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)  # noqa: S603 - our own command
    # Each line has a prefix with the number of its rank.
    lines = [LABEL.sub("", line) for line in process.stdout.splitlines()]
    measurement = next((line for line in lines if line.startswith("[")), None)
    if process.returncode or measurement is None:
        last = process.stderr.strip().splitlines()[-6:] or ["the program printed no measurement"]
        raise RuntimeError("\n".join([trial.name, *last]))
    return list(json.loads(measurement))


def _on_hosts(trial: Trial, scenario: Path, python: str) -> list[str]:
    """The command that runs a trial's program on hosts of a testbed."""
    command = [sys.executable, "-m", "syncline", "testbed", "run", str(scenario), "--timeout", TIMEOUT]
    # The name contains the process id, so that two commands at a time use two testbeds.
    command += ["--set", f"name=figure-{os.getpid()}"]
    for key, value in trial.changes.items():
        command += ["--set", f"{key}={json.dumps(value)}"]
    return [*command, "--hosts", ",".join(map(str, trial.hosts)), "--", python, "-W", "ignore", *trial.program]


def machine() -> dict[str, Any]:
    """A description of this machine: cores, architecture, memory, kernel."""
    system = os.uname()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count() or 1,
        "architecture": system.machine,
        "memory_gib": round(memory / 2**30),
        "kernel": ".".join(system.release.split(".")[:2]),
    }

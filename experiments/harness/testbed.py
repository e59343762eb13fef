"""Measures on a testbed with the fabric and the plan of a simulation, to compare with its prediction.

``syncline testbed run SCENARIO`` builds a testbed from a scenario's fabric and runs a program on its hosts.
Measurements vary between runs, so figures show recorded ones from a file beside their page (:class:`Record`). A command
may instead measure (:class:`Live`) and, if asked, replace the record. A :class:`Trial` is a program that is timed
several times; a :class:`Session` makes several measurements on one testbed.
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


PACKAGES = {"torch": "PyTorch", "lightgbm": "LightGBM"}
"""Packages that programs need, by module."""
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
    package: str | None = None
    """A package that the program needs: ``torch`` or ``lightgbm``."""


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


@dataclass(frozen=True)
class Session:
    """Several measurements on one testbed that belong together, such as a job before and after a link changes."""

    name: str
    """Key of its measurements in the record."""
    make: Callable[[str], Mapping[str, Any]]
    """Makes the measurements: plain data for JSON. Its argument is a Python interpreter for the programs on hosts. It
    raises ``RuntimeError`` if a program fails."""
    package: str | None = None
    """A package that the interpreter needs: ``torch`` or ``lightgbm``."""
    quick: bool = False
    """Whether it measures less than a record should have."""


@dataclass(frozen=True)
class Measured:
    """What a session measured."""

    values: Mapping[str, Any]
    others: float
    """As in :class:`Measurement`, for the time just before the session."""
    made: str = ""
    stolen: float = 0.0


class Bench(Protocol):
    """A source of measurements."""

    def measure(self, trial: Trial) -> Measurement | str:
        """The measurement of a trial, or the reason why there is none."""

    def collect(self, session: Session) -> Measured | str:
        """What a session measured, or the reason why there is nothing."""


@dataclass
class Record:
    """Supplies measurements from a figure's record."""

    folder: Path
    """The figure's folder."""

    def measure(self, trial: Trial) -> Measurement | str:
        """The recorded measurement of a trial."""
        found = self.kept().get("trials", {}).get(trial.name)
        return "not recorded" if found is None else Measurement(**found)

    def collect(self, session: Session) -> Measured | str:
        """The recorded measurements of a session."""
        found = self.kept().get("sessions", {}).get(session.name)
        return "not recorded" if found is None else Measured(**found)

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
    """A Python interpreter with packages that this one lacks: PyTorch, LightGBM."""
    patience_s: float = 0.0
    """Longest wait before each round for the machine to become idle."""
    found: dict[str, Measurement] = field(default_factory=dict)
    collected: dict[str, Measured] = field(default_factory=dict)
    rough: set[str] = field(default_factory=set)
    """Names of quick sessions, which are not recorded."""

    def measure(self, trial: Trial) -> Measurement | str:
        """Runs a trial's program :attr:`rounds` times."""
        if (why := cannot(trial)) is not None:
            return why
        if (python := self._python(trial.package)) is None:
            return f"needs {PACKAGES.get(trial.package or '')}"
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
            made = stamp()
            median, least = statistics.median(times), min(times)
            shares = round(others, 2), made, round(stolen, 3)
            self.found[trial.name] = Measurement(median, least, len(times), *shares)
        return self.found[trial.name]

    def collect(self, session: Session) -> Measured | str:
        """Makes the measurements of a session, once."""
        if (why := cannot_emulate()) is not None:
            return why
        if (python := self._python(session.package)) is None:
            return f"needs {PACKAGES.get(session.package or '')}"
        if session.name not in self.collected:
            self.tell(session.name)
            others = self._quiet()
            began, before = time.monotonic(), stolen_s()
            try:
                values = session.make(python)
            except (RuntimeError, SynclineError) as problem:
                self.tell(f"failed: {problem}")
                return "failed"
            stolen = (stolen_s() - before) / (time.monotonic() - began)
            self.collected[session.name] = Measured(values, round(others, 2), stamp(), round(stolen, 3))
            self.rough |= {session.name} if session.quick else set()
        return self.collected[session.name]

    def _python(self, package: str | None) -> str | None:
        """An interpreter that has a package; ``None`` if there is none."""
        if package is None or find_spec(package):
            return sys.executable
        if self.gloo is None:
            return None
        asked = [self.gloo, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"]
        return None if subprocess.run(asked, check=False).returncode else self.gloo  # noqa: S603 - the user's own interpreter

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
        kept = Record(folder).kept()
        form: dict[str, Any] = {"machine": machine()}
        for kind, found in (("trials", self.found), ("sessions", self.collected)):
            entries = dict(kept.get(kind, {}))
            for name, each in found.items():
                if (why := "it is a quick one" if name in self.rough else unfit(each)) is not None:
                    self.tell(f"not recorded, because {why}: {name}")
                else:
                    entries[name] = asdict(each)
            if entries:
                form[kind] = dict(sorted(entries.items()))
        if len(form) == 1:
            return  # nothing has ever been recorded
        (folder / RECORD).write_text(json.dumps(form, indent=1) + "\n", "utf-8")


@dataclass
class Nothing:
    """Supplies no measurements."""

    def measure(self, _: Trial) -> Measurement | str:
        """Always ``"not measured"``."""
        return "not measured"

    def collect(self, _: Session) -> Measured | str:
        """Always ``"not measured"``."""
        return "not measured"


def cannot(trial: Trial) -> str | None:
    """Why this machine cannot run a trial, in a few words; ``None`` if it can."""
    if trial.scenario is None:
        return None if shutil.which(trial.program[0]) else f"needs {trial.program[0]}"
    return cannot_emulate()


def cannot_emulate() -> str | None:
    """Why this machine cannot run a testbed, in a few words; ``None`` if it can."""
    if os.geteuid() != 0:
        return "needs root"
    try:
        require()
    except SynclineError:
        return "needs network namespaces"
    return None


def unfit(found: Measurement | Measured) -> str | None:
    """Why a measurement is not fit for a record; ``None`` if it is."""
    if found.others > QUIET:
        return f"other processes kept {found.others:g} cores busy"
    if found.stolen > STOLEN:
        return f"the hypervisor took {found.stolen:g} cores away"
    return None


def stamp() -> str:
    """The date and version of a measurement that is made now."""
    return f"{datetime.now(UTC).date()}, syncline {syncline.__version__}"


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

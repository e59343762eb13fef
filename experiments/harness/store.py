"""Stores the results of runs in memory, and in a folder so that later commands can reuse them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING

from experiments.harness import processes
from syncline import Result, SynclineError, simulate
from syncline.quantity import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from experiments.harness.case import Case


@dataclass
class Effort:
    """Number of runs simulated and reused, and their cost."""

    simulated: int = 0
    kept: int = 0
    """Results reused from an earlier command."""
    seconds: float = 0.0
    """Wall time spent simulating."""
    peak_bytes: int = 0
    """Largest peak memory of one child process."""

    def summary(self) -> str:
        """``24 runs in 1 min 35 s, at most 251 MiB each; 3 results reused``."""
        minutes, seconds = divmod(round(self.seconds), 60)
        took = f"{minutes} min {seconds} s" if minutes else f"{self.seconds:.1f} s"
        parts = [f"{counted(self.simulated, 'run')} in {took}"] if self.simulated else []
        if self.peak_bytes:
            parts[0] += f", at most {self.peak_bytes >> 20} MiB each"
        if self.kept:
            parts.append(f"{counted(self.kept, 'result')} reused")
        return "; ".join(parts)


@dataclass
class Store:
    """Results by case."""

    folder: Path | None = None
    """Folder of saved results; ``None`` keeps them only in memory."""
    processes: int = 1
    """Runs at a time, each in its own process; with 1, runs are simulated in this process."""
    fresh: bool = False
    """Whether to ignore results of earlier commands."""
    effort: Effort = field(default_factory=Effort)
    _known: dict[str, Result] = field(default_factory=dict)
    _temporary: TemporaryDirectory[str] | None = None

    @property
    def place(self) -> Path:
        """The folder of results, or a temporary one that is removed with the store."""
        if self.folder is not None:
            return self.folder
        self._temporary = self._temporary or TemporaryDirectory(prefix="syncline-")
        return Path(self._temporary.name)

    def result(self, case: Case) -> Result:
        """The result of a case; simulates it in this process if it is not stored."""
        found = self._found(case)
        if found is None:
            started = monotonic()
            found = simulate(case.loaded)
            self.effort.simulated += 1
            self.effort.seconds += monotonic() - started
            if self.folder is not None:
                found.save(self.folder / case.name)
            self._known[case.name] = found
        return found

    def results(self, cases: Sequence[Case], tell: Callable[[float], object]) -> list[Result]:
        """The results of all cases, in order. Calls ``tell`` with the completed fraction, from 0 to 1.

        Missing results are simulated in that order, in up to :attr:`processes` processes, and each is saved as soon as
        it is finished.
        """
        missing = {case.name: case for case in cases if self._found(case) is None}
        if self.processes > 1 and missing:
            self._simulate_in_processes(missing, tell)
        else:
            whole, done = sum(case.weight for case in missing.values()), 0.0
            for case in missing.values():
                tell(done / whole)
                self.result(case)
                done += case.weight
        return [self._known[case.name] for case in cases]

    def _simulate_in_processes(self, missing: Mapping[str, Case], tell: Callable[[float], object]) -> None:
        """Simulates missing cases in child processes."""
        started = monotonic()
        peak = processes.simulate(list(missing.values()), self.place, self.processes, tell)
        self.effort.simulated += len(missing)
        self.effort.seconds += monotonic() - started
        self.effort.peak_bytes = max(self.effort.peak_bytes, peak)
        self._known.update({name: Result.load(self.place / name) for name in missing})

    def _found(self, case: Case) -> Result | None:
        if case.name not in self._known and self.folder is not None and not self.fresh:
            try:
                kept = Result.load(self.folder / case.name, verify=True)
            except SynclineError:
                # The result is missing or damaged.
                return None
            if kept.summary.ended != "finished":
                # The run was cut off by a limit or Ctrl-C, so its result may differ the next time.
                return None
            self._known[case.name] = kept
            self.effort.kept += 1
        return self._known.get(case.name)

"""Simulates cases in parallel, each in its own process."""

from __future__ import annotations

import resource
import signal
import sys
from dataclasses import dataclass
from multiprocessing import connection, get_context
from typing import TYPE_CHECKING, Any

import syncline
from experiments.harness.case import Case
from syncline import SynclineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from pathlib import Path

_SPAWN = get_context("spawn")
_PATIENCE_S = 0.5
"""Longest time between two progress reports."""


CHANGED = 9
"""Exit status of a process whose case no longer has the expected name, because its input or the build changed."""


class LostError(Exception):
    """A process ended without a result."""

    def __init__(self, name: str, status: int | None) -> None:
        how = f"was killed by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        hint = {
            -signal.SIGKILL: "; memory may be too small for this many runs at a time (try a lower --jobs)",
            CHANGED: ": syncline, or a file of the scenario, has changed since the command began; start it again",
        }.get(status or 0, "")
        super().__init__(f"the process that simulated {name} {how}{hint}")


@dataclass
class _Running:
    case: Case
    process: SpawnProcess
    done: float = 0.0
    peak_bytes: int | None = None
    """Set once its results are saved."""


def simulate(cases: Sequence[Case], folder: Path, most: int, tell: Callable[[float], object]) -> int:
    """Simulates ``cases`` in order, at most ``most`` at a time; saves each result as ``folder/NAME``.

    Calls ``tell`` with the completed fraction, by weight. Returns the largest peak memory of one process, in bytes. If
    a simulation fails, raises its error, or :class:`LostError` if its process ended without a result; the other
    processes are stopped, and results that are already saved remain.
    """
    whole = sum(case.weight for case in cases)
    waiting, running = list(cases), dict[Any, _Running]()
    finished, peak = 0.0, 0
    try:
        while waiting or running:
            while waiting and len(running) < most:
                reader, started = _start(waiting.pop(0), folder)
                running[reader] = started
            for ready in connection.wait(list(running), _PATIENCE_S):
                if _receive(ready, running[ready]):
                    over = running.pop(ready)
                    finished += over.case.weight
                    peak = max(peak, over.peak_bytes or 0)
            tell((finished + sum(each.done * each.case.weight for each in running.values())) / whole)
    finally:
        for each in running.values():
            each.process.terminate()
        for each in running.values():
            each.process.join()
    return peak


def _start(case: Case, folder: Path) -> tuple[Connection, _Running]:
    reader, writer = _SPAWN.Pipe(duplex=False)
    arguments = (case.scenario, dict(case.changes), folder / case.name, writer)
    process = _SPAWN.Process(target=_work, args=arguments, daemon=True)
    # Ctrl-C on a terminal signals every process. Children block the signal; this process stops them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        writer.close()
    return reader, _Running(case, process)


def _receive(reader: Any, running: _Running) -> bool:
    """Receives one message from a process; returns whether the process has ended."""
    try:
        message = reader.recv()
    except EOFError:
        running.process.join()
        if running.peak_bytes is None:
            raise LostError(running.case.loaded.name, running.process.exitcode) from None
        return True
    if isinstance(message, SynclineError):
        raise message
    if isinstance(message, float):
        running.done = message
    else:
        running.peak_bytes = message
    return False


def _work(scenario: Path, changes: Mapping[str, Any], folder: Path, writer: Connection) -> None:
    """Body of a process: sends its progress, then its peak memory, or the error."""
    try:
        case = Case(scenario, changes)
        if case.name != folder.name:
            sys.exit(CHANGED)
        syncline.simulate(case.loaded, progress=lambda *message: writer.send(float(message[-1]))).save(folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        writer.send(peak if sys.platform == "darwin" else 1024 * peak)
    except SynclineError as wrong:
        writer.send(wrong)
    except BrokenPipeError:
        # The parent has ended.
        return

"""Simulates cases in processes of their own, several at a time."""

from __future__ import annotations

import resource
import signal
import sys
from dataclasses import dataclass
from multiprocessing import connection, get_context
from typing import TYPE_CHECKING, Any

from experiments.harness.case import Case
from syncline import SynclineError, api

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from pathlib import Path

_SPAWN = get_context("spawn")
_PATIENCE_S = 0.5
"""How often progress is told where nothing happens."""


CHANGED = 9
"""Status of a process that would simulate something else than what it was asked for."""


class LostError(Exception):
    """A process ended without a result."""

    def __init__(self, name: str, status: int | None) -> None:
        how = f"was killed by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        hint = {
            -signal.SIGKILL: "; there may be too little memory for so many at a time (--jobs)",
            CHANGED: ": syncline, or a file of the scenario, has changed since the command began; begin it anew",
        }.get(status or 0, "")
        super().__init__(f"the process that simulated {name} {how}{hint}")


@dataclass
class _Running:
    case: Case
    process: SpawnProcess
    done: float = 0.0
    peak_bytes: int | None = None
    """Known once its results are kept."""


def simulate(cases: Sequence[Case], folder: Path, most: int, tell: Callable[[float], object]) -> int:
    """Simulates ``cases`` in their order, at most ``most`` at a time, each into the folder of its name in ``folder``.

    ``tell`` gets the part that is done, by weight. Gives the most memory that one of them took, in bytes. Raises what
    a simulation raises, and :class:`LostError`; the others are stopped then, and what is finished stays.
    """
    whole = sum(case.weight for case in cases)
    waiting, running = list(cases), dict[Any, _Running]()
    finished, peak = 0.0, 0
    try:
        while waiting or running:
            while waiting and len(running) < most:
                ears, started = _start(waiting.pop(0), folder)
                running[ears] = started
            for heard in connection.wait(list(running), _PATIENCE_S):
                if _hear(heard, running[heard]):
                    over = running.pop(heard)
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
    ears, mouth = _SPAWN.Pipe(duplex=False)
    arguments = (case.scenario, dict(case.changes), folder / case.name, mouth)
    process = _SPAWN.Process(target=_work, args=arguments, daemon=True)
    # Ctrl-C on a terminal reaches every process; it is this one that stops the others.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        mouth.close()
    return ears, _Running(case, process)


def _hear(ears: Any, running: _Running) -> bool:
    """Takes in what a process says; whether it is over."""
    try:
        said = ears.recv()
    except EOFError:
        running.process.join()
        if running.peak_bytes is None:
            raise LostError(running.case.loaded.name, running.process.exitcode) from None
        return True
    if isinstance(said, SynclineError):
        raise said
    if isinstance(said, float):
        running.done = said
    else:
        running.peak_bytes = said
    return False


def _work(scenario: Path, changes: Mapping[str, Any], folder: Path, mouth: Connection) -> None:
    """What a process does: says how far it is, then how much memory it took, or what is wrong."""
    try:
        case = Case(scenario, changes)
        if case.name != folder.name:
            sys.exit(CHANGED)
        api.run(case.loaded, lambda *said: mouth.send(float(said[-1]))).save(folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        mouth.send(peak if sys.platform == "darwin" else 1024 * peak)
    except SynclineError as wrong:
        mouth.send(wrong)
    except BrokenPipeError:
        # Nobody is left to tell.
        return

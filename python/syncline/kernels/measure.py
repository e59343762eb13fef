"""Measures kernels into a table: ``python -m syncline.kernels.measure -o FILE.csv``.

It starts a process that measures, writes each row as it comes, and starts another if that process fails or hangs, which
goes on after the case that failed. It needs only the standard library; the other process needs PyTorch besides.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from syncline.kernels.cases import FAMILIES
from syncline.kernels.columns import header, line
from syncline.kernels.worker import EVERYTHING, PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

START_S = 180.0
"""So long may PyTorch take to be imported, and the device to be ready."""
GRACE_S = 10.0
"""So long after the time is over may the last case take."""
MAX_STARTS = 25
"""So many processes are started at most."""
_AGAIN = "again"
"""Why a worker ended whose last case the next one measures in another way."""
_TRIES = 3
"""If so many captures failed and none succeeded, none is tried any more."""
DEVICES = ("cuda", "cpu")
"""Devices to measure."""


class MeasureError(Exception):
    """Nothing can be measured, or the table cannot be written."""

    def __init__(self, message: str, *, help: str | None = None, file: bool = False, package: bool = False) -> None:
        super().__init__(message)
        self.help = help
        self.package = package
        """PyTorch is missing."""
        self.file = file
        """The table is at fault, not the request."""


@dataclass(frozen=True)
class Request:
    """What to measure, and where to write it."""

    out: str
    device: str = "cuda"
    operations: Sequence[str] = FAMILIES
    """Families of operations."""
    seconds: float = 480.0
    """Time for everything, start included."""
    quick: bool = False
    """A handful of tiny shapes, to try the command."""
    force: bool = False
    """Replace an existing file."""


@dataclass
class Outcome:
    """What was measured."""

    rows: Counter[str] = field(default_factory=Counter)
    """Number of rows of each operation."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a case has no row."""
    complete: bool = False
    """All cases were measured or skipped."""


def measure(request: Request, say: Callable[[str], None], outcome: Outcome | None = None) -> Outcome:
    """Measures kernels and writes the table; ``say`` prints progress and notes.

    ``outcome`` is filled as rows are written, so that it is right after an interrupt too. Raises :class:`MeasureError`.
    """
    outcome = Outcome() if outcome is None else outcome
    if Path(request.out).exists() and not request.force:
        raise MeasureError(f"{request.out} exists already", help="choose another name, or replace it: --force")
    supervisor = _Supervisor(request, say, outcome)
    try:
        supervisor.run()
    except OSError as problem:
        raise MeasureError(f"cannot write {request.out}: {problem.strerror or problem}", file=True) from problem
    finally:
        supervisor.close()
    return outcome


class _Supervisor:
    """Starts workers and writes their rows."""

    def __init__(self, request: Request, say: Callable[[str], None], outcome: Outcome) -> None:
        self._request = request
        self._file: TextIO | None = None
        self._say = say
        self._outcome = outcome
        self._began = time.time()
        self._deadline = self._began + request.seconds
        self._done: list[str] = []
        self._no_capture: list[str] = []
        self._graphs = 0

    def close(self) -> None:
        """Closes the table."""
        if self._file is not None:
            self._file.close()

    def run(self) -> None:
        """Runs workers until all is done or the time is over. Raises an error if nothing can be measured."""
        for _ in range(MAX_STARTS):
            before = len(self._done)
            ended = self._worker()
            if ended == "complete":
                self._outcome.complete = True
                return
            if ended == "time" or time.time() >= self._deadline:
                return
            if ended == _AGAIN:
                continue
            if len(self._done) == before:
                raise MeasureError(ended, help="the process that measures ends before its first case")
            self._outcome.skipped.setdefault(self._done[-1], ended)
            self._say(f"starts again after {self._done[-1]}: {ended}")

    def _worker(self) -> str:
        """Runs one worker; says why it ended: ``complete``, ``time``, or a fault."""
        request = {
            "device": self._request.device,
            "operations": list(self._request.operations),
            "quick": self._request.quick,
            "seconds": self._request.seconds,
            "deadline": self._deadline,
            "done": self._done,
            "no_capture": self._no_capture,
        }
        package = str(Path(__file__).resolve().parents[2])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            [sys.executable, "-m", "syncline.kernels.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,
        )
        try:
            messages = _listen(process, json.dumps(request))
            patience = START_S
            while True:
                wait = min(patience, self._deadline + GRACE_S - time.time())
                try:
                    message = messages.get(timeout=max(0.0, wait))
                except queue.Empty:
                    return "time" if time.time() >= self._deadline else f"no answer for {patience:.0f} s"
                if message is None:
                    return f"the process ended with status {process.wait()}"
                patience = float(message.get("patience_s", PATIENCE_S))
                if "end" in message:
                    return "time" if time.time() >= self._deadline else "complete"
                if message.get("no_capture") in self._no_capture:
                    # It captures a graph whatever it was told.
                    return str(message["why"])
                if "no_capture" in message:
                    self._no_capture.append(message["no_capture"])
                    if len(self._no_capture) >= _TRIES and not self._graphs:
                        self._no_capture.append(EVERYTHING)
                    self._done.remove(message["case"])
                    self._say(f"starts again without graphs of {message['no_capture']}: {message['why']}")
                    return _AGAIN
                if "error" in message:
                    self._raise_missing(message)
                    return str(message["why"])
                self._take(message)
        finally:
            _kill(process)

    def _raise_missing(self, message: dict[str, Any]) -> None:
        if message["error"] == "no_torch":
            raise MeasureError(f"PyTorch cannot be imported: {message['why']}", help="pip install torch", package=True)
        if message["error"] == "no_cuda":
            raise MeasureError(message["why"], help="measure the processor instead: --device cpu")

    def _take(self, message: dict[str, Any]) -> None:
        if "facts" in message:
            self._open(message["facts"])
        elif "stage" in message:
            name, level = message["stage"].split()
            total = sum(self._outcome.rows.values())
            seconds = time.time() - self._began
            self._say(f"{seconds:5.0f} s  {total} rows; {name}, level {level}: {message['cases']} cases")
        elif "case" in message:
            self._done.append(message["case"])
        elif "row" in message:
            row = {**message["row"], "at_s": round(time.time() - self._began, 2)}
            self._write(line(row))
            self._outcome.rows[str(row["operation"])] += 1
            self._graphs += row.get("launch") == "graph"
        elif "skipped" in message:
            self._outcome.skipped[message["skipped"]] = message["why"]
            self._say(f"skipped {message['skipped']}: {message['why']}")

    def _open(self, facts: dict[str, Any]) -> None:
        """Begins the table, when the device is known: what fails before leaves an older table as it is."""
        if self._file is None:
            self._file = Path(self._request.out).open("w", encoding="utf-8", newline="")  # noqa: SIM115 - close() does
            about: dict[str, Any] = {"operations": " ".join(self._request.operations), "seconds": self._request.seconds}
            self._write(header({**facts, **about}))

    def _write(self, text: str) -> None:
        """Writes lines at once, so that nothing is lost if this process is killed."""
        if self._file is not None:
            self._file.write(text)
            self._file.flush()


def _listen(process: subprocess.Popen[str], request: str) -> queue.SimpleQueue[dict[str, Any] | None]:
    """Sends the request, and receives the messages of a worker; None follows the last."""
    messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def read() -> None:
        for text in process.stdout or ():
            try:
                messages.put(json.loads(text))
            except ValueError:
                continue
        messages.put(None)

    threading.Thread(target=read, daemon=True).start()
    if process.stdin is not None:
        try:
            process.stdin.write(request + "\n")
            process.stdin.close()
        except BrokenPipeError:
            # It has ended already; its status says why.
            pass
    return messages


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends a worker and the compilers that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def summarise(outcome: Outcome, out: str) -> list[str]:
    """Sentences about what was measured."""
    total = sum(outcome.rows.values())
    listed = ", ".join(f"{name} {many}" for name, many in outcome.rows.items())
    ended = "everything" if outcome.complete else "as much as there was time for"
    return [
        f"Measured {ended}: {total} rows ({listed}); {len(outcome.skipped)} cases skipped",
        f"Wrote {out}",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m syncline.kernels.measure", description=__doc__)
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the table to write: .csv")
    parser.add_argument("--device", choices=DEVICES, default="cuda", help="what to measure (default: cuda)")
    parser.add_argument("--operations", nargs="+", choices=FAMILIES, default=FAMILIES, help="what to measure")
    parser.add_argument("--seconds", type=float, default=480.0, metavar="N", help="time for everything (default: 480)")
    parser.add_argument("--quick", action="store_true", help="a handful of tiny shapes, to try the command")
    parser.add_argument("--force", action="store_true", help="replace a file that already exists")
    given = parser.parse_args(arguments)

    def say(text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    outcome = Outcome()
    try:
        request = Request(given.out, given.device, given.operations, given.seconds, given.quick, given.force)
        measure(request, say, outcome)
    except MeasureError as problem:
        say(f"error: {problem}" + (f"\nhelp: {problem.help}" if problem.help else ""))
        return 3 if problem.file else 2
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    finally:
        if outcome.rows:
            for sentence in summarise(outcome, given.out):
                say(sentence)
    return 0


if __name__ == "__main__":
    sys.exit(main())

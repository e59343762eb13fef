"""Jobs of several processes on this machine, which tests disturb."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parent / "worker.py"

FOUND_WITHIN_S = 2.0
"""How soon a fault is found: what the project promises."""

ALLOWANCE_S = 0.4
"""What a process may take to wake up and say what it was told, on a machine that has nothing else to do."""

SLACK_S = 3.0
"""What a machine that is busy with other tests may add."""

IDLE = 0.1
"""Part of the time in which work waits for a CPU, at most, on a machine that counts as idle: processes end at once."""


def _waited_s() -> float | None:
    """For how long work has waited for a CPU, ever; none where the system does not say."""
    try:
        some = Path("/proc/pressure/cpu").read_text("ascii").splitlines()[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / 1e6


class Since(float):
    """When something was done to a job (as :func:`time.time`), and how busy the machine has been since."""

    waited_s: float | None

    @classmethod
    def now(cls) -> Since:
        """This moment."""
        since = cls(time.time())
        since.waited_s = _waited_s()
        return since

    def bound_s(self) -> tuple[float, str]:
        """How soon a fault is to be found, and why no sooner."""
        waited_s = _waited_s()
        if self.waited_s is None or waited_s is None:
            return FOUND_WITHIN_S + SLACK_S, "the system does not say whether the machine is idle"
        part = (waited_s - self.waited_s) / (time.time() - self)
        if part > IDLE:
            return FOUND_WITHIN_S + SLACK_S, f"the machine is busy, work waited for a CPU {part:.0%} of the time"
        return FOUND_WITHIN_S + ALLOWANCE_S, f"the machine is idle, work waited for a CPU {part:.0%} of the time"

    def found(self, *at: float) -> None:
        """That a fault was found in time: the last of those that found it did at ``at``."""
        (bound_s, why), took_s = self.bound_s(), max(at) - self
        assert took_s < bound_s, f"found after {took_s:.2f} s where {bound_s:.1f} s are allowed: {why}"


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Job:
    """Processes that run collectives, by rank."""

    processes: list[subprocess.Popen[str]]
    address: str

    def wait_for_steps(self, ranks: Sequence[int] | None = None) -> None:
        """Waits until ranks have finished a step."""
        for rank in range(len(self.processes)) if ranks is None else ranks:
            said = self._line(rank)
            assert "step" in said, said

    def _line(self, rank: int) -> dict[str, Any]:
        stream = self.processes[rank].stdout
        assert stream is not None
        line = stream.readline()
        assert line, self.processes[rank].communicate()[1]
        return dict(json.loads(line))

    def outcome(self, rank: int, within_s: float = 30.0) -> dict[str, Any]:
        """What a rank said last."""
        out, err = self.processes[rank].communicate(timeout=within_s)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        assert lines, err
        return dict(json.loads(lines[-1]))

    def until(self, rank: int, key: str) -> Any:
        """Reads what a rank says until it says something of ``key``: what."""
        while key not in (line := self._line(rank)):
            pass
        return line[key]

    def kill(self, rank: int, number: signal.Signals) -> Since:
        """Sends a signal to a rank; when that was."""
        self.processes[rank].send_signal(number)
        return Since.now()


@contextlib.contextmanager
def job(
    world: int, *arguments: str, ranks: Sequence[int] | None = None, worker: Path = WORKER, **variables: str
) -> Iterator[Job]:
    """Runs the worker as ``ranks`` of ``world`` (all of them); whatever happens, nothing is left of it."""
    address = f"127.0.0.1:{free_port()}"
    common = {**os.environ, "MASTER_ADDR": address, "WORLD_SIZE": str(world), **variables}
    command = [sys.executable, str(worker), *arguments]
    processes = [
        subprocess.Popen(
            command,
            env={**common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (range(world) if ranks is None else ranks)
    ]
    try:
        yield Job(processes, address)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

"""Jobs of several processes on this machine, for tests that kill, stop or restart them."""

from __future__ import annotations

import contextlib
import itertools
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
"""The time within which the project promises to find a fault."""

ALLOWANCE_S = 0.4
"""Additional time for a process to wake up and report the fault, on an idle machine."""

SLACK_S = 3.0
"""Additional time on a machine that is busy with other tests."""

IDLE = 0.1
"""A machine counts as idle if work waits for a CPU for at most this part of the time."""


def _waited_s() -> float | None:
    """Returns the seconds for which work has waited for a CPU since boot; ``None`` if the system does not report it."""
    try:
        some = Path("/proc/pressure/cpu").read_text("ascii").splitlines()[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / 1e6


class Since(float):
    """The time of an intervention (as :func:`time.time`), which can tell how busy the machine has been since."""

    waited_s: float | None

    @classmethod
    def now(cls) -> Since:
        """Returns the current time."""
        since = cls(time.time())
        since.waited_s = _waited_s()
        return since

    def bound_s(self) -> tuple[float, str]:
        """Returns the time within which a fault must be found, and the reason for this limit."""
        waited_s = _waited_s()
        if self.waited_s is None or waited_s is None:
            return FOUND_WITHIN_S + SLACK_S, "the system does not say whether the machine is idle"
        part = (waited_s - self.waited_s) / (time.time() - self)
        if part > IDLE:
            return FOUND_WITHIN_S + SLACK_S, f"the machine is busy, work waited for a CPU {part:.0%} of the time"
        return FOUND_WITHIN_S + ALLOWANCE_S, f"the machine is idle, work waited for a CPU {part:.0%} of the time"

    def found(self, *at: float) -> None:
        """Asserts that a fault was found in time; ``at`` are the times at which ranks found it."""
        (bound_s, why), took_s = self.bound_s(), max(at) - self
        assert took_s < bound_s, f"found after {took_s:.2f} s, but at most {bound_s:.1f} s are allowed: {why}"


PORTS = 500
"""How many ports each process of the test run has for itself. All are below those that Linux gives to connections."""

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 20
_ports = itertools.cycle(range(22_000 + _worker * PORTS, 22_000 + (_worker + 1) * PORTS))


def free_port() -> int:
    """Returns a port at which no process listens, and which neither other tests nor the kernel will take."""
    for port in itertools.islice(_ports, PORTS):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"none of the {PORTS} ports of this process is free")


@dataclass
class Job:
    """The processes of a job, by rank."""

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
        """Waits for a rank to end, and returns the last line of JSON that it printed."""
        out, err = self.processes[rank].communicate(timeout=within_s)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        assert lines, err
        return dict(json.loads(lines[-1]))

    def until(self, rank: int, key: str) -> Any:
        """Reads lines of a rank until one has ``key``, and returns the value."""
        while key not in (line := self._line(rank)):
            pass
        return line[key]

    def kill(self, rank: int, number: signal.Signals) -> Since:
        """Sends a signal to a rank, and returns the time."""
        self.processes[rank].send_signal(number)
        return Since.now()


@contextlib.contextmanager
def job(
    world: int, *arguments: str, ranks: Sequence[int] | None = None, worker: Path = WORKER, **variables: str
) -> Iterator[Job]:
    """Runs the worker as ``ranks`` of ``world`` (by default all); kills all its processes at the end of the block."""
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

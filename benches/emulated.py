"""What benches on an emulated cluster share: programs that run on its hosts, one process each, and Gloo's all-reduce.

A program's first process prints a line of JSON with the seconds of each exchange and the core-seconds of the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from syncline.testbed.check import busy_s

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP = 3
"""Exchanges that are not timed: connections are open then, and their windows, too."""
PAYLOAD = 1448 / 1514
"""Of a link's rate, what TCP's payload has."""


@dataclass
class Times:
    """What was measured."""

    seconds: list[float] = field(default_factory=list)
    """Of each exchange."""
    core_s: float = 0.0
    """How long cores of the machine were busy while they were timed, the kernel's work included."""

    def __add__(self, other: Times) -> Times:
        return Times(self.seconds + other.seconds, self.core_s + other.core_s)


def repeats(nbytes: int) -> int:
    """Exchanges that are timed."""
    return 5 if nbytes > 1 << 22 else 40


def timed(exchange: Callable[[], object], nbytes: int, *, first: bool) -> None:
    """Makes exchanges; the ``first`` process prints what they took."""
    seconds, before = [], 0.0
    for step in range(WARM_UP + repeats(nbytes)):
        before = busy_s() if step == WARM_UP else before
        began = time.perf_counter()
        exchange()
        seconds += [time.perf_counter() - began] if step >= WARM_UP else []
    if first:
        sys.stdout.write(json.dumps({"seconds": seconds, "core_s": busy_s() - before}) + "\n")


def gloo(nbytes: int) -> None:
    """One of Gloo's ranks."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    vector = torch.ones(nbytes // 4)
    timed(lambda: dist.all_reduce(vector), nbytes, first=dist.get_rank() == 0)
    dist.destroy_process_group()


def measure(bed: str, program: list[str], hosts: str) -> Times:
    """What a program tells that runs on these hosts, in the order of its ranks. Ends the bench where it fails."""
    command = [sys.executable, "-m", "syncline", "testbed", "run", bed, "--hosts", hosts, "--", *program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own command
    if done.returncode:
        sys.exit(done.stderr)
    line = next(line for line in done.stdout.splitlines() if "seconds" in line)
    return Times(**json.loads(line[line.index("{") :]))


def cost(times: Times, nbytes: int) -> str:
    """Core-seconds for each GB of ``nbytes`` an exchange, in words; of little, they are those of everything else."""
    return f", {times.core_s / (nbytes * len(times.seconds) / 1e9):.2f} core-s/GB" if nbytes > 1 << 25 else ""


def asked(value: float, bar: float, *, least: bool = True) -> str:
    """Whether a bar is reached, in words; it is the ``least`` that is asked for, or the most."""
    reached = value >= bar if least else value <= bar
    return f"({bar:g} is asked for: {'reached' if reached else 'NOT reached'})"

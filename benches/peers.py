"""What benches hold their own against: Gloo by way of PyTorch, and Open MPI; each where it is installed.

Each times all-reduces of floats, and its first process prints them as a line of JSON (:class:`Times`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timing import WARM_UP, repeats

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

ROUNDS = int(os.environ.get("ROUNDS", "3"))
"""How often all of them are measured in turn."""
GLOO = str(Path(__file__).parent / "gloo.py")
"""The program of Gloo's ranks."""
MPI_SOURCE = Path(__file__).parent / "mpi" / "allreduce.c"
MPI = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
"""More ranks than cores, which let each other run."""


@dataclass
class Times:
    """What was measured."""

    seconds: list[float] = field(default_factory=list)
    """Of each exchange."""
    core_s: float = 0.0
    """How long cores of the machine were busy while they were timed, the kernel's work included."""

    def __add__(self, other: Times) -> Times:
        return Times(self.seconds + other.seconds, self.core_s + other.core_s)


def answer(output: str) -> dict[str, Any]:
    """The line of JSON among what a program has printed. Ends the bench where there is none."""
    line = next((line for line in output.splitlines() if '"seconds"' in line), None)
    if line is None:
        sys.exit(f"a program was to print seconds, and printed: {output or 'nothing'}")
    return dict(json.loads(line[line.index("{") :]))


def told(output: str) -> Times:
    """The times that a program has printed."""
    return Times(**answer(output))


def done(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What a command prints. Ends the bench where it fails."""
    found = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)  # noqa: S603 - our own command
    if found.returncode:
        sys.exit(f"{' '.join(command)}: {found.stderr}")
    return found.stdout


def arguments(given: Sequence[str], cases: Collection[str]) -> tuple[str | None, list[str]]:
    """A Python that has PyTorch, where there is one, and the cases that are asked for: all where none is named."""

    def case(name: str) -> str:
        if name not in cases:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(cases)}")
        return name

    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=plain)
    parser.add_argument("--gloo", metavar="PYTHON", help="a Python that has PyTorch; this one where it has")
    parser.add_argument("cases", metavar="CASE", nargs="*", type=case, help=", ".join(cases))
    asked_for = parser.parse_args(given)
    python = asked_for.gloo or (sys.executable if find_spec("torch") else None)
    if python is None:
        sys.stdout.write("no PyTorch here, so nothing is held against Gloo: pip install torch, or --gloo PYTHON\n")
    return python, asked_for.cases or list(cases)


def with_mpi(folder: str) -> str | None:
    """MPI's program, built in a folder."""
    if shutil.which("mpirun") is None or shutil.which("mpicc") is None:
        sys.stdout.write("no Open MPI here: apt-get install openmpi-bin libopenmpi-dev\n")
        return None
    program = str(Path(folder) / "allreduce")
    done(["mpicc", "-O2", "-o", program, str(MPI_SOURCE)])
    return program


def mpi_arguments(nbytes: int) -> list[str]:
    """What MPI's program is told."""
    return [str(nbytes), str(WARM_UP), str(repeats(nbytes))]


def cost(times: Times, nbytes: int) -> str:
    """Core-seconds for each GB of ``nbytes`` an exchange, in words; of little, they are those of everything else."""
    return f", {times.core_s / (nbytes * len(times.seconds) / 1e9):.2f} core-s/GB" if nbytes > 1 << 25 else ""


def asked(value: float, bar: float, *, least: bool = True) -> str:
    """Whether a bar is reached, in words; it is the ``least`` that is asked for, or the most."""
    reached = value >= bar if least else value <= bar
    return f"({bar:g} is asked for: {'reached' if reached else 'NOT reached'})"

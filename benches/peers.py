"""The libraries that benches compare syncline with, if they are installed: Gloo, through PyTorch, and Open MPI.

Each program times all-reduces of floats, and its first process prints the times as a line of JSON (:class:`Times`).
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
"""How many times all libraries are measured in turn."""
GLOO = str(Path(__file__).parent / "gloo.py")
"""The program that runs one rank of Gloo."""
MPI_SOURCE = Path(__file__).parent / "mpi" / "allreduce.c"
MPI = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
"""Options for more ranks than cores; waiting ranks give up their core."""


@dataclass
class Times:
    """Measured times of exchanges."""

    seconds: list[float] = field(default_factory=list)
    """Duration of each exchange."""
    core_s: float = 0.0
    """Time for which cores of the machine were busy during the exchanges, the kernel's work included."""

    def __add__(self, other: Times) -> Times:
        return Times(self.seconds + other.seconds, self.core_s + other.core_s)


def answer(output: str) -> dict[str, Any]:
    """Returns the line of JSON in a program's output. Exits if there is none."""
    line = next((line for line in output.splitlines() if '"seconds"' in line), None)
    if line is None:
        sys.exit(f"a program printed no seconds, but: {output or 'nothing'}")
    return dict(json.loads(line[line.index("{") :]))


def times_of(output: str) -> Times:
    """Returns the times in a program's output."""
    return Times(**answer(output))


def output_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Runs a command and returns its output. Exits if it fails."""
    found = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)  # noqa: S603 - our own command
    if found.returncode:
        sys.exit(f"{' '.join(command)}: {found.stderr}")
    return found.stdout


def arguments(given: Sequence[str], cases: Collection[str]) -> tuple[str | None, list[str]]:
    """Parses arguments: returns a Python that has PyTorch, or ``None``, and the named cases, or all of them."""

    def case(name: str) -> str:
        if name not in cases:
            raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(cases)}")
        return name

    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__, formatter_class=plain)
    parser.add_argument("--gloo", metavar="PYTHON", help="a Python that has PyTorch (default: this one, if it has)")
    parser.add_argument("cases", metavar="CASE", nargs="*", type=case, help=", ".join(cases))
    options = parser.parse_args(given)
    python = options.gloo or (sys.executable if find_spec("torch") else None)
    if python is None:
        sys.stdout.write("no PyTorch here, so nothing is compared with Gloo: pip install torch, or --gloo PYTHON\n")
    return python, options.cases or list(cases)


def with_mpi(folder: str) -> str | None:
    """Builds the MPI program in a folder and returns its path; ``None`` if Open MPI is not installed."""
    if shutil.which("mpirun") is None or shutil.which("mpicc") is None:
        sys.stdout.write("no Open MPI here: apt-get install openmpi-bin libopenmpi-dev\n")
        return None
    program = str(Path(folder) / "allreduce")
    output_of(["mpicc", "-O2", "-o", program, str(MPI_SOURCE)])
    return program


def mpi_arguments(nbytes: int) -> list[str]:
    """Returns the arguments of the MPI program."""
    return [str(nbytes), str(WARM_UP), str(repeats(nbytes))]


def cost(times: Times, nbytes: int) -> str:
    """Says the core-seconds per GB for exchanges of ``nbytes``; nothing for small ones, where other work dominates."""
    return f", {times.core_s / (nbytes * len(times.seconds) / 1e9):.2f} core-s/GB" if nbytes > 1 << 25 else ""

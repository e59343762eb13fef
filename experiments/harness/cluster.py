"""A testbed that stays up while several things are measured on it, one after the other or at the same time.

:func:`cluster` brings it up with the fabric of a scenario, and takes it down again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from syncline.distances import Measured, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
"""The project's folder, in which programs run."""
TIMEOUT_S = 600
"""The longest time of a program on the hosts."""
SYNCLINE = (sys.executable, "-m", "syncline")
_LABEL = re.compile(r"^\[(?P<rank>[0-9]+)\] (?=[\[{])")
"""Prefix of a rank's line of JSON."""


def command(arguments: Sequence[str]) -> str:
    """Runs a command, and returns its output. Raises ``RuntimeError`` with the end of its error output if it fails."""
    process = subprocess.run(arguments, check=False, capture_output=True, text=True, cwd=ROOT)  # noqa: S603 - our own command
    return _output(arguments, process.returncode, process.stdout, process.stderr)


def _output(arguments: Sequence[str], status: int, stdout: str, stderr: str) -> str:
    if status:
        last = stderr.strip().splitlines()[-6:]
        raise RuntimeError("\n".join([f"{' '.join(map(str, arguments))[:200]} ended with status {status}", *last]))
    return stdout


@dataclass
class Running:
    """A program that runs on hosts."""

    arguments: Sequence[str]
    process: subprocess.Popen[str]

    def result(self) -> list[Any]:
        """Waits until the program ends; returns the line of JSON of each rank that printed one, by rank."""
        stdout, stderr = self.process.communicate()
        output = _output(self.arguments, self.process.returncode, stdout, stderr)
        found = {}
        for line in output.splitlines():
            if label := _LABEL.match(line):
                found[int(label["rank"])] = json.loads(line[label.end() :])
        if not found:
            raise RuntimeError(f"{self.arguments[-1]} printed no measurement")
        return [found[rank] for rank in sorted(found)]

    def stop(self) -> None:
        """Ends the program if it still runs."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate()


@dataclass
class Cluster:
    """A testbed that is up."""

    name: str
    hosts: int
    """How many hosts it has, without the tenants' machines."""
    python: str
    """The interpreter of programs on hosts."""

    def begin(self, program: Sequence[str], hosts: Sequence[int] | None = None) -> Running:
        """Starts a Python program on hosts, one process each; without ``hosts``, on all."""
        listed = ",".join(map(str, range(self.hosts) if hosts is None else hosts))
        arguments = [*SYNCLINE, "testbed", "run", self.name, "--timeout", f"{TIMEOUT_S}s", "--hosts", listed]
        # A single process would get this terminal, and its lines no label: its rank is 0.
        arguments += ["--", self.python, "-W", "ignore", *program]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)  # noqa: S603 - our own command
        return Running(arguments, process)

    def run(self, program: Sequence[str], hosts: Sequence[int] | None = None) -> list[Any]:
        """Runs a Python program on hosts; returns the line of JSON of each rank that printed one, by rank."""
        running = self.begin(program, hosts)
        try:
            return running.result()
        finally:
            running.stop()

    def shape(self, target: str, rate: str, seconds: float) -> tuple[float, float]:
        """Changes the rate of the links of ``target``, such as ``h3``, for some time, and waits until that is over.

        Returns when the rate changed and when it was restored, in seconds since 1970.
        """
        arguments = [*SYNCLINE, "testbed", "shape", self.name, target, "--rate", rate, "--for", f"{seconds:g}s"]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)  # noqa: S603 - our own command
        with process:
            # The command lists the changed links on stdout, and reports that they are restored on stderr.
            lines, reports = iter(process.stdout or ()), iter(process.stderr or ())
            try:
                next(lines, None)
                changed = time.time()
                said = next(reports, "")
                restored = time.time()
            finally:
                process.terminate()
        _output(arguments, 0 if restored - changed >= seconds else 1, "", said)
        return changed, restored

    def traffic(self, *, on: bool) -> None:
        """Switches the tenants' traffic off; or on, from the beginning of its schedule."""
        command([*SYNCLINE, "testbed", "traffic", self.name, "on" if on else "off", "--quiet"])

    def tenants(self) -> list[dict[str, Any]]:
        """What each tenant has sent since it was switched on."""
        return list(json.loads(command([*SYNCLINE, "testbed", "status", self.name, "--json"]))["tenants"])

    def probe(self, what: str = "rtt", *more: str) -> Measured:
        """Measures round trips (``rtt``), rates (``rate``) or ``both`` between all hosts; hosts are named ``h0``..."""
        names = [f"syncline.{self.name}.h{host}" for host in range(self.hosts)]
        with TemporaryDirectory(prefix="syncline-") as folder:
            out = str(Path(folder) / "probe.parquet")
            launch = ["--launch", "ip netns exec {host} python3 -"]
            command([*SYNCLINE, "probe", *names, "--what", what, "--out", out, "--quiet", *launch, *more])
            measured = read(out)
        return Measured(tuple(f"h{host}" for host in range(self.hosts)), measured.pairs)


@contextmanager
def cluster(scenario: Path, python: str = sys.executable, **changes: Any) -> Iterator[Cluster]:
    """A testbed with the fabric of a scenario file, with ``changes`` as with ``--set``, such as ``traffic``.

    Raises ``RuntimeError`` if it cannot be brought up. The testbed's name contains the process id, so that two commands
    at a time use two testbeds.
    """
    name = f"figure-{os.getpid()}"
    sets = [f"{key}={json.dumps(value)}" for key, value in {"name": name, **changes}.items()]
    up = command(
        [*SYNCLINE, "testbed", "up", str(scenario), "--json", *(word for each in sets for word in ("--set", each))]
    )
    try:
        yield Cluster(name, len(json.loads(up)["testbed"]["hosts"]), python)
    finally:
        command([*SYNCLINE, "testbed", "down", name])

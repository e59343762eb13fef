"""The packet model compared with ns-3 and htsim: the same all-reduces on a star of hosts. Usage: packet.py.

Prints CPU time, packets sent on a link ("packet-hops") a second, memory, and the time that each simulator predicts.
Ours is the best of five runs in one process. ns-3 runs at the same time if Debian's package is installed. The
optimised build of ns-3 and htsim are not packaged; their measurements are written down below.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from requirement import print_out

ROOT = Path(__file__).parent.parent
SOURCE = Path(__file__).parent / "ns3" / "star.cc"
PROGRAM = ROOT / "target" / "ns3" / "star"
PACKAGES = ("ns3-core", "ns3-internet", "ns3-network", "ns3-point-to-point")
INSTALL = "to run ns-3 beside it: sudo apt-get install libns3-dev g++ pkg-config"
RUNS = {32: 5}
"""Runs of ns-3, by number of hosts; cases that are not listed take minutes and run once."""
WRITTEN_DOWN = "measured before, on two idle cores of 2.6 GHz with Debian 12"


@dataclass(frozen=True)
class Measured:
    """Resources that a simulator used for one all-reduce, and the time that it predicts."""

    simulator: str
    cpu_s: float
    hops: float
    memory_bytes: float
    done_s: float


NS3 = "ns-3 3.48-dev, optimised, no logs or asserts *"
HTSIM = "htsim, csg-htsim 841d9e7, -O3 *"
BEFORE = {
    (32, 2_000_000): (
        Measured(NS3, 1.52, 2 * 176_080, 61e6, 0.3279e-3),
        Measured(HTSIM, 0.08, 2 * 176_192, 13e6, 0.3403e-3),
    ),
    (128, 8_000_000): (
        Measured(NS3, 61.3, 2 * 2_885_440, 764e6, 1.3400e-3),
        Measured(HTSIM, 1.50, 2 * 2_849_024, 161e6, 1.3777e-3),
    ),
}
"""Measurements of other simulators, by hosts and bytes. Each packet that a host sends crosses two links. htsim's TCP
has no selective acknowledgements and counts no header bytes."""


def ours() -> list[tuple[dict[str, Any], Measured]]:
    """Runs every case of ``crates/net-packet/benches/star.rs``."""
    command = "cargo bench --quiet --locked -p syncline-net-packet --bench star -- --json"
    done = subprocess.run(shlex.split(command), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [(case, measured("syncline", case)) for case in cases]


def measured(simulator: str, case: dict[str, Any]) -> Measured:
    """Converts the JSON that one of the two programs prints."""
    return Measured(simulator, case["cpu_s"], case["hops"], case["memory_bytes"], case["done_ps"] / 1e12)


def ns3() -> str | None:
    """Builds the program for ns-3 and returns ns-3's version; ``None`` if ns-3 is not installed."""
    tools = [shutil.which(tool) for tool in ("pkg-config", "g++")]
    if not all(tools):
        return None
    config, compiler = (str(tool) for tool in tools)
    if subprocess.run([config, "--exists", *PACKAGES], check=False).returncode:  # noqa: S603
        return None
    asked = [[config, "--modversion", PACKAGES[0]], [config, "--cflags", *PACKAGES]]
    version, flags = (subprocess.check_output(each, text=True).strip() for each in asked)  # noqa: S603
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"building {SOURCE.relative_to(ROOT)}\n")
        # Debian's flags have a semicolon in them.
        options = [option.rstrip(";") for option in shlex.split(flags.replace(";", " "))]
        libraries = [f"-l{package}" for package in reversed(PACKAGES)]
        command = [compiler, "-O2", "-std=c++17", *options, str(SOURCE), *libraries, "-o", str(PROGRAM)]
        subprocess.run(command, check=True)  # noqa: S603
    return version


def theirs(version: str, case: dict[str, Any]) -> Measured:
    """Runs the same case in ns-3 and returns the run with the least CPU time."""
    arguments = [str(PROGRAM), *(str(case[key]) for key in ("hosts", "bytes", "buffer"))]
    sys.stderr.write(f"ns-3: {case['hosts']} hosts\n")
    runs = [
        json.loads(subprocess.check_output(arguments, text=True))  # noqa: S603
        for _ in range(RUNS.get(case["hosts"], 1))
    ]
    best = min(runs, key=lambda run: run["cpu_s"])
    return measured(f"Debian's ns-3 {version} (logging compiled in)", best)


def line(each: Measured, us: Measured) -> str:
    """Returns a line of the table: what a simulator used, and the ratios to ours."""
    ratio = "" if each is us else f"{each.cpu_s / us.cpu_s:8.1f} x {each.done_s / us.done_s:8.4f}"
    return (
        f"  {each.simulator:46} {each.cpu_s:8.3f} s {each.hops / each.cpu_s / 1e6:8.3f} M/s "
        f"{each.memory_bytes / 1e6:6.0f} MB {1e3 * each.done_s:8.4f} ms{ratio}"
    )


def others(version: str | None, case: dict[str, Any]) -> list[Measured]:
    """Measurements of other simulators for a case; all of them only simulate TCP."""
    written = BEFORE.get((case["hosts"], case["bytes"]), ()) if case["transport"] == "Tcp" else ()
    return [*([theirs(version, case)] if version and written else []), *written]


def main() -> None:
    """Measures every case and prints a table for each."""
    version = ns3()
    print_out("All-reduce by all-to-all, links of 100 Gb/s and 0.5 us around one switch")
    for case, us in ours():
        what = f"{case['bytes'] // 1_000_000} MB, {case['buffer'] >> 20} MiB of buffer, {case['transport'].upper()}"
        print_out(f"\n{case['hosts']} hosts, {what}")
        print_out(f"  {'':46} {'CPU':>10} {'packet-hops':>12} {'memory':>9} {'answer':>11}  CPU and answer to ours")
        print_out(line(us, us))
        for each in others(version, case):
            print_out(line(each, us))
    print_out(f"\n* {WRITTEN_DOWN}")
    if version is None:
        print_out(f"ns-3 is not installed, so it was not run; {INSTALL}")


if __name__ == "__main__":
    main()

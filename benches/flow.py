"""The flow model compared with SimGrid: the same flows over the same links. Usage: flow.py [--all].

Prints CPU time, flows a second, memory, when the last flow ends, and whether the required speed is reached. If Debian's
SimGrid is installed, it runs at the same time on flows of the same weights, and the end of each flow is compared with
ours. SimGrid needs minutes for the large cases, so they run only with ``--all``, and for at most ten minutes.
SimGrid 4.1 is not packaged; its times were measured before and are written down here.
"""

from __future__ import annotations

import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from requirement import outcome, print_out

ROOT = Path(__file__).parent.parent
SOURCE = Path(__file__).parent / "simgrid" / "flows.cc"
PROGRAM = ROOT / "target" / "simgrid" / "flows"
INSTALL = "to run SimGrid beside it: sudo apt-get install libsimgrid-dev g++ pkg-config"
FEW = 5_000
"""Largest number of flows that SimGrid simulates within seconds."""
LONGEST_S = 600
"""Seconds after which SimGrid is stopped."""
CLOSE = 0.01
"""Allowed relative difference between the ends of a flow."""
UPDATES = ("lazy", "full")
"""How SimGrid recomputes rates when a flow ends; the first is its default."""

BEFORE = {
    "all-to-all of 128 hosts, all sizes different": (51.7, 50),
    "65,536 equal flows, fat tree of 1,024 hosts": (75.7, 100),
}
"""CPU seconds that SimGrid 4.1 took, and the required speed of the model relative to it."""
MILLION = "a million random flows, fat tree, 16 a host"
LIMITS = {MILLION: 60.0, f"{MILLION}, 0.1 %": 60.0}
"""Maximum CPU seconds that the model may take."""
WRITTEN_DOWN = "measured before, on two idle cores of 2.6 GHz with Debian 12, model LV08, fat trees of its own routing"


@dataclass(frozen=True)
class Answer:
    """When SimGrid's last flow of a case ends, and the relative differences between ends of its flows and of ours."""

    done_s: float
    worst: float
    median: float


@dataclass(frozen=True)
class Measured:
    """Time that SimGrid took for a case; ``answer`` is ``None`` if SimGrid was stopped after that time."""

    simulator: str
    cpu_s: float
    answer: Answer | None


def ours(folder: Path, *, everything: bool) -> list[dict[str, Any]]:
    """Runs the cases of ``crates/net-flow/benches/sharing.rs``; writes links, flows and ends of some to ``folder``."""
    command = "cargo bench --quiet --locked -p syncline-net-flow --bench sharing -- --json"
    arguments = [*shlex.split(command), "--dump", str(folder), *(["--all"] if everything else [])]
    done = subprocess.run(arguments, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def simgrid() -> str | None:
    """Builds the program for SimGrid and returns SimGrid's version; ``None`` if SimGrid is not installed."""
    tools = [shutil.which(tool) for tool in ("pkg-config", "g++")]
    if not all(tools):
        return None
    config, compiler = (str(tool) for tool in tools)
    asked = subprocess.run([config, "--modversion", "simgrid"], check=False, capture_output=True, text=True)  # noqa: S603
    if asked.returncode:
        return None
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < SOURCE.stat().st_mtime:
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"building {SOURCE.relative_to(ROOT)}\n")
        command = [compiler, "-O2", "-std=c++17", str(SOURCE), "-lsimgrid", "-o", str(PROGRAM)]
        subprocess.run(command, check=True)  # noqa: S603
    return asked.stdout.strip()


def ends(dumped: Path) -> list[float]:
    """Returns when each flow of a case ended, in seconds."""
    lines = dumped.read_text(encoding="utf-8").splitlines()
    _, links = lines[0].split()
    return [float(line.split()[3]) for line in lines[1 + int(links) :]]


def theirs(version: str, dumped: Path, update: str) -> Measured:
    """Runs the same flows in SimGrid."""
    sys.stderr.write(f"SimGrid: {dumped.name}, {update}\n")
    file = dumped.with_suffix(f".{update}")
    arguments = [str(PROGRAM), str(dumped), str(file), update, "--log=xbt_cfg.threshold:warning"]
    name = f"Debian's SimGrid {version}, CM02, {update}"
    try:
        output = json.loads(subprocess.check_output(arguments, text=True, timeout=LONGEST_S))  # noqa: S603
    except subprocess.TimeoutExpired:
        return Measured(name, LONGEST_S, None)
    found = [float(line) for line in file.read_text(encoding="utf-8").split()]
    parts = [abs(other / own - 1) for other, own in zip(found, ends(dumped), strict=True)]
    return Measured(name, output["cpu_s"], Answer(output["done_s"], max(parts), statistics.median(parts)))


def verdict(case: dict[str, Any]) -> list[str]:
    """Returns lines that say what SimGrid 4.1 took for a case, and whether the required speed is reached."""
    cpu_s = case["cpu_s"]
    lines = []
    if case["name"] in BEFORE:
        before, times = BEFORE[case["name"]]
        lines.append(f"  {'SimGrid 4.1 *':38} {before:9.3f} s{'':23}{before / cpu_s:8.1f} x")
        lines.append(f"  at least {times} x SimGrid 4.1: {outcome(reached=before / cpu_s >= times)}")
    if case["name"] in LIMITS:
        limit = LIMITS[case["name"]]
        lines.append(f"  at most {limit:.0f} s: {outcome(reached=cpu_s <= limit)}")
    return lines


def line(simulator: str, case: dict[str, Any], cpu_s: float, done_s: float) -> str:
    """Returns the line that says what a simulator took for a case."""
    return f"  {simulator:38} {cpu_s:9.3f} s {case['flows'] / cpu_s / 1e3:8.1f} k/s {1e3 * done_s:8.4f} ms"


def table(case: dict[str, Any], others: list[Measured]) -> list[str]:
    """Returns the lines to print for a case."""
    cpu_s = case["cpu_s"]
    lines = [
        f"\n{case['name']}",
        f"{line('syncline', case, cpu_s, case['done_ps'] / 1e12)}  {case['memory_bytes'] / 1e6:.0f} MB",
    ]
    for each in others:
        ratio = f"{each.cpu_s / cpu_s:8.1f} x"
        if each.answer is None:
            lines.append(f"  {each.simulator:38} {each.cpu_s:9.3f} s, then stopped{'':10}{ratio} at least")
            continue
        lines.append(f"{line(each.simulator, case, each.cpu_s, each.answer.done_s)}{ratio}")
        close = "within" if each.answer.worst <= CLOSE else "not all within"
        lines.append(f"    ends of flows {close} {CLOSE:.0%} of it: {apart(each.answer.worst, each.answer.median)}")
    if case["worst"] is not None:
        lines.append(f"    ends of flows beside those of exact sharing: {apart(case['worst'], case['median'])}")
    return lines + verdict(case)


def apart(worst: float, median: float) -> str:
    """Says how far ends of flows are apart."""
    return f"at most {worst:.2g} apart, half of them at most {median:.2g}"


def main() -> None:
    """Measures every case and prints its results."""
    everything = "--all" in sys.argv[1:]
    version = simgrid()
    print_out("Flows that share links of 100 Gb/s and 0.5 us: CPU time, flows a second, last end, CPU time to ours")
    left_out = False
    with tempfile.TemporaryDirectory() as folder:
        for case in ours(Path(folder), everything=everything):
            few = everything or case["flows"] <= FEW
            left_out |= bool(version and case["dumped"] and not few)
            run = version and case["dumped"] and few
            others = [theirs(str(version), Path(folder) / case["dumped"], update) for update in UPDATES] if run else []
            for each in table(case, others):
                print_out(each)
    print_out(f"\n* {WRITTEN_DOWN}")
    if left_out:
        print_out("SimGrid needs minutes for the large cases, so they run only with --all")
    if version is None:
        print_out(f"SimGrid is not installed, so it was not run; {INSTALL}")


if __name__ == "__main__":
    main()

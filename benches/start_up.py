"""Time that the program takes to start: wall time of whole processes, best of many. Usage: start_up.py [RUNS]."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

SIMULATE = """
import syncline
workload = {"collective": "all_gather", "bytes": "1kB"}
syncline.simulate(workload=workload, fabric={"shape": "FC(2)", "rate": "1GB/s"})
"""
PROGRAM = Path(sys.executable).parent / "syncline"
CASES = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "syncline --version": [str(PROGRAM), "--version"],
    "import syncline": [sys.executable, "-c", "import syncline"],
    "import syncline, and simulate": [sys.executable, "-c", SIMULATE],
}


def main(runs: int) -> None:
    """Measures every case and prints a line for each."""
    for name, command in CASES.items():
        times = []
        for _ in range(runs):
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own commands
            times.append(time.perf_counter() - started)
        times.sort()
        middle = times[len(times) // 2]
        sys.stdout.write(f"{name}: {1e3 * times[0]:.0f} ms, median {1e3 * middle:.0f} ms of {runs}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)

"""Time to simulate jobs in which one rank, or one iteration, stands for many. Usage: scale.py [RUNS].

Prints CPU time with all tables, best of five, the memory of the whole process, and this project's own limits on CPU
time. Cases that do not take too long are also run with every rank simulated.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import syncline

RESNET = Path(__file__).parent.parent / "examples" / "resnet50-torus" / "scenario.yaml"


def training(iterations: int) -> dict[str, Any]:
    """ResNet-50, data parallel on a torus of 2 x 4 x 4 NPUs."""
    return {"scenario": RESNET, "set": {"workload.iterations": iterations}}


def all_reduce(shape: str) -> dict[str, Any]:
    """An all-reduce of 1 GiB in 64 chunks over three dimensions."""
    return {
        "set": None,
        "workload": {"collective": "all_reduce", "bytes": "1GiB"},
        "fabric": {"shape": shape, "rate": ["200GB/s", "100GB/s", "50GB/s"], "latency": ["50ns", "500ns", "2us"]},
        "collectives": {"chunks": 64, "endpoint_delay": "10ns", "reduction_rate": "1600GB/s"},
    }


CASES: dict[str, tuple[dict[str, Any], float | None]] = {
    "ResNet-50, 2x4x4, 2 iterations": (training(2), 0.1),
    "ResNet-50, 2x4x4, 2 iterations, every rank": ({**training(2), "symmetry": False}, None),
    "ResNet-50, 2x4x4, 1,000 iterations": (training(1000), 1.0),
    "1 GiB, 64 chunks, 1,024 NPUs": (all_reduce("Ring(8)_FC(8)_Switch(16)"), 0.05),
    "1 GiB, 64 chunks, 1,024 NPUs, every rank": (
        {**all_reduce("Ring(8)_FC(8)_Switch(16)"), "symmetry": False},
        None,
    ),
    "1 GiB, 64 chunks, 16,384 NPUs": (all_reduce("Ring(16)_FC(16)_Switch(64)"), None),
    "1 GiB, 64 chunks, 1,048,576 NPUs": (all_reduce("Ring(16)_FC(16)_Switch(4096)"), 1.0),
}
"""Scenarios, and the most CPU seconds that they may take."""


def measure(name: str, runs: int) -> None:
    """Simulates one case and prints its line."""
    given, bar = CASES[name]
    sections = {key: value for key, value in given.items() if key not in ("scenario", "set")}
    prepared = syncline.load(given.get("scenario"), set=given["set"], **sections)
    best = float("inf")
    for _ in range(runs):
        started = time.process_time()
        result = syncline.simulate(prepared)
        best = min(best, time.process_time() - started)
    summary = result.summary
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    allowed = f" (bar {1e3 * bar:.0f} ms)" if bar else ""
    sys.stdout.write(
        f"{name}: {1e3 * best:.1f} ms CPU{allowed}, {peak:.0f} MiB; {summary.simulated_ranks} of {summary.ranks} ranks"
        f" and {summary.simulated_iterations} of {summary.iterations} iterations simulated;"
        f" {1e3 * summary.total_time_s:.3f} ms\n"
    )


def main(runs: int) -> None:
    """Measures every case in a separate process, so that memory is measured for each case."""
    for name in CASES:
        subprocess.run([sys.executable, __file__, str(runs), name], check=True)  # noqa: S603 - our own commands


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    measure(sys.argv[2], number) if len(sys.argv) > 2 else main(number)

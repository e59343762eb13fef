"""Runs jobs of several processes that execute a case, such as those in :mod:`tests.torch.cases`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.runtime.jobs import free_port

ROOT = Path(__file__).parents[2]


def start(world, case, *arguments, cases="cases", **variables):
    """Starts the processes of a job, and returns them by rank; ``cases`` is the module with the case."""
    common = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(world),
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    return [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", f"tests.torch.{cases}", case, *arguments],
            cwd=ROOT,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def end(processes, within_s=100):
    """Waits for processes; returns the exit status and output of each. Kills those that have not ended in time."""
    try:
        answers = [process.communicate(timeout=within_s) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, out, err) for process, (out, err) in zip(processes, answers, strict=True)]


def run(world, case, *arguments, within_s=100, **more):
    """Runs a case as each rank of a job, and returns what each printed."""
    answers = end(start(world, case, *arguments, **more), within_s)
    assert all(status == 0 for status, _, _ in answers), "\n".join(err for _, _, err in answers)
    return [out for _, out, _ in answers]

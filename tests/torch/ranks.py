"""Jobs of several processes that run a case of :mod:`tests.torch.cases`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.runtime.jobs import free_port

ROOT = Path(__file__).parents[2]


def start(world, case, *arguments, cases="cases", **variables):
    """The processes of a job, by rank; ``cases`` is the module that has the case."""
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
    """What each process printed, and its exit status; none is left, whatever happens."""
    try:
        answers = [process.communicate(timeout=within_s) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, out, err) for process, (out, err) in zip(processes, answers, strict=True)]


def run(world, case, *arguments, within_s=100, **more):
    """Runs a case as each rank of a job; what each printed."""
    answers = end(start(world, case, *arguments, **more), within_s)
    assert all(status == 0 for status, _, _ in answers), "\n".join(err for _, _, err in answers)
    return [out for _, out, _ in answers]

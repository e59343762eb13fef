"""The benchmarks of the runtime run, and print the requested cases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.specs import needs_namespaces

BENCHES = Path(__file__).parents[2] / "benches"


def run(bench, case):
    """The output of a benchmark for one case."""
    done = subprocess.run(
        [sys.executable, BENCHES / bench, case], capture_output=True, text=True, env={**os.environ, "ROUNDS": "1"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(300)
def test_the_bench_of_one_machine_lists_every_transport_or_says_why_not():
    said = run("machine.py", "4B")
    for what in ("4B, shared memory: ", "4B, TCP: "):
        assert what in said
    assert ("no PyTorch here" in said) != ("4B, Gloo, " in said)
    assert ("no Open MPI here" in said) != ("4B, Open MPI: " in said)


@pytest.mark.timeout(300)
@needs_namespaces
@pytest.mark.parametrize(
    ("bench", "words"),
    [
        ("executor.py", ["reads from a file which rank is in which rack", "4B: halving_doubling "]),
        ("hub.py", ["one host more than Gloo's", "4B: hub "]),
    ],
)
def test_benches_on_emulated_clusters_list_every_library_or_say_why_not(bench, words):
    said = run(bench, "4B")
    assert all(word in said for word in words), said
    assert ("no PyTorch here" in said) != ("; Gloo " in said)
    if bench == "executor.py":
        assert ("no Open MPI here" in said) != ("; Open MPI " in said)

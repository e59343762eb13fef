"""The screen's output for several jobs."""

from __future__ import annotations

from typing import Any

import pytest

import syncline
from syncline.report.subject import facts
from syncline.report.terminal.answer import as_text


def job(name: str, npus: str, iterations: int) -> dict[str, Any]:
    return {
        "name": name,
        "workload": {"collective": "all_to_all", "bytes": f"{iterations}MB", "iterations": iterations},
        "placement": npus,
    }


def jobs(*iterations: int) -> syncline.Result:
    made = [job(f"job{at}", f"{2 * at}-{2 * at + 1}", number) for at, number in enumerate(iterations)]
    return syncline.simulate(jobs=made, fabric={"shape": "Switch(16)", "rate": "10GB/s"})


@pytest.mark.parametrize(
    ("iterations", "said"),
    [
        ((3,), "1 job of 3 iterations"),
        ((4, 2), "2 jobs of 4 and 2 iterations"),
        ((2, 2, 2), "3 jobs of 2 iterations each"),
        ((1, 1), "2 jobs of 1 iteration each"),
        ((1, 2, 3, 1, 2), "5 jobs of 1 to 3 iterations"),
    ],
)
def test_the_screen_counts_the_iterations_of_all_jobs(iterations: tuple[int, ...], said: str) -> None:
    assert facts(jobs(*iterations))[-1] == said


def test_rows_name_their_job() -> None:
    lines = as_text(jobs(4, 2)).splitlines()
    first = next(line.split() for line in lines if line.lstrip().startswith("job0"))
    assert first[:3] == ["job0", "2", "4"]
    head = next(at for at, line in enumerate(lines) if "bus bandwidth" in line)
    assert lines[head].split()[:2] == ["job", "collective"]
    rows = [line.split()[:3] for line in lines[head + 2 : head + 4]]
    assert sorted(rows) == [["job0", "all_to_all", "x4"], ["job1", "all_to_all", "x2"]]

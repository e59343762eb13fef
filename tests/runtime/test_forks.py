"""Processes that a rank forks: they end normally, and keep no connection of their parent open."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

from tests.runtime.jobs import job

WORKER = Path(__file__).parent / "forking.py"


def test_a_child_ends_and_cannot_use_its_parents_communicator():
    with job(2, json.dumps({"child": "ends"}), worker=WORKER) as running:
        for rank in range(2):
            assert running.until(rank, "child") == 0
            assert "process that this one was forked from" in running.until(rank, "used")


def test_a_forked_child_keeps_no_connection_of_its_parent_open():
    """Fault: a rank is killed (`-9`) while a process that it forked lives on -> the others name it, at once"""
    with job(2, json.dumps({"child": "stays"}), worker=WORKER) as running:
        child = running.until(0, "pid")
        running.until(1, "pid")
        since = running.kill(0, signal.SIGKILL)
        try:
            outcome = running.outcome(1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    # If the connection had stayed open, the rank would be found by its silence, but later.
    assert "closed" in outcome["error"], outcome
    assert outcome["at"] - since < 1.0, outcome

"""Elastic training whose processes torchrun starts, and starts again."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.runtime.jobs import free_port

pytest.importorskip("torch", reason="PyTorch is not installed: see `make test-torch`")
from tests.torch.test_elastic import STEPS, WORKER, check


@contextlib.contextmanager
def torchrun(*arguments, settings, **variables):
    """Starts an agent of torchrun with the worker of elastic training; ends it with the block."""
    command = [sys.executable, "-m", "torch.distributed.run", *arguments, str(WORKER)]
    process = subprocess.Popen(
        [*command, json.dumps({"steps": STEPS, "pause_s": 0.02, **settings})],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            lose_host(process)
        process.communicate()


def lose_host(agent):
    """Kills an agent and its workers at once."""
    workers = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text("ascii").split()
    for process in [agent.pid, *map(int, workers)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def told(process, within_s=180.0):
    """Waits for an agent, and returns the JSON that its workers have printed, in order."""
    out, err = process.communicate(timeout=within_s)
    assert process.returncode == 0, err
    # Lines of several workers may share a line.
    return [json.loads(text) for text in re.findall(r"\{.*?\}", out)]


def test_all_ranks_of_an_agent_start_again_and_go_on_from_what_was_saved(tmp_path):
    """Fault: a rank under torchrun dies, and the agent restarts all of its ranks -> they go on from the saved state"""
    settings = {"store": True, "saves": str(tmp_path / "state.pt"), "dies_at": {"1": 10}}
    arguments = ["--standalone", "--nproc-per-node", "3", "--max-restarts", "2"]
    with torchrun(*arguments, settings=settings) as agent:
        lines = told(agent)
    done = [line["done"] for line in lines if "done" in line]
    # The agent takes a moment to end the others, which go on until then.
    parts = {line["step"]: line["ranks"] for line in lines if "step" in line}
    assert len(done) == 3 and sorted(parts) == list(range(STEPS)), "no step is missing"
    assert parts[0] == parts[STEPS - 1] == [0, 1, 2]
    check([({}, parameters) for parameters in done], parts)


def test_the_others_go_on_when_a_host_is_lost():
    """Fault: a host with torchrun's agent is lost -> the ranks of other agents go on, and lose no step"""
    settings = {"store": True, "pause_s": 0.1}
    where = f"127.0.0.1:{free_port()}"
    arguments = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-id", "job"]
    arguments += ["--rdzv-backend", "c10d", "--rdzv-endpoint", where]
    arguments += ["--rdzv-conf", "last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=2"]
    with torchrun(*arguments, settings=settings) as first:
        time.sleep(1.0)
        with torchrun(*arguments, settings=settings) as second:
            line = second.stdout.readline()
            assert "step" in line, second.communicate()[1]
            assert json.loads(line)["ranks"] == [0, 1]
            lose_host(second)
        # The agent that is left waits for the other one for minutes before it ends.
        lines = list(itertools.takewhile(lambda line: '"done"' not in line, first.stdout))
        lines = [json.loads(line) for line in lines if line.startswith("{")]
    ranks = {line["step"]: line["ranks"] for line in lines if "step" in line}
    assert sorted(ranks) == list(range(STEPS)), "no step is missing"
    assert ranks[0] == [0, 1] and ranks[STEPS - 1] in ([0], [1])


@pytest.mark.skipif(
    shutil.which("redis-server") is None or find_spec("redis") is None,
    reason="redis-server or the library redis is not installed",
)
@pytest.mark.parametrize("lost", [0, 1])
def test_an_agent_of_one_rank_starts_only_that_rank_again(lost, tmp_path):
    """Fault: a rank with an agent of its own dies -> the others lose no step, and let it in when it is back"""
    port = free_port()
    redis = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    settings = {"redis": f"redis://127.0.0.1:{port}/0", "dies_at": {str(lost): 10}, "whole": True}
    try:
        with contextlib.ExitStack() as stack:
            agents = [
                stack.enter_context(
                    torchrun(
                        *("--standalone", "--nproc-per-node", "1", "--max-restarts", "2"),
                        settings=settings,
                        JOB_RANK=str(rank),
                        JOB_WORLD="3",
                    )
                )
                for rank in range(3)
            ]
            lines = [told(agent) for agent in agents]
    finally:
        redis.kill()
        redis.wait()
    parts = {line["step"]: line["ranks"] for line in lines[2] if "step" in line}
    assert sorted(parts) == list(range(len(parts))), "no step is missing"
    assert parts[10] == [rank for rank in range(3) if rank != lost] and parts[max(parts)] == [0, 1, 2]
    check([({}, each[-1]["done"]) for each in lines], parts)

"""Runs the programs of the guide ``train-with-pytorch.md``."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from syncline.hub import HubResources, Service
from tests.runtime.guides import answers, shown, write
from tests.runtime.jobs import free_port

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

GUIDE = "train-with-pytorch.md"


def test_the_training_program_prints_what_the_guide_shows(tmp_path):
    write(GUIDE, "train.py", tmp_path)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == shown(GUIDE, "torchrun")[-1]


def test_the_hub_program_prints_what_the_guide_shows(tmp_path):
    with Service(port=0, resources=HubResources(cores=1)) as service:
        said = answers(GUIDE, "hub.py", tmp_path, 2, SYNCLINE_HUBS=service.addresses[0])
    assert [out for out, _ in said] == [shown(GUIDE, "python hub.py")[-1] + "\n", ""], said


def test_the_elastic_program_ends_on_all_ranks(tmp_path):
    said = answers(GUIDE, "elastic.py", tmp_path, 2, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    assert [out for out, _ in said] == [f"rank {rank} of [0, 1] is done\n" for rank in range(2)], said

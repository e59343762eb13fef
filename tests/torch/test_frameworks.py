"""Frameworks train over the backend with the guide's programs, and give the same results as over Gloo."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.runtime.guides import shown, write

GUIDE = "train-with-pytorch.md"

PROGRAMS = {
    "with_accelerate.py": ["accelerate"],
    "with_trainer.py": ["transformers", "accelerate"],
    "with_lightning.py": ["lightning"],
    "with_fabric.py": ["lightning"],
}


def train(program, folder):
    """Runs a program on two ranks, and returns the line with its result."""
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*command, program], cwd=folder, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if re.match("(syncline|gloo): ", line))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.timeout(240)
def test_a_framework_trains_as_with_gloo(program, tmp_path):
    for package in ["torch", *PROGRAMS[program]]:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    write(GUIDE, program, tmp_path)
    ours = train(program, tmp_path)
    # A sum of two contributions does not depend on their order, so results are equal in every digit.
    text = (tmp_path / program).read_text()
    (tmp_path / program).write_text(text.replace('"syncline"', '"gloo"'))
    assert ours.replace("syncline: ", "gloo: ") == train(program, tmp_path)
    if program == "with_accelerate.py":
        assert ours == shown(GUIDE, "torchrun --nproc-per-node 2")[-1]

"""The program of the guide works, as its page has it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.conftest import ROOT
from tests.docs.pages import blocks

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")

GUIDE = ROOT / "docs" / "how-to" / "train-with-pytorch.md"


def test_training(tmp_path):
    program = next(block for block in blocks(GUIDE) if block.title == "train.py")
    (tmp_path / "train.py").write_text("\n".join(program.lines) + "\n")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    shown = next(block for block in blocks(GUIDE) if any("torchrun" in line for line in block.lines))
    assert done.stdout.strip() == shown.lines[-1]

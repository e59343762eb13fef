"""The program of the guide works, as its page has it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import ROOT
from tests.docs.pages import blocks
from tests.runtime.jobs import free_port

GUIDE = ROOT / "docs" / "how-to" / "run-collectives.md"


def test_the_first_sum(tmp_path):
    program = next(block for block in blocks(GUIDE) if block.title == "sum.py")
    (tmp_path / "sum.py").write_text("\n".join(program.lines) + "\n")
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": f"127.0.0.1:{free_port()}"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "sum.py"],
            cwd=tmp_path,
            env={**common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    assert [rank.communicate(timeout=60) for rank in ranks] == [("0 2.0\n", ""), ("1 2.0\n", "")]

"""The program of the guide works, as its page has it."""

from __future__ import annotations

import os
import subprocess
import sys

from syncline.hub import Service
from tests.conftest import ROOT
from tests.docs.pages import blocks

GUIDE = ROOT / "docs" / "how-to" / "parameter-hub.md"


def test_the_first_step(tmp_path):
    program = next(block for block in blocks(GUIDE) if block.title == "train.py")
    (tmp_path / "train.py").write_text("\n".join(program.lines) + "\n")
    with Service(port=0) as service:
        common = {**os.environ, "WORLD_SIZE": "2", "SYNCLINE_HUBS": service.addresses[0]}
        ranks = [
            subprocess.Popen(
                [sys.executable, "train.py"],
                cwd=tmp_path,
                env={**common, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        assert [rank.communicate(timeout=60) for rank in ranks] == [("0 9.55\n", ""), ("1 9.55\n", "")]

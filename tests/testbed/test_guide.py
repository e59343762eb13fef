"""Runs the commands of the guide ``testbed.md``."""

from __future__ import annotations

import shlex

import pytest

from tests.conftest import ROOT
from tests.docs.pages import blocks, commands
from tests.testbed.specs import needs_namespaces

GUIDE = ROOT / "docs" / "how-to" / "testbed.md"
NOT_HERE = ("python train.py", "torchrun", "bash")
"""Programs that the guide mentions, but that only its readers have."""


@needs_namespaces
def test_the_commands_of_the_guide_succeed(cli, request: pytest.FixtureRequest):
    request.addfinalizer(lambda: [cli("testbed", "down", name) for name in ("two-racks", "cloud")])
    ran = []
    for block in blocks(GUIDE):
        if block.title:
            cli.write(block.title, "\n".join(block.lines) + "\n")
        elif block.lines[0].startswith("$ "):
            for command in commands(block):
                words = shlex.split(command.text, comments=True)
                if "syncline" not in words:
                    continue
                words = words[words.index("syncline") + 1 :]
                if any(each in " ".join(words) for each in NOT_HERE):
                    continue
                done = cli(*words)
                # A busy machine may not reach the rates of the file.
                assert done.returncode in ((0, 1) if "check" in words else (0,)), (command.text, done.stderr)
                ran.append(words[1])
    assert ran == [
        *("run", "up", "status", "down", "run", "run"),
        *("up", "status", "traffic", "traffic", "down"),
        *("up", "shape", "shape", "shape", "shape", "down"),
        *("check", "check"),
    ]

"""Every example runs and prints its transcript. ``make transcripts`` rewrites the transcripts."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from tests.testbed.specs import MISSING

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/transcript.txt"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_transcript_is_current(example: Path, tmp_path: Path) -> None:
    folder = tmp_path / example.name
    shutil.copytree(example, folder)
    transcript = example / "transcript.txt"
    written = transcript.read_text("utf-8")
    if "$ syncline testbed" in written and MISSING is not None:
        pytest.skip(f"no testbed on this machine: {MISSING}")
    found = replay(Cli(folder), written)
    if os.environ.get("UPDATE"):
        transcript.write_text(found, "utf-8")
    else:
        assert found == written, "run `make transcripts` if the change is meant"


def replay(cli: Cli, transcript: str) -> str:
    """The commands of a transcript, with their current output."""
    parts = []
    for line in transcript.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line[2:])
            assert program == "syncline"
            # Programs of examples run with the interpreter that has syncline installed.
            done = cli(*arguments, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
            assert done.returncode in (0, 5), done.stderr
            parts.append(f"{line}\n{done.stdout}{done.stderr}")
    return "\n".join(parts)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_says_what_it_shows(example: Path) -> None:
    text = (example / "README.md").read_text("utf-8")
    assert text.startswith("# ")
    inputs = list(example.glob("*.yaml")) or list(example.glob("config.json"))
    assert inputs
    assert all(f"`{each.name}`" in text for each in inputs)

"""Runs programs of the guides, taken from their pages."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import ROOT
from tests.docs.pages import blocks

PAGES = ROOT / "docs" / "how-to"


def write(page, title, folder):
    """Writes the block of a page with this title to a file in a folder."""
    program = next(block for block in blocks(PAGES / page) if block.title == title)
    (folder / title).write_text("\n".join(program.lines) + "\n")


def shown(page, word):
    """Returns the lines of a page's first block that contains a word."""
    return next(block.lines for block in blocks(PAGES / page) if any(word in line for line in block.lines))


def answers(page, title, folder, world, **variables):
    """Runs a program of a page as ``world`` ranks, and returns what each printed on stdout and stderr."""
    write(page, title, folder)
    common = {**os.environ, "WORLD_SIZE": str(world), **variables}
    ranks = [
        subprocess.Popen(
            [sys.executable, title],
            cwd=folder,
            env={**common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        return [rank.communicate(timeout=60) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()

"""The pages of the documentation, and the fenced blocks in them.

A test runs the blocks ``console``. A line that begins with ``$`` is a command, one that begins with ``>`` continues it,
the others are its output. Without output nothing is compared. ``...`` stands for any text, and on a line of its own for
any lines. Blocks ``console ignore`` are not run, because they need another machine. Another block with a
``title="NAME"`` is written into the file of that name. ``<!-- needs: polars -->`` before a block skips it if that
Python package is not installed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

UPDATE = bool(os.environ.get("UPDATE"))
"""Whether to rewrite the pages instead of comparing with them."""

PAGES = [
    ROOT / name
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
    if (ROOT / name).exists()
] + sorted(page for folder in ("docs", "experiments") for page in (ROOT / folder).rglob("*.md"))

_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>[\w-]*)(?P<rest>.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_NEEDS = re.compile(r"<!-- needs: ([\w, ]+) -->")


@dataclass
class Block:
    """A fenced block."""

    line: int
    """Number of its first line of content, from 1."""
    language: str
    title: str | None
    needs: tuple[str, ...]
    """Python packages that the block needs; without them it is skipped."""
    lines: list[str] = field(default_factory=list)


@dataclass
class Command:
    """A command of a block ``console`` and the output that the page shows."""

    line: int
    """Number of its first line, from 1."""
    text: str
    start: int
    """Index in the page, from 0, of the line after the command, where its output begins."""
    output: list[str]


def name(page: Path) -> str:
    """The path of a page from the project's root."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    fence, needs = "", ""
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        if fence:
            if line.strip() == fence:
                fence = ""
            else:
                found[-1].lines.append(line)
        elif opened := _FENCE.match(line):
            fence = opened["fence"]
            title = _TITLE.search(opened["rest"])
            needed = _NEEDS.search(needs)
            packages = tuple(each.strip() for each in needed[1].split(",")) if needed else ()
            language = "" if opened["rest"].strip() == "ignore" else opened["language"]
            found.append(Block(number + 1, language, title and title[1], packages))
            needs = ""
        elif line.strip():
            needs = line
    assert not fence, f"{name(page)}: a fenced block is never closed"
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a block ``console``."""
    found: list[Command] = []
    for offset, line in enumerate(block.lines):
        number = block.line + offset
        if line.startswith("$ "):
            found.append(Command(number, line[2:], number, []))
        elif line.startswith("> ") and found and not found[-1].output:
            found[-1].text += "\n" + line[2:]
            found[-1].start = number
        else:
            assert found, f"line {number}: a console block begins with a command"
            found[-1].output.append(line)
    return found

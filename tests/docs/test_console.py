"""Every command of the documentation works, and prints the output shown on the page.

:mod:`tests.docs.pages` describes the form of a block. With ``UPDATE=1``, the actual output is written into the page,
unless the page has ``...`` there.
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from tests.docs.pages import PAGES, UPDATE, blocks, commands, name

RUNNABLE = [page for page in PAGES if any(block.language == "console" for block in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    """The blocks of a page run in order, in one folder that contains only the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    changes: list[tuple[int, int, list[str]]] = []
    for block in blocks(page):
        if not all(map(find_spec, block.needs)):
            continue
        if block.language != "console":
            if block.title:
                Cli(tmp_path).write(block.title, "\n".join(block.lines) + "\n")
            continue
        for command in commands(block):
            if command.text.startswith(("make ", "pip ", "git ", "python -m venv", "cargo ")):
                continue  # CI itself tests building and installing
            where = f"{name(page)}:{command.line}: `{command.text}`"
            status, found = run(command.text.replace(".venv/bin/", ""), tmp_path)
            assert status == 0, f"{where} exits with {status}:\n" + "\n".join(found)
            shown = trimmed(command.output)
            if not shown or matches(shown, found):
                continue
            if UPDATE and not any("..." in line for line in shown):
                changes.append((command.start, command.start + len(shown), found))
                continue
            diff = "\n".join(difflib.unified_diff(shown, found, "the page", "the command", lineterm=""))
            pytest.fail(f"{where} prints something else (UPDATE=1 rewrites the page):\n{diff}")
    if changes:
        lines = page.read_text("utf-8").splitlines()
        for start, end, found in reversed(changes):
            lines[start:end] = found
        page.write_text("\n".join(lines) + "\n", "utf-8")


def run(command: str, folder: Path) -> tuple[int, list[str]]:
    """Runs a command as a reader would; returns its exit status and the lines that it prints on both streams."""
    binaries = folder / ".bin"
    if not binaries.exists():
        binaries.mkdir()
        (binaries / "syncline").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m syncline "$@"\n')
        (binaries / "syncline").chmod(0o755)
    environment = Cli(folder).environment(LC_ALL="C.UTF-8", TERM="dumb", PYTHONUNBUFFERED="1")
    environment["PATH"] = f"{binaries}:{Path(sys.executable).parent}:{environment['PATH']}"
    process = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return process.returncode, trimmed(process.stdout.splitlines())


def trimmed(lines: list[str]) -> list[str]:
    """Lines without trailing spaces and without empty lines at the end."""
    stripped = [line.rstrip() for line in lines]
    while stripped and not stripped[-1]:
        stripped.pop()
    return stripped


def matches(expected: list[str], found: list[str]) -> bool:
    """Whether lines match; ``...`` stands for any text, or for any number of lines if it is a whole line."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None


def test_three_dots_stand_for_anything() -> None:
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["a ... c", "...", "end"], ["a b c", "end"])
    assert not matches(["a", "d"], ["a", "b", "d"])
    assert not matches(["a ... z"], ["a b y"])


def test_the_makefile_has_the_targets_that_pages_name() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES:
        text = page.read_text("utf-8")
        for target in re.findall(r"(?:`|^(?:\$ )?)make ([a-z][a-z0-9-]*)", text, re.MULTILINE):
            assert target in targets, f"{name(page)} names `make {target}`"

"""Files of the repository contain no conflict markers."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

MARKS = r"^(<{7}|[|]{7}|>{7})( |$)"
"""Matches git's conflict markers, except the line of equal signs, which may underline a heading."""


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def marked(folder: Path) -> list[str]:
    """Lines of tracked files with conflict markers."""
    done = git(folder, "grep", "-nIE", MARKS)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_the_repository_has_no_conflict_markers() -> None:
    if git(ROOT, "rev-parse", "--git-dir").returncode:
        pytest.skip("this is no checkout")
    assert marked(ROOT) == []


def test_conflict_markers_are_found(tmp_path: Path) -> None:
    lines = ["a", "<" * 7 + " ours", "b", "|" * 7, "c", "=" * 7, "d", ">" * 7 + " theirs", "<" * 8, " " + ">" * 7]
    (tmp_path / "notes.md").write_text("\n".join(lines) + "\n", "utf-8")
    assert git(tmp_path, "init", "-q").returncode == 0
    assert git(tmp_path, "add", "notes.md").returncode == 0
    assert [line.split(":")[1] for line in marked(tmp_path)] == ["2", "4", "8"]

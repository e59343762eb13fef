"""The folder of a search's results: written whole or not at all, and replaced only if a search wrote it."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import cannot_write, error, raise_errors
from syncline.schemas import ANSWER, BANDWIDTH_RESULTS, JOINT_RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable

_SCHEMAS = (BANDWIDTH_RESULTS, JOINT_RESULTS)


def check(folder: str) -> None:
    """Raises an error if a folder holds anything but the results of an earlier search."""
    path = Path(folder)
    if not path.exists() and not path.is_symlink():
        return
    foreign = "a file" if not path.is_dir() else next((each for each in names(path) if not _ours(path, each)), None)
    if foreign is not None:
        raise_errors(
            error(
                Code.CANNOT_WRITE,
                "the folder is not empty and does not hold results that may be replaced",
                mark=Mark(Text(folder, ()), 0, 0, 0),
                found=foreign,
                help="name another folder, or move the content of this one elsewhere",
            )
        )


def names(folder: Path) -> list[str]:
    """Names in a folder, in order."""
    return sorted(each.name for each in folder.iterdir())


def _ours(folder: Path, name: str) -> bool:
    """Whether a search wrote this file: the folder's answer lists all files that it wrote."""
    try:
        answer = json.loads((folder / ANSWER).read_text("utf-8"))
        return answer["schema"] in _SCHEMAS and name in answer["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write(folder: str, fill: Callable[[Path], list[str]]) -> list[str]:
    """Makes a folder whose content ``fill`` writes, and returns the names that ``fill`` returns.

    Replaces the folder of an earlier search (:func:`check`). If anything fails, that folder stays as it was.
    """
    check(folder)
    path = Path(folder).resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            new, old = aside / "new", aside / "old"
            new.mkdir()
            written = fill(new)
            if path.exists():
                path.replace(old)
            new.replace(path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as problem:
        raise_errors(cannot_write(folder, problem))
    return written

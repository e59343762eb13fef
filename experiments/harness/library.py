"""Finds papers and their figures by name."""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from experiments.harness.experiment import Experiment

ROOT = Path(__file__).parent.parent


class UnknownError(Exception):
    """No paper or figure has that name."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        near = get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        super().__init__(f"there is no {kind} {name!r}, only {', '.join(known)}.{hint}")


def papers() -> list[str]:
    """The papers that have experiments."""
    return sorted(page.parent.name for page in ROOT.glob("*/README.md"))


def figures(paper: str) -> list[str]:
    """The figures of a paper, in order."""
    if paper not in papers():
        raise UnknownError("paper", paper, papers())
    return sorted(page.parent.name for page in (ROOT / paper).glob("*/README.md"))


def find(paper: str, wanted: list[str]) -> list[Experiment]:
    """Experiments of a paper: those in ``wanted`` (such as ``fig09``, ``9`` or ``6.5``), or all if it is empty."""
    known = figures(paper)
    names = [_named(name, known) for name in wanted] or known
    return [cast("Experiment", import_module(f"experiments.{paper}.{name}").EXPERIMENT) for name in names]


def _named(name: str, known: list[str]) -> str:
    if name in known:
        return name
    number = re.fullmatch(r"(?:fig)?0*(\d{1,3})", name, re.ASCII)
    within = re.fullmatch(r"(?:fig)?0*(\d{1,2})\.(\d{1,2})", name, re.ASCII)
    full = f"fig{int(number[1]):02}" if number else name
    if within:
        # Figures numbered by chapter, such as 6.5.
        full = f"fig{int(within[1]):02}{int(within[2]):02}"
    if full not in known:
        raise UnknownError("figure", name, known)
    return full

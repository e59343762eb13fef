"""Generations of accelerators: those of one have NVLinks of the same rate, and NCCL treats them alike."""

from __future__ import annotations

import re

GENERATIONS = (("V100",), ("A100",), ("H100", "H200", "H20", "GH200"), ("H800",), ("B200", "GB200", "B300", "GB300"))
"""The generations that are known, oldest first."""


def generation(accelerator: str) -> tuple[str, ...] | None:
    """The generation of an accelerator by its name; None for names that say nothing about it."""
    named = _words(accelerator)
    return next((each for each in GENERATIONS if named.intersection(each)), None)


def accelerators(text: str) -> set[str]:
    """The accelerators of known generations that a text names, such as H100."""
    return _words(text).intersection(name for each in GENERATIONS for name in each)


def _words(text: str) -> set[str]:
    return set(re.split(r"[^A-Z0-9]+", text.upper()))

"""Commands of a script, and options of the batch system for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from syncline.input.node import Mark, Text
from syncline.jobs.launch.words import Word

_BATCH = re.compile(r"^#SBATCH\s+(.*)$")
_SHORT = {"-N": "nodes", "-n": "ntasks", "-G": "gpus"}


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a script runs."""

    words: tuple[Word, ...]
    mark: Mark
    certain: bool
    """Whether it runs whatever is unknown."""


@dataclass(slots=True)
class Script:
    """What a script does."""

    commands: list[Command] = field(default_factory=list)
    batch: dict[str, Word] = field(default_factory=dict)
    """Options of ``#SBATCH`` lines by their names."""
    unread: list[tuple[str, Mark]] = field(default_factory=list)
    """Parts that are not followed: what they are, and where."""


def batch_options(path: str, content: str, found: Script) -> None:
    """Notes options of ``#SBATCH`` lines."""
    lines = content.split("\n")
    for number, line in enumerate(lines, start=1):
        match = _BATCH.match(line.strip())
        if match is None:
            continue
        tokens = re.split(r"[\s=]+", match[1].partition("#")[0].strip())
        for name, value in zip(tokens, [*tokens[1:], ""], strict=True):
            if name.startswith("-") and value and not value.startswith("-"):
                found.batch.setdefault(
                    _SHORT.get(name, name.lstrip("-")), Word(value, Mark(Text(path, lines), number, 1, 0))
                )


def options(said: tuple[Word, ...]) -> dict[str, Word]:
    """Options of a command by their names, such as ``nodes``."""
    found = {}
    for name, following in pairwise(said):
        stem, equals, value = name.text.partition("=")
        if stem.startswith("-"):
            given = Word(value, name.mark) if equals else following
            found[_SHORT.get(stem, stem.lstrip("-"))] = given
    return found

"""The one exception of the package, the JSON form of a diagnostic, and the exit statuses of the command line."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, Self, TypedDict

__all__ = [
    "Diagnostic",
    "ExitStatus",
    "Interrupted",
    "Place",
    "SynclineError",
]


class ExitStatus(IntEnum):
    """An exit status of the command line, and its ``meaning``."""

    meaning: str

    DONE = 0, "done"
    PROBLEM = 1, "the command ran, and found a problem"
    USAGE = 2, "wrong usage or configuration"
    FILE = 3, "unreadable or corrupt input, or unwritable output"
    DEADLOCK = 4, "the simulated job deadlocks"
    LIMIT = 5, "a limit was reached; partial results are valid"
    PEER = 6, "a peer or host failed"
    BUG = 70, "a bug in syncline"
    INTERRUPTED = 130, "interrupted"

    def __new__(cls, status: int, meaning: str = "") -> Self:
        """Makes a member with its meaning."""
        made = int.__new__(cls, status)
        made._value_ = status
        made.meaning = meaning
        return made


class Place(TypedDict, total=False):
    """A place in a file. ``line`` and ``column`` count from 1; 0 means unknown."""

    file: str
    line: int
    column: int
    width: int
    text: str


class Diagnostic(TypedDict, total=False):
    """One error or warning, in the form that ``--json`` prints."""

    code: str
    severity: str
    message: str
    kind: str
    place: Place
    key: str
    found: str
    allowed: str
    nearest: str
    help: str
    notes: list[str]


class SynclineError(Exception):
    """The input is wrong, or the answer could not be computed.

    ``diagnostics`` says what is wrong, where, and what to do; ``exit_status`` is the exit status of the command line.
    ``str(error)`` is the text that the command line would print.
    """

    def __init__(self, diagnostics: list[Diagnostic], exit_status: int = ExitStatus.USAGE) -> None:
        super().__init__(diagnostics, exit_status)
        self.diagnostics = diagnostics
        self.exit_status = exit_status

    @classmethod
    def from_json(cls, diagnostics: str, exit_status: int) -> SynclineError:
        """Makes the error from the diagnostics that the core reports as a JSON array."""
        return cls(json.loads(diagnostics), exit_status)

    def __str__(self) -> str:
        from syncline import _core

        return _core.render(json.dumps(self.diagnostics))


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a simulation. ``result`` holds the partial results."""

    def __init__(self, result: Any) -> None:
        super().__init__("the simulation was interrupted; .result holds the partial results")
        self.result = result

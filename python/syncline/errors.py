"""The one exception of the package, and the JSON form of a diagnostic."""

from __future__ import annotations

import json
from typing import Any, TypedDict

__all__ = [
    "Diagnostic",
    "Interrupted",
    "Place",
    "SynclineError",
]


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

    def __init__(self, diagnostics: list[Diagnostic], exit_status: int = 2) -> None:
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

"""The one exception of the package, and the JSON form of a diagnostic."""

from __future__ import annotations

import json
from typing import Any, TypedDict


class Place(TypedDict, total=False):
    """Where in which file. ``line`` and ``column`` count from 1; 0 means unknown."""

    file: str
    line: int
    column: int
    width: int
    text: str


class Diagnostic(TypedDict, total=False):
    """One thing that is wrong, as ``--json`` prints it."""

    code: str
    severity: str
    message: str
    place: Place
    key: str
    found: str
    allowed: str
    nearest: str
    help: str
    notes: list[str]


class SynclineError(Exception):
    """Something is wrong with the input, or the answer could not be computed.

    ``diagnostics`` says what is wrong, where, and what to do; ``exit_status`` is what the command line would exit with.
    ``str(error)`` is the text that the command line would print.
    """

    def __init__(self, diagnostics: list[Diagnostic], exit_status: int = 2) -> None:
        super().__init__(diagnostics, exit_status)
        self.diagnostics = diagnostics
        self.exit_status = exit_status

    @classmethod
    def from_json(cls, diagnostics: str, exit_status: int) -> SynclineError:
        """The error that the core reports as a JSON array."""
        return cls(json.loads(diagnostics), exit_status)

    def __str__(self) -> str:
        from syncline import _core

        return _core.render(json.dumps(self.diagnostics))


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a simulation. ``result`` holds what was finished until then."""

    def __init__(self, result: Any) -> None:
        super().__init__("the simulation was interrupted; .result holds what was finished")
        self.result = result

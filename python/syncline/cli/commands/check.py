"""``syncline check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.cli.commands.options import overrides
from syncline.config.load import load
from syncline.errors import Diagnostic, ExitStatus, SynclineError
from syncline.input.problem import exit_status
from syncline.terminal.streams import print_diagnostics, say, show, show_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def check(scenarios: Sequence[str], sets: Iterable[str], *, as_json: bool, quiet: bool) -> int:
    """Checks scenarios: prints a line to stdout for each valid one, and the errors of the others to stderr."""
    changes = overrides(sets, {})
    status, files = ExitStatus.DONE, []
    for scenario in scenarios:
        found = _check(scenario, changes)
        wrong = exit_status(found)
        # An unreadable file was not checked at all, so it has its own status.
        outcome = ExitStatus.PROBLEM if wrong else ExitStatus.DONE
        status = max(status, ExitStatus.FILE if wrong == ExitStatus.FILE else outcome)
        files.append({"file": scenario, "ok": not wrong, "diagnostics": found})
        print_diagnostics(found if not quiet else (each for each in found if each["severity"] == "error"))
        if not as_json:
            _line(scenario, found, wrong=bool(wrong))
    if as_json:
        show_json({"exit_status": status, "files": files})
    elif len(scenarios) > 1 and not quiet:
        say(f"{sum(bool(each['ok']) for each in files)} of {len(files)} scenarios are valid")
    return status


def _check(scenario: str, changes: Any) -> list[Diagnostic]:
    try:
        return load(scenario, changes).check()
    except SynclineError as error:
        return error.diagnostics


def _line(scenario: str, found: list[Diagnostic], *, wrong: bool) -> None:
    from syncline.quantity import counted

    errors = sum(each["severity"] == "error" for each in found)
    warnings = len(found) - errors
    parts = [counted(count, word) for count, word in ((errors, "error"), (warnings, "warning")) if count]
    line = f"{scenario}: {', '.join(parts) or 'ok'}"
    # A failed scenario's line goes to stderr too, below its errors.
    if wrong:
        say(line)
    else:
        show(line)

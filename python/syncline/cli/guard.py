"""The outermost layer of the command line: turns every exception into a message and an exit status."""

from __future__ import annotations

import json
import re
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.cli.stdout import StdoutError, watched
from syncline.codes import Code
from syncline.errors import ExitStatus, SynclineError
from syncline.input.problem import cannot_write, nearest, raise_errors
from syncline.input.problem import error as diagnostic
from syncline.terminal.streams import print_diagnostics, say, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from syncline.errors import Diagnostic


def guarded(arguments: Sequence[str]) -> int:
    """Runs a command line; returns the process's exit status."""
    try:
        with watched():
            return _report_interrupts(arguments)
    except StdoutError as lost:
        return _report_lost_stdout(lost.__cause__)


def _report_interrupts(arguments: Sequence[str]) -> int:
    """Like :func:`guarded`, but lets :class:`StdoutError` pass."""
    ctrl_c = _CtrlC()
    try:
        return _report_errors(arguments, ctrl_c)
    except KeyboardInterrupt:
        if "--json" in arguments:
            show_json({"exit_status": ExitStatus.INTERRUPTED, "diagnostics": []})
        say("interrupted: no results were saved")
        return ExitStatus.INTERRUPTED


class _CtrlC:
    """Remembers that Ctrl-C was pressed, since libraries may turn KeyboardInterrupt into another exception."""

    def __init__(self) -> None:
        self.pressed = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._press)

    def _press(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        signal.default_int_handler(number, frame)


def _report_errors(arguments: Sequence[str], ctrl_c: _CtrlC) -> int:
    """Runs a command line and prints its errors; lets only interrupts and :class:`StdoutError` pass."""
    try:
        return _run(arguments)
    except StdoutError:
        raise
    except SynclineError as error:
        if "--json" in arguments:
            show_json({"exit_status": error.exit_status, "diagnostics": error.diagnostics})
        print_diagnostics(error.diagnostics)
        return error.exit_status
    except MemoryError:
        return _report_bug("out of memory", arguments)
    except Exception as error:  # noqa: BLE001 - any other exception is a bug, and is reported as one
        if ctrl_c.pressed:
            raise KeyboardInterrupt from None
        return _report_bug(_where(error), arguments)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return _report_bug(str(error), arguments)


def _run(arguments: Sequence[str]) -> int:
    if list(arguments) in (["--version"], ["-V"]):
        # Answered before the slow imports.
        sys.stdout.write(f"syncline {_core.version()}\n")
        return 0
    for each in arguments:
        try:
            each.encode()
        except UnicodeEncodeError:
            raise_errors(diagnostic(Code.BAD_VALUE, "an argument is not UTF-8 text", found=ascii(each)[1:-1]))
    import typer

    from syncline.cli.app import CtrlC, command

    try:
        status = command().main(args=list(arguments), prog_name="syncline", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except (CtrlC, typer.Abort):
        raise KeyboardInterrupt from None
    except Exception as wrong:
        # The parser is part of Typer, which has no public base class for its errors.
        if not hasattr(wrong, "show") or not hasattr(wrong, "exit_code"):
            raise
        found = _usage_error(wrong)
        if "--json" in arguments:
            show_json({"exit_status": ExitStatus.USAGE, "diagnostics": [found]})
        if found["message"]:
            print_diagnostics([found])
        else:
            # The command is missing: print the help.
            wrong.show()
        return ExitStatus.USAGE
    return status if isinstance(status, int) else 0


def _usage_error(wrong: Any) -> Diagnostic:
    """The parser's error as a diagnostic."""
    context = wrong.ctx
    path = context.command_path if context else "syncline"
    remedy = f"`{path} --help` explains how to use it" if context else None
    if hasattr(wrong, "possibilities"):
        near = next(iter(wrong.possibilities or ()), None)
        return diagnostic(Code.UNKNOWN_KEY, "no such option", found=wrong.option_name, nearest=near, help=remedy)
    text = " ".join(wrong.format_message().replace("Value error, ", "").split()).rstrip(".")
    if match := re.match(r"No such command '([^']*)'", text):
        known = context.command.list_commands(context)
        near = nearest(match[1], known)
        return diagnostic(Code.UNKNOWN_KEY, "no such command", found=match[1], allowed=", ".join(known), nearest=near)
    if match := re.fullmatch(r"Invalid value for '([^']*)': '(.*)' is not one of (.*)", text):
        name, found, allowed = match[1], match[2], match[3].replace("'", "")
        near = nearest(found, allowed.split(", "))
        message = f"value not allowed for `{name}`"
        return diagnostic(Code.BAD_VALUE, message, found=found, allowed=allowed, nearest=near, help=remedy)
    message = re.sub("'([^']*)'", r"`\1`", text.replace(": Input should", ": it should"))
    missing = type(wrong).__name__ == "MissingParameter"
    return diagnostic(Code.MISSING_KEY if missing else Code.BAD_VALUE, message[:1].lower() + message[1:], help=remedy)


def _report_lost_stdout(problem: BaseException | None) -> int:
    """Reports that stdout could not be written; returns the exit status."""
    if isinstance(problem, BrokenPipeError):
        # The reader of our output closed the pipe, as `head` does: that is no error.
        return ExitStatus.DONE
    print_diagnostics([cannot_write("stdout", problem if isinstance(problem, OSError) else str(problem).lower())])
    return ExitStatus.FILE


def _report_bug(what: str, arguments: Sequence[str]) -> int:
    found = json.loads(_core.internal_error(what))
    if "--json" in arguments:
        show_json({"exit_status": ExitStatus.BUG, "diagnostics": found})
    print_diagnostics(found)
    return ExitStatus.BUG


def _where(error: Exception) -> str:
    """The error and the line of this package that raised it, as one line of text."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "syncline" in frame.filename]
    text = f"{type(error).__name__}: {error}"
    if ours:
        file = ours[-1].filename.replace("\\", "/")
        text += f" ({file[file.rfind('syncline/') :]}:{ours[-1].lineno})"
    return " ".join(text.split())

"""The outermost layer of the command line: whatever happens ends in a message and an exit status, never a traceback."""

from __future__ import annotations

import json
import sys
import traceback
from typing import TYPE_CHECKING

from syncline import _core
from syncline.cli.stdout import StdoutError, watched
from syncline.cli.streams import complain, say, show_json
from syncline.config.node import Mark, Text
from syncline.config.problem import error as diagnostic
from syncline.errors import SynclineError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = 2
UNWRITABLE = 3
INTERRUPTED = 130


def guarded(arguments: Sequence[str]) -> int:
    """Runs a command line; gives what the process exits with."""
    try:
        with watched():
            return _caught(arguments)
    except StdoutError as lost:
        return _lost(lost.__cause__)


def _caught(arguments: Sequence[str]) -> int:
    """As :func:`guarded`, but for a stdout that cannot be written."""
    try:
        return _run(arguments)
    except StdoutError:
        raise
    except SynclineError as error:
        if "--json" in arguments:
            show_json({"exit_status": error.exit_status, "diagnostics": error.diagnostics})
        complain(error.diagnostics)
        return error.exit_status
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except MemoryError:
        return _bug("out of memory")
    except Exception as error:  # noqa: BLE001 - whatever arrives here is a bug, and is reported as one
        return _bug(_where(error))
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return _bug(str(error))


def _run(arguments: Sequence[str]) -> int:
    if list(arguments) in (["--version"], ["-V"]):
        # Answered before anything is imported that takes time.
        sys.stdout.write(f"syncline {_core.version()}\n")
        return 0
    import typer

    from syncline.cli.app import command

    try:
        status = command().main(args=list(arguments), prog_name="syncline", standalone_mode=False)
    except typer.Exit as done:
        return done.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except Exception as wrong:
        # The parser is part of Typer, which has no public name for what its errors have in common.
        if not hasattr(wrong, "show") or not hasattr(wrong, "exit_code"):
            raise
        wrong.show()
        return USAGE
    return status if isinstance(status, int) else 0


def _lost(problem: BaseException | None) -> int:
    """Stdout could not be written."""
    if isinstance(problem, BrokenPipeError):
        # Whoever read our output has seen enough.
        return 0
    reason = (getattr(problem, "strerror", None) or str(problem)).lower()
    complain([diagnostic("SL0801", f"cannot be written: {reason}", mark=Mark(Text("stdout", ()), 0, 0, 0))])
    return UNWRITABLE


def _bug(what: str) -> int:
    complain(json.loads(_core.internal_error(what)))
    return 70


def _where(error: Exception) -> str:
    """The error and the line of this package that it came from, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "syncline" in frame.filename]
    text = f"{type(error).__name__}: {error}"
    if ours:
        file = ours[-1].filename.replace("\\", "/")
        text += f" ({file[file.rfind('syncline/') :]}:{ours[-1].lineno})"
    return " ".join(text.split())

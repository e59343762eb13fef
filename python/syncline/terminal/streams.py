"""Where output goes: data to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TextIO

from syncline import _core

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, RenderableType

    from syncline.errors import Diagnostic


NARROWEST = 40
"""Minimum width of output, in columns: in a narrower one, tables would cut off the labels of their numbers."""


def no_colour() -> None:
    """Turns colours off, for ``--no-color``."""
    os.environ["NO_COLOR"] = "1"


def coloured(stream: TextIO) -> bool:
    """Whether to write colours to ``stream``: only to a terminal, unless ``NO_COLOR`` or ``CI`` is set."""
    off = os.environ.get("NO_COLOR") or os.environ.get("CI") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not off


def ascii_only(stream: TextIO) -> bool:
    """Whether ``stream`` cannot encode characters beyond ASCII."""
    return not (getattr(stream, "encoding", None) or "").lower().startswith("utf")


@cache
def console(*, error: bool = False) -> Console:
    """The console for stdout, or for stderr with ``error``. Off a terminal its width is ``COLUMNS``, or 80 columns.

    It is never narrower than :data:`NARROWEST`.
    """
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    colour = coloured(stream)
    made = Console(
        stderr=error,
        no_color=not colour,
        color_system="auto" if colour else None,
        highlight=False,
        soft_wrap=False,
        emoji=False,
        markup=False,
        width=None if stream.isatty() or os.environ.get("COLUMNS") else 80,
    )
    made.width = max(made.width, NARROWEST)
    return made


def show(*parts: RenderableType) -> None:
    """Prints data to stdout."""
    out = console()
    with out.capture() as captured:
        for part in parts:
            # Print a table that is wider than the terminal uncut: a number with digits cut off would be wrong.
            out.print(part, crop=False)
    # Remove the padding to the terminal's width.
    text = "\n".join(line.rstrip() for line in captured.get().split("\n"))
    if ascii_only(sys.stdout):
        text = text.translate(_PLAIN).encode("ascii", "replace").decode()
    sys.stdout.write(text)
    sys.stdout.flush()


def as_text(part: RenderableType, width: int) -> str:
    """What :func:`show` prints on a terminal of ``width`` columns, as text without colours."""
    from io import StringIO

    from rich.console import Console

    out = Console(file=StringIO(), width=width, color_system=None, legacy_windows=False)
    with out.capture() as captured:
        out.print(part, crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def show_json(value: Any) -> None:
    """Prints one JSON object to stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=ascii_only(sys.stdout)) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Prints a message to stderr. If stderr cannot be written, discards the message."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        # Discard what is still buffered, or flushing it at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def folded(diagnostic: Diagnostic, width: int) -> Diagnostic:
    """The diagnostic with its notes and help wrapped, between words, to a terminal of ``width`` columns."""
    line = diagnostic["place"]["line"] if "place" in diagnostic else 0
    # Notes and help are indented by the width of the line number.
    room = max(width, NARROWEST) - len(f"{line or ''} = help: ")

    def fold(text: str) -> str:
        return "\n".join(wrap(text, room, break_long_words=False, break_on_hyphens=False))

    made = diagnostic.copy()
    if "help" in made:
        near = f"did you mean `{made.pop('nearest')}`? " if "nearest" in made else ""
        made["help"] = fold(near + made["help"])
    if "notes" in made:
        made["notes"] = [fold(note) for note in made["notes"]]
    return made


def print_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """Prints diagnostics to stderr. Wraps long lines on a terminal, but not in a file."""
    if found := list(diagnostics):
        if sys.stderr.isatty():
            found = [folded(each, get_terminal_size().columns) for each in found]
        say(_core.render(json.dumps(found), colour=coloured(sys.stderr)) + "\n")


_PLAIN = str.maketrans("─│┌┐└┘├┤┬┴┼═▶▲…█▏▎▍▌▋▊▉▓▒░·", "-|+++++++++=>^.########%=-.")

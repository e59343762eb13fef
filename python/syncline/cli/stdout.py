"""Stdout, whose failures can be told from those of other files, whoever writes to it."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class StdoutError(Exception):
    """Stdout cannot be written; the cause says why."""


class _Stdout(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as problem:
            raise StdoutError from problem

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as problem:
            raise StdoutError from problem


@contextmanager
def watched() -> Iterator[None]:
    """Within it, what fails to reach stdout raises :class:`StdoutError`; at its end, all of it has reached it."""
    for name in ("stdout", "stderr"):
        # The caller closed it: what it is given is swallowed.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - to the end
    before = sys.stdout
    if not isinstance(before, io.TextIOWrapper):
        yield
        return
    stdout = _Stdout(
        before.buffer,
        encoding=before.encoding,
        # A name that the encoding has no characters for is shown in others, as stderr does.
        errors="backslashreplace" if before.errors == "strict" else before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
    sys.stdout = stdout
    try:
        yield
        stdout.flush()
    except StdoutError:
        # What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        raise
    finally:
        sys.stdout = before
        stdout.detach()

"""Tells failures to write to stdout from those of other files, whichever library writes."""

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
    """Stdout cannot be written; ``__cause__`` is the OSError."""


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
    """Within it, a failed write to stdout raises :class:`StdoutError`. Flushes stdout at its end."""
    for name in ("stdout", "stderr"):
        # The caller closed the stream: discard what is written to it.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - to the end
    before = sys.stdout
    if not isinstance(before, io.TextIOWrapper):
        yield
        return
    stdout = _Stdout(
        before.buffer,
        encoding=before.encoding,
        # Escape characters that the encoding lacks, as stderr does.
        errors="backslashreplace" if before.errors == "strict" else before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
    sys.stdout = stdout
    try:
        yield
        stdout.flush()
    except StdoutError:
        # Discard what is still buffered, or flushing it at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        raise
    finally:
        sys.stdout = before
        stdout.detach()

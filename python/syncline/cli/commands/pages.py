"""Writes the pages of commands. File names are checked before the work starts, and write errors are reported."""

from __future__ import annotations

from pathlib import Path

from syncline.files import write_whole
from syncline.input.problem import bad_value, cannot_write, raise_errors, require_writable


def check_page(path: str, *, force: bool) -> None:
    """Checks that a page can be written: its name ends in .html, and it does not exist yet, unless ``force`` is true.

    :raises SynclineError: it cannot.
    """
    if Path(path).suffix.lower() != ".html":
        raise bad_value("not a name of a page", path, allowed="a name that ends in .html")
    require_writable(path, force=force)


def write_page(path: str, content: str | bytes) -> None:
    """Writes a page.

    :raises SynclineError: it cannot be written.
    """
    try:
        write_whole(path, content)
    except OSError as problem:
        raise_errors(cannot_write(path, problem))

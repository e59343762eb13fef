"""Configurations that are Python code, which is not run."""

from __future__ import annotations

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file


def refuse_code(path: str, software: str, remedy: str) -> None:
    """Does nothing for a file that is no Python code by its name.

    :param software: whose configuration it is.
    :param remedy: what to convert in its place.
    :raises SynclineError: it is Python code, or it cannot be read.
    """
    if not path.endswith(".py"):
        return
    read_file(path)
    place = Mark(Text(path, ()), 0, 0, 0)
    raise_errors(
        error(Code.BAD_SYNTAX, f"this is Python code of {software}, which is not run", mark=place, help=remedy)
    )

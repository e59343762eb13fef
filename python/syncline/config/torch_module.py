"""Runs the code of a PyTorch module that an input file names."""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, cast

from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.problem import error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.errors import Diagnostic
    from syncline.input.node import Path
    from syncline.input.source import Source


def folder_of(source: Source) -> str:
    """The folder in which Python finds the module's code: that of the file, or the current one."""
    return str(source.folder.absolute()) if source.file else str(FilePath.cwd())


def no_inputs() -> Diagnostic:
    """The error of a module whose inputs are given neither by the file nor by the factory."""
    help = "add `inputs`, such as [{ shape: [3, 224, 224] }], or let the factory return a pair of module and inputs"
    return error(Code.MISSING_KEY, "the inputs of the module are unknown", key="inputs", help=help)


@contextmanager
def running(source: Source, section: Path, *, module: str = "module") -> Iterator[None]:
    """Within it, what the module's code prints goes to stderr, and errors get their place in the file.

    ``section`` is the path of the section that describes the module, ``module`` its key for the factory. Stdout is
    reserved for the answer.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except SynclineError as problem:
        placed = []
        for each in problem.diagnostics:
            key = each.get("key", "module")
            key = module if key == "module" else key
            # Split at the first dot only: patterns of layer names contain dots.
            mark = source.mark((*section, *key.split(".", 1)))
            place = {"place": mark.place()} if mark else {}
            placed.append({**each, "key": ".".join((*map(str, section), key)), **place})
        raise SynclineError(cast("list[Diagnostic]", placed), problem.exit_status) from None

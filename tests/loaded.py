"""Runs commands without the half second for loading the program: a server loads it once and forks for each command."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

COMMANDS = Path(__file__).parent.parent / "python" / "syncline" / "cli"


def run(
    given: Iterable[str | Path], folder: Path, environment: Mapping[str, str], timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Like ``subprocess.run`` with ``python -m syncline``, in the given folder and environment.

    The environment must not differ between calls in variables that the interpreter itself reads at its start.
    """
    arguments = [str(each) for each in given]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _environment(environment):
            process = _server().Process(
                target=_command, args=(arguments, folder, dict(environment), _Passed(out), _Passed(err))
            )
            process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["syncline", *arguments], timeout_s)
        status = process.exitcode
        assert status is not None
        process.close()
        shown = []
        for file in (out, err):
            file.seek(0)
            shown.append(file.read().decode("utf-8").replace("\r\n", "\n"))
    return subprocess.CompletedProcess(["syncline", *arguments], status, *shown)


class _Passed:
    """A file passed to the forked process."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.file.fileno()),)


def _received(duplicate: Any) -> int:
    return int(duplicate.detach())


@cache
def _server() -> ForkServerContext:
    """The server; it starts with the environment of the first command, as a new process would."""
    context = multiprocessing.get_context("forkserver")
    modules = [f"syncline.cli.{path.stem}" for path in sorted(COMMANDS.glob("[a-z]*.py"))]
    context.set_forkserver_preload([__name__, *modules])
    return context


@contextmanager
def _environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Replaces the environment while a process starts, because the first process starts the server with it."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _command(arguments: list[str], folder: Path, environment: dict[str, str], out: int, err: int) -> None:
    """Runs the command in the forked process."""
    for file, number in ((out, 1), (err, 2)):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["syncline", *arguments]
    main()

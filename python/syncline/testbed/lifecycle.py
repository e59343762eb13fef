"""Brings testbeds up, and takes them down."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.testbed import cleanup, commands, kernel, state
from syncline.testbed.layout import layout, namespace
from syncline.testbed.traffic import control

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.testbed.cleanup import Watch
    from syncline.testbed.layout import Layout
    from syncline.testbed.spec import TestbedRequest

GRACE_S = 3.0
"""How long processes on hosts have to end after SIGTERM, before they are killed."""


def up(request: TestbedRequest) -> Layout:
    """Brings a testbed up, with the traffic of its tenants. If that fails or is interrupted, nothing of it is left.

    Raises :class:`SynclineError` if a testbed of its name is up, or if this machine cannot create it.
    """
    with cleanup.watch() as watch:
        made = _up(request, watch)
        watch.done()
    return made


def _up(request: TestbedRequest, watch: Watch, *, traffic: bool = True) -> Layout:
    """Brings a testbed up under a cleanup, from the first namespace on; leaves testbeds of other processes alone."""
    made = layout(request)
    kernel.require()
    kernel.require_congestion_control(made.congestion_control)
    file = str((request.source.folder / request.source.file).absolute()) if request.source.file else ""
    with state.locked():
        if (there := state.find(made.name)) is not None and there.complete:
            state.raise_taken(there, made)
        known = state.TestbedState(made, file, os.getpid(), complete=False)
        watch.testbed(made.name)
        # Remove what a crash may have left.
        _remove(made.name)
        try:
            state.write(known)
            _make(made)
            if traffic:
                control.start(made, state.traffic_socket(made.name))
            state.write(replace(known, complete=True))
        except BaseException:
            _remove(made.name)
            watch.done()
            raise
    return made


def _make(made: Layout) -> None:
    for name in made.namespaces():
        kernel.add_namespace(name)
    kernel.prepare(made)
    for program, inside, lines in commands.batches(made):
        kernel.batch(program, inside, lines)


def down(name: str, maker: int | None = None) -> bool:
    """Takes a testbed down, with the processes on its hosts; returns whether anything of it existed.

    With ``maker``, takes it down only if the process ``maker`` made it: another process may have made a testbed of the
    same name since.

    Raises :class:`SynclineError` if called on a host of that testbed, because that would end the caller itself.
    """
    kernel.require()
    if (inside := kernel.own_namespace(kernel.namespaces(namespace(name, "")))) is not None:
        where = f"host {inside.rpartition('.h')[2]} of {name}"
        raise_errors(
            error(
                Code.WHICH_TESTBED,
                "a testbed cannot be taken down from one of its hosts",
                found=where,
                help="leave the host: exit",
            )
        )
    with state.locked():
        there = state.find(name)
        if maker is not None and there is not None and there.maker != maker:
            return False
        return _remove(name)


def _remove(name: str) -> bool:
    there = state.find(name) is not None
    spaces = kernel.namespaces(namespace(name, ""))
    _end([pid for each in spaces for pid in kernel.processes(each)])
    for each in spaces:
        kernel.delete_namespace(each)
    state.forget(name)
    return there or bool(spaces)


def _end(pids: list[int]) -> None:
    """Ends processes by SIGTERM, and after :data:`GRACE_S` by SIGKILL."""
    for number, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        pids = [pid for pid in pids if _signal(pid, number)]
        until = time.monotonic() + patience
        while pids and time.monotonic() < until:
            time.sleep(0.02)
            pids = [pid for pid in pids if _signal(pid, 0)]


def _signal(pid: int, number: int) -> bool:
    """Sends a signal to a process; returns whether the process exists and has not ended."""
    try:
        os.kill(pid, number)
        # A process that has ended exists until its parent takes note of it, and some parents never do.
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (ProcessLookupError, FileNotFoundError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


@contextmanager
def temporary(request: TestbedRequest, *, traffic: bool = True) -> Iterator[Layout]:
    """Runs the block with a testbed that is gone afterwards, even if this process is killed.

    The traffic of tenants is off if ``traffic`` is false.
    """
    with cleanup.watch() as watch:
        made = _up(request, watch, traffic=traffic)
        try:
            yield made
        finally:
            # Another process may have taken it down, and brought up a testbed of the same name.
            down(made.name, os.getpid())
            watch.done()

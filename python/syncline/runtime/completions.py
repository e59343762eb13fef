"""The thread that runs callbacks.

Lanes hand finished operations over to this thread, so they never wait for the Python interpreter.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from syncline import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.errors import SynclineError

    Callback = Callable[[SynclineError | None], None]

LONGEST_S = 5.0
"""How long an exiting process waits for callbacks that are still running."""

_lock = threading.Lock()
_thread: threading.Thread | None = None
_stopped = False


def call(callback: Callback, error: SynclineError | None) -> None:
    """Runs a callback. An exception goes to ``threading.excepthook``, as for any thread, and stops nothing else."""
    try:
        callback(error)
    except BaseException:  # noqa: BLE001 - no exception may end the thread
        kind, value, trace = sys.exc_info()
        if kind is not None:
            threading.excepthook(threading.ExceptHookArgs((kind, value, trace, threading.current_thread())))


def _run() -> None:
    while (item := _core.next_completion()) is not None:
        call(*item)
        # Release what the callback holds before waiting for the next one.
        del item


def begin() -> None:
    """Starts the thread, unless it runs or has been stopped."""
    global _thread
    with _lock:
        if _thread is None and not _stopped:
            _thread = threading.Thread(target=_run, name="syncline callbacks", daemon=True)
            _thread.start()


def forked() -> None:
    """Resets this module in a forked child, which has no thread for callbacks and runs none of its parent's."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None


def end() -> None:
    """Runs the remaining callbacks and stops the thread; waits at most :data:`LONGEST_S`."""
    global _stopped
    with _lock:
        _stopped = True
        thread = _thread
    if thread is not None:
        _core.stop_completions()
        thread.join(LONGEST_S)

"""The thread on which callbacks are called: lanes hand over what is over, and never wait for the interpreter."""

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
"""How long a process that ends waits for callbacks that have not returned."""

_lock = threading.Lock()
_thread: threading.Thread | None = None
_stopped = False


def call(callback: Callback, error: SynclineError | None) -> None:
    """Calls back; what that raises is told on stderr, as for any thread, and nobody else notices."""
    try:
        callback(error)
    except BaseException:  # noqa: BLE001 - whatever it is, the thread goes on
        kind, value, trace = sys.exc_info()
        if kind is not None:
            threading.excepthook(threading.ExceptHookArgs((kind, value, trace, threading.current_thread())))


def _run() -> None:
    while (item := _core.next_completion()) is not None:
        call(*item)
        # What the callback holds is not kept until the next one comes.
        del item


def begin() -> None:
    """Sees to it that callbacks are called."""
    global _thread
    with _lock:
        if _thread is None and not _stopped:
            _thread = threading.Thread(target=_run, name="syncline callbacks", daemon=True)
            _thread.start()


def forked() -> None:
    """A process that was just forked has no thread for callbacks, and calls none of its parent's."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None


def end() -> None:
    """Calls what is left to be called, and ends. A callback that does not return is not waited for long."""
    global _stopped
    with _lock:
        _stopped = True
        thread = _thread
    if thread is not None:
        _core.stop_completions()
        thread.join(LONGEST_S)

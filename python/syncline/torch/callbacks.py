"""Threads that complete futures, and so run what users have attached to them.

A callback may wait for another operation. So it must not run on the thread that notices the end of operations
(:mod:`syncline.runtime.completions`): that thread has to complete the operation that the callback waits for. Futures
are completed here, each by an idle thread, or by a new one where all are busy; so callbacks may wait for operations
whose callbacks wait, at any depth. Callbacks start in the order in which their operations ended. Threads end once
they have been idle for :data:`IDLE_S`.
"""

from __future__ import annotations

import atexit
import collections
import threading
import time
from typing import TYPE_CHECKING

# Imported first, so that this module's exit handler runs before groups leave.
from syncline.runtime import at_exit, completions  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_S = 5.0
"""How long a thread waits for another callback before it ends."""

LONGEST_S = 5.0
"""How long an exiting process waits for callbacks that are still running."""


class Pool:
    """A pool with as many threads as there are callbacks at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: collections.deque[Callable[[], None]] = collections.deque()
        self._idle = 0
        self._threads = 0
        self._stopped = False

    def put(self, call: Callable[[], None]) -> None:
        """Runs ``call`` soon, on a thread that nothing else waits for."""
        with self._changed:
            stopped = self._stopped
            if not stopped:
                self._calls.append(call)
                if self._idle >= len(self._calls):
                    self._changed.notify()
                    return
                self._threads += 1
        if stopped:
            call()
        else:
            threading.Thread(target=self._run, name="syncline futures", daemon=True).start()

    @property
    def threads(self) -> int:
        """Number of threads, idle ones included."""
        return self._threads

    def _run(self) -> None:
        while (call := self._next()) is not None:
            completions.call(lambda _, call=call: call(), None)  # type: ignore[misc]
            # Release what the callback holds before waiting for the next one.
            del call

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            there = self._changed.wait_for(lambda: self._calls or self._stopped, IDLE_S)
            self._idle -= 1
            if there and self._calls:
                return self._calls.popleft()
            self._threads -= 1
            self._changed.notify_all()
            return None

    def stop(self) -> None:
        """Ends the threads once the remaining calls have run. Later calls run on the thread that puts them."""
        deadline = time.monotonic() + LONGEST_S
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            while self._threads and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)


POOL = Pool()

atexit.register(POOL.stop)

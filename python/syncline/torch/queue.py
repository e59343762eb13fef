"""Begins a group's operations in the order of their calls.

Operations run at the same time unless they use the same memory: then the later one waits for the earlier one. All
operations behind a waiting one wait as well, because every rank must begin the same operations in the same order.

The thread that waits for an operation also ends it. The thread of callbacks ends an operation only if another operation
waits for it, because waking that thread takes as long as a small operation.
"""

from __future__ import annotations

import collections
import threading
from typing import TYPE_CHECKING

from syncline.torch.device import clashes

if TYPE_CHECKING:
    from syncline.torch.work import Work


class Queue:
    """The operations of a group that wait to begin, or are under way."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: collections.deque[Work] = collections.deque()
        self._active: list[Work] = []
        self._prepared: Work | None = None
        self._held = False

    def put(self, work: Work) -> None:
        """Adds an operation, which begins as soon as it may."""
        with self._lock:
            under_way = tuple(self._active)
            self._waiting.append(work)
        for under in under_way:
            under.look()
        self.go_on()

    def over(self, work: Work) -> None:
        """Removes an operation that is over, and begins others that may begin now."""
        with self._lock:
            if work in self._active:
                self._active.remove(work)
            waiting = bool(self._waiting)
        if waiting:
            self.go_on()

    def go_on(self) -> None:
        """Begins all operations that may begin."""
        with self._lock:
            while self._waiting and not self._held:
                work = self._waiting[0]
                if self._prepared is not work:
                    held_up_by = [under for under in self._active if _clash(under, work)]
                    if held_up_by:
                        for under in held_up_by:
                            under.watch()
                        return
                    self._active.append(work)
                    self._prepared = work
                    try:
                        work.prepare()
                    except Exception as error:  # noqa: BLE001 - raised by `Work.wait`
                        self._waiting.popleft()
                        work.end(error)
                        continue
                if not work.ready():
                    self._held = True
                    threading.Thread(target=self._hold, args=(work,), name="syncline copies", daemon=True).start()
                    return
                self._waiting.popleft()
                work.start()

    def _hold(self, work: Work) -> None:
        """Waits until the operation's copy from a GPU is complete, and goes on."""
        try:
            work.hold()
        finally:
            with self._lock:
                self._held = False
            self.go_on()

    def close(self, error: Exception) -> None:
        """Ends all operations that have not begun, with ``error``."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        for work in waiting:
            work.end(error)


def _clash(one: Work, other: Work) -> bool:
    """Whether one of two operations uses memory that the other writes."""
    return any(clashes(a, b) for a in one.places for b in other.places)

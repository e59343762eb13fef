"""Leaves jobs when the process exits, so that peers do not take the process for dead.

A forked child does not leave: it takes no part in its parent's jobs. It closes its copies of the parent's connections,
so that peers notice at once when the parent ends.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from syncline import _core
from syncline.runtime import completions


class Closable(Protocol):
    """Something that leaves its job when it is closed."""

    def close(self) -> None:
        """Leaves the job."""


_OPEN: weakref.WeakSet[Closable] = weakref.WeakSet()


def register(member: Closable) -> None:
    """Closes ``member`` when the process exits, if it still exists then."""
    _OPEN.add(member)


def _forked() -> None:
    global _OPEN
    # At the fork, another thread may have been changing the old set.
    _OPEN = weakref.WeakSet()
    completions.forked()
    _core.forked()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _leave() -> None:
    for member in list(_OPEN):
        member.close()
    # Closing fails pending operations; run their callbacks, and no others after that.
    completions.end()

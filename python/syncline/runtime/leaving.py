"""A process that ends says goodbye, so that peers that need it no more do not take it for dead.

One that was forked says nothing: it has no part in what its parent runs, and closes what it has of its connections, so
that peers find at once that the parent ends.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

from syncline import _core
from syncline.runtime import completions


class Closes(Protocol):
    """Something that leaves when it is closed."""

    def close(self) -> None:
        """Leaves."""


_OPEN: weakref.WeakSet[Closes] = weakref.WeakSet()


def remember(member: Closes) -> None:
    """Has something closed when the process ends, if it is still there."""
    _OPEN.add(member)


def _forked() -> None:
    global _OPEN
    # Another thread may have been changing it.
    _OPEN = weakref.WeakSet()
    completions.forked()
    _core.forked()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _leave() -> None:
    for member in list(_OPEN):
        member.close()
    # Whoever was to be called back is, and nobody after that.
    completions.end()

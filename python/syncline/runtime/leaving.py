"""A process that ends says goodbye, so that peers that need it no more do not take it for dead."""

from __future__ import annotations

import atexit
import weakref
from typing import Protocol

from syncline.runtime import completions


class Closes(Protocol):
    """Something that leaves when it is closed."""

    def close(self) -> None:
        """Leaves."""


_OPEN: weakref.WeakSet[Closes] = weakref.WeakSet()


def remember(member: Closes) -> None:
    """Has something closed when the process ends, if it is still there."""
    _OPEN.add(member)


@atexit.register
def _leave() -> None:
    for member in list(_OPEN):
        member.close()
    # Whoever was to be called back is, and nobody after that.
    completions.end()

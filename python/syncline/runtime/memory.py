"""Memory of buffers, for operations."""

from __future__ import annotations

from typing import Any

from syncline._core import Memory

__all__ = ["Memory", "memory"]


def memory(buffer: Any) -> Memory:
    """Returns the memory of ``buffer``, which cannot move as long as the result exists.

    Returns a :class:`Memory` unchanged. Raises ``SynclineError`` if the memory is not writable and contiguous, or the
    elements have a type that cannot be reduced.
    """
    return buffer if isinstance(buffer, Memory) else Memory.of(buffer)

"""Memory of buffers, for operations; errors for arguments that cannot be used."""

from __future__ import annotations

from typing import Any

from syncline._core import Memory
from syncline.codes import Code
from syncline.errors import SynclineError

__all__ = ["Memory", "memory", "refusal"]


def refusal(message: str, found: str, allowed: str) -> SynclineError:
    """Returns the error for an argument that cannot be used."""
    return SynclineError(
        [{"code": Code.BAD_VALUE, "severity": "error", "message": message, "found": found, "allowed": allowed}]
    )


def memory(buffer: Any) -> Memory:
    """Returns the memory of ``buffer``, which cannot move as long as the result exists.

    Returns a :class:`Memory` unchanged. Raises ``SynclineError`` if the memory is not writable and contiguous, or the
    elements have a type that cannot be reduced.
    """
    return buffer if isinstance(buffer, Memory) else Memory.of(buffer)

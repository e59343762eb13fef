"""Addresses, sizes and element types of buffers."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from syncline.errors import SynclineError

ELEMENTS = {
    "f": "f32",
    "d": "f64",
    "e": "f16",
    "b": "i8",
    "B": "u8",
    "h": "i16",
    "?": "bool",
}
"""Element types by the buffer format, for formats with a fixed size."""

INTEGERS = {"i", "l", "q", "n"}
"""Formats of signed integers whose size depends on the machine."""


@dataclass(frozen=True)
class Memory:
    """The memory of a buffer: its address, its size, and the type (``f32``) and size of its elements, in bytes."""

    address: int
    nbytes: int
    element: str
    width: int
    owner: Any

    @property
    def place(self) -> tuple[int, int]:
        """The address, and the size in bytes."""
        return self.address, self.nbytes

    def bytes(self) -> memoryview:
        """Returns a writable view of the bytes, valid as long as this object exists."""
        if not self.nbytes:
            return memoryview(bytearray())
        return memoryview((ctypes.c_ubyte * self.nbytes).from_address(self.address)).cast("B")


NOTHING = (0, 0)
"""The ``place`` of an absent buffer."""


def refusal(message: str, found: str, allowed: str) -> SynclineError:
    """Returns the error for an argument that cannot be used."""
    return SynclineError(
        [{"code": "SL0102", "severity": "error", "message": message, "found": found, "allowed": allowed}]
    )


def memory(buffer: Any) -> Memory:
    """Returns the memory of ``buffer``, which cannot move as long as the result exists.

    Returns a :class:`Memory` unchanged. Raises ``SynclineError`` if the memory is not writable and contiguous, or the
    elements have a type that cannot be reduced.
    """
    if isinstance(buffer, Memory):
        return buffer
    try:
        view = memoryview(buffer)
    except TypeError as error:
        kind = type(buffer).__name__
        raise refusal("this object has no memory buffer", kind, "bytearray, array.array, NumPy arrays") from error
    form = view.format.lstrip("@=<")
    if view.readonly or not view.c_contiguous:
        what = "read-only" if view.readonly else "with gaps between its elements"
        raise refusal("a buffer must be writable and contiguous", what, "writable memory without gaps")
    element = f"i{8 * view.itemsize}" if form in INTEGERS else ELEMENTS.get(form)
    if element is None:
        formats = ", ".join([*ELEMENTS, *sorted(INTEGERS)])
        raise refusal("elements of this type cannot be reduced", f"format `{view.format}`", f"formats {formats}")
    if view.nbytes == 0:
        return Memory(0, 0, element, view.itemsize, view)
    flat = view.cast("B")
    held = (ctypes.c_char * view.nbytes).from_buffer(flat)
    return Memory(ctypes.addressof(held), view.nbytes, element, view.itemsize, held)

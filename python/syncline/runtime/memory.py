"""Where buffers lie, and what is in them."""

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
"""Elements by the format of a buffer, where its size says no more."""

INTEGERS = {"i", "l", "q", "n"}
"""Formats of signed integers, whose size depends on the machine."""


@dataclass(frozen=True)
class Memory:
    """Memory of a buffer: where it is, its bytes, what its elements are (``f32``), and the bytes of one."""

    address: int
    nbytes: int
    element: str
    width: int
    owner: Any

    @property
    def place(self) -> tuple[int, int]:
        """Address and bytes."""
        return self.address, self.nbytes

    def bytes(self) -> memoryview:
        """Its bytes, to be read and written while it lives."""
        if not self.nbytes:
            return memoryview(bytearray())
        return memoryview((ctypes.c_ubyte * self.nbytes).from_address(self.address)).cast("B")


NOTHING = (0, 0)
"""The place of no memory."""


def refusal(message: str, found: str, allowed: str) -> SynclineError:
    """A buffer that cannot be used."""
    return SynclineError(
        [{"code": "SL0102", "severity": "error", "message": message, "found": found, "allowed": allowed}]
    )


def memory(buffer: Any) -> Memory:
    """The memory of ``buffer``, which stays where it is as long as the result lives.

    What is a :class:`Memory` already stays what it is.

    Raises ``SynclineError`` where it has no writable, contiguous memory, or elements that are not aggregated.
    """
    if isinstance(buffer, Memory):
        return buffer
    try:
        view = memoryview(buffer)
    except TypeError as error:
        kind = type(buffer).__name__
        raise refusal("this has no memory to work on", kind, "bytearray, array.array, NumPy arrays") from error
    form = view.format.lstrip("@=<")
    if view.readonly or not view.c_contiguous:
        what = "read-only" if view.readonly else "with gaps between its elements"
        raise refusal("a collective writes to its buffer", what, "writable memory without gaps")
    element = f"i{8 * view.itemsize}" if form in INTEGERS else ELEMENTS.get(form)
    if element is None:
        formats = ", ".join([*ELEMENTS, *sorted(INTEGERS)])
        raise refusal("such elements are not aggregated", f"format `{view.format}`", f"formats {formats}")
    if view.nbytes == 0:
        return Memory(0, 0, element, view.itemsize, view)
    flat = view.cast("B")
    held = (ctypes.c_char * view.nbytes).from_buffer(flat)
    return Memory(ctypes.addressof(held), view.nbytes, element, view.itemsize, held)

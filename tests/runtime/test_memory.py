"""Memory of buffers: what is refused, what is held, and for how long."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from array import array

import numpy as np
import pytest

from syncline._core import Memory
from syncline.errors import SynclineError
from syncline.runtime import Communicator
from syncline.runtime.memory import memory


@pytest.mark.parametrize(
    ("buffer", "element", "elements", "nbytes"),
    [
        (bytearray(5), "u8", 5, 5),
        (array("f", [1.0] * 3), "f32", 3, 12),
        (array("q", [1] * 3), "i64", 3, 24),
        (array("i", [1] * 3), "i32", 3, 12),
        (array("h"), "i16", 0, 0),
        (memoryview(bytearray(8)).cast("?"), "bool", 8, 8),
        (memoryview(bytearray(8))[3:6], "u8", 3, 3),
        (np.zeros((2, 3), "f2"), "f16", 6, 12),
        (np.zeros((0, 3), "f8"), "f64", 0, 0),
        (np.array(1.0), "f64", 1, 8),
        ((ctypes.c_double * 4)(), "f64", 4, 32),
        ((ctypes.c_int * 4)(), "i32", 4, 16),
    ],
)
def test_a_buffer_has_elements(buffer, element, elements, nbytes):
    found = memory(buffer)
    assert (found.element, found.elements, found.nbytes) == (element, elements, nbytes)
    assert memory(found) is found


def test_memory_that_is_read_only_or_has_gaps_or_the_other_byte_order_is_refused():
    order = ">" if sys.byteorder == "little" else "<"
    still = np.zeros(4, "f4")
    still.flags.writeable = False
    for buffer in (still, np.zeros((4, 4), "f4").T, np.zeros(8, "f4")[::-1], np.zeros(4, f"{order}f4")):
        with pytest.raises(SynclineError) as caught:
            memory(buffer)
        assert caught.value.diagnostics[0]["message"] in (
            "a buffer must be writable and contiguous",
            "elements of this type cannot be reduced",
        )


def test_a_buffer_can_be_resized_only_when_its_memory_is_released():
    buffer = bytearray(4)
    held = memory(buffer)
    with pytest.raises(BufferError):
        buffer.append(1)
    del held
    buffer.append(1)


def test_memory_stays_valid_without_its_buffer():
    buffer = np.zeros(4, "f4")
    held, gone = memory(buffer), weakref.ref(buffer)
    del buffer
    gc.collect()
    assert gone() is not None
    del held
    assert gone() is None


class Block:
    """An object with memory that it gives away by address only."""

    def __init__(self, nbytes: int) -> None:
        self.held = (ctypes.c_ubyte * nbytes)()
        self.address = ctypes.addressof(self.held)


def test_memory_at_an_address_keeps_its_owner():
    block = Block(8)
    held, gone = Memory.unsafe_from_address(block.address, 8, "f32", block), weakref.ref(block)
    del block
    assert (held.element, held.elements, held.nbytes) == ("f32", 2, 8)
    assert gone() is not None
    del held
    assert gone() is None
    assert Memory.unsafe_from_address(0, 0, "f32", None).nbytes == 0


@pytest.mark.parametrize(
    ("address", "nbytes", "element", "owner", "why"),
    [
        (4096, 6, "f32", object(), "6 bytes are not a whole number of f32"),
        (0, 8, "f32", object(), "there cannot be 8 bytes at address 0x0"),
        (2**64 - 4, 8, "f32", object(), "there cannot be 8 bytes at address 0xfffffffffffffffc"),
        (4096, 2**63, "u8", object(), "there cannot be 9223372036854775808 bytes at address 0x1000"),
        (4096, 8, "f32", None, "memory needs an owner that keeps it valid"),
        (4096, 8, "f33", object(), "not a type of elements"),
    ],
)
def test_an_impossible_address_is_refused(address, nbytes, element, owner, why):
    with pytest.raises(ValueError, match=why):
        Memory.unsafe_from_address(address, nbytes, element, owner)


def test_operations_take_memory_and_nothing_else():
    with Communicator.join(rank=0, world=1) as ranks:
        core = ranks._core
        for place in ((4096, 8), 4096, bytearray(8)):
            with pytest.raises(TypeError):
                core.begin("all_reduce", "sum", 0, False, place, place, False)
            with pytest.raises(TypeError):
                core.send(place, 0, 0, 0)
        with pytest.raises(ValueError, match="all_gather needs a whole vector"):
            core.begin("all_gather", "sum", 0, False, memory(bytearray(8)), None, False)
        with pytest.raises(SynclineError, match="the output of all_reduce of 8 u8"):
            core.begin("all_reduce", "sum", 0, False, memory(bytearray(8)), memory(bytearray(7)), False)

"""Maps PyTorch's element types and reductions to those of plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from syncline.input.problem import bad_value
from syncline.runtime.memory import Memory

if TYPE_CHECKING:
    from syncline.input.words import Reduction

ELEMENTS = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.bool: "bool",
}
"""Types that can be reduced, and their names in plans."""

PAIRS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
"""Complex types, and the types of their two parts. They can be summed as pairs."""

REDUCTIONS: dict[Any, Reduction] = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "sum",
    dist.ReduceOp.PREMUL_SUM: "sum",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "bit_and",
    dist.ReduceOp.BOR: "bit_or",
    dist.ReduceOp.BXOR: "bit_xor",
}
"""Reductions of PyTorch, and their names in plans. An average is a sum that is divided afterwards."""


@dataclass(frozen=True)
class Reducing:
    """A reduction of tensors of one type, as a reduction of plans and factors."""

    reduction: Reduction
    """The name of the reduction in plans."""
    before: float | torch.Tensor | None = None
    """The factor by which contributions are multiplied, if any."""
    after: float | int | None = None
    """If a float, results are multiplied by it; if an integer, divided by it and rounded towards zero."""


def reducing(what: str, op: Any, dtype: torch.dtype, world: int) -> Reducing:
    """Returns the reduction for an element type.

    Raises ``SynclineError`` if the type cannot be reduced this way.
    """
    kind = op.op if isinstance(op, dist.ReduceOp) else op
    # A cache, because PyTorch's enumerations are slow to compare.
    known = (int(kind), dtype, world)
    if known not in _KNOWN:
        how = _reducing(what, op, kind, dtype, world)
        if how.before is not None:
            return how
        _KNOWN[known] = how
    return _KNOWN[known]


_KNOWN: dict[tuple[int, torch.dtype, int], Reducing] = {}


def _reducing(what: str, op: Any, kind: Any, dtype: torch.dtype, world: int) -> Reducing:
    reduction = REDUCTIONS.get(kind)
    name = getattr(kind, "name", str(kind)).lower()
    if reduction is None:
        allowed = ", ".join(each.name.lower() for each in REDUCTIONS)
        raise bad_value(f"{what} does not support this reduction", name, allowed=allowed)
    if dtype not in ELEMENTS and dtype not in PAIRS:
        found = str(dtype).removeprefix("torch.")
        names = ", ".join(str(each).removeprefix("torch.") for each in (*ELEMENTS, *PAIRS))
        raise bad_value(f"{what} cannot reduce elements of this type", found, allowed=names)
    if dtype in PAIRS and reduction != "sum":
        raise bad_value(f"{what} can only sum complex numbers", name, allowed="sum, avg")
    if reduction.startswith("bit") and dtype.is_floating_point:
        found = f"{name} of {str(dtype).removeprefix('torch.')}"
        raise bad_value(f"{what} can combine bits of integers and bool only", found, allowed="an integer, uint8, bool")
    fractions = dtype.is_floating_point or dtype.is_complex
    if (kind == dist.ReduceOp.PREMUL_SUM and not fractions) or (kind == dist.ReduceOp.AVG and dtype == torch.bool):
        found = f"{name} of {str(dtype).removeprefix('torch.')}"
        raise bad_value(
            f"{what} cannot compute fractions of {'bool' if dtype == torch.bool else 'integers'}",
            found,
            allowed="floats, or sum",
        )
    if kind == dist.ReduceOp.PREMUL_SUM:
        # PyTorch has no other way to read the factor.
        return Reducing(reduction, before=op.__getstate__()[1])
    if kind == dist.ReduceOp.AVG:
        return Reducing(reduction, after=1.0 / world if fractions else world)
    return Reducing(reduction)


def memory(tensor: torch.Tensor) -> Memory:
    """Returns the memory of a dense, contiguous tensor on the CPU. It stays valid as long as the result exists."""
    dtype = PAIRS.get(tensor.dtype, tensor.dtype)
    return _memory(tensor, ELEMENTS.get(dtype, "u8"))


def raw(tensor: torch.Tensor) -> Memory:
    """Returns the memory of a tensor, like :func:`memory`, as bytes."""
    return _memory(tensor, "u8")


def _memory(tensor: torch.Tensor, element: str) -> Memory:
    # The tensor keeps the memory unless somebody resizes it or gives it another storage, which nothing can rule out.
    # DLPack would not need an address, but does not have all types, and takes longer.
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        where = "with gaps between its elements" if tensor.device.type == "cpu" else f"on {tensor.device}"
        raise bad_value(
            "the memory of this tensor cannot be used in place", where, allowed="a contiguous tensor on the CPU"
        )
    nbytes = tensor.numel() * tensor.element_size()
    return Memory.unsafe_from_address(tensor.data_ptr(), nbytes, element, tensor)


def check(what: str, tensors: list[torch.Tensor]) -> None:
    """Checks that tensors are dense, and on a CPU or GPU.

    Raises ``SynclineError`` if one is not.
    """
    for tensor in tensors:
        if tensor.layout != torch.strided:
            raise bad_value(f"{what} needs dense tensors", str(tensor.layout).removeprefix("torch."), allowed="strided")
        if tensor.device.type not in ("cpu", "cuda"):
            raise bad_value(f"{what} cannot use tensors on this device", str(tensor.device), allowed="cpu, cuda")

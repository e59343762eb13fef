"""Elements of tensors, and how they are reduced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from syncline.runtime.memory import Memory, refusal

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
"""Types that can be reduced, by their names in plans."""

PAIRS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
"""Complex numbers are pairs of these, which can be summed."""

REDUCTIONS = {
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
"""Reductions of PyTorch, by their names in plans. An average is a sum that is divided afterwards."""


@dataclass(frozen=True)
class Reducing:
    """How tensors of one type are reduced."""

    reduction: str
    """Its name in plans."""
    before: float | torch.Tensor | None = None
    """What contributions are multiplied with, if anything."""
    after: float | int | None = None
    """What results are multiplied with (a float), or divided by, towards zero (an integer)."""


def reducing(what: str, op: Any, dtype: torch.dtype, world: int) -> Reducing:
    """How a reduction is done for a type.

    Raises ``SynclineError`` where it is not.
    """
    kind = op.op if isinstance(op, dist.ReduceOp) else op
    # What is usual is known at once: PyTorch's words are slow to compare.
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
        raise refusal(f"{what} knows no such reduction", name, ", ".join(each.name.lower() for each in REDUCTIONS))
    if dtype not in ELEMENTS and dtype not in PAIRS:
        found = str(dtype).removeprefix("torch.")
        names = ", ".join(str(each).removeprefix("torch.") for each in (*ELEMENTS, *PAIRS))
        raise refusal(f"{what} cannot reduce such elements", found, names)
    if dtype in PAIRS and reduction != "sum":
        raise refusal(f"{what} can only sum complex numbers", name, "sum, avg")
    if reduction.startswith("bit") and dtype.is_floating_point:
        found = f"{name} of {str(dtype).removeprefix('torch.')}"
        raise refusal(f"{what} combines bits of integers and bool only", found, "an integer, uint8, bool")
    fractions = dtype.is_floating_point or dtype.is_complex
    if (kind == dist.ReduceOp.PREMUL_SUM and not fractions) or (kind == dist.ReduceOp.AVG and dtype == torch.bool):
        found = f"{name} of {str(dtype).removeprefix('torch.')}"
        raise refusal(
            f"{what} gives no fractions of {'bool' if dtype == torch.bool else 'integers'}", found, "floats, or sum"
        )
    if kind == dist.ReduceOp.PREMUL_SUM:
        # The factor is told nowhere else.
        return Reducing(reduction, before=op.__getstate__()[1])
    if kind == dist.ReduceOp.AVG:
        return Reducing(reduction, after=1.0 / world if fractions else world)
    return Reducing(reduction)


def memory(tensor: torch.Tensor) -> Memory:
    """The memory of a dense tensor without gaps on the CPU. It lives as long as the result."""
    if tensor.dtype in PAIRS:
        tensor = torch.view_as_real(tensor)
    element = ELEMENTS.get(tensor.dtype)
    width = tensor.element_size()
    nbytes = tensor.numel() * width
    if element is None:
        element, width = "u8", 1
    return Memory(tensor.data_ptr() if nbytes else 0, nbytes, element, width, tensor)


def raw(tensor: torch.Tensor) -> Memory:
    """The same, as bytes."""
    nbytes = tensor.numel() * tensor.element_size()
    return Memory(tensor.data_ptr() if nbytes else 0, nbytes, "u8", 1, tensor)


def check(what: str, tensors: list[torch.Tensor]) -> None:
    """That these are tensors whose memory can be worked on.

    Raises ``SynclineError`` where they are not.
    """
    for tensor in tensors:
        if tensor.layout != torch.strided:
            raise refusal(f"{what} needs dense tensors", str(tensor.layout).removeprefix("torch."), "strided")
        if tensor.device.type not in ("cpu", "cuda"):
            raise refusal(f"{what} needs tensors in memory that it can reach", str(tensor.device), "cpu, cuda")

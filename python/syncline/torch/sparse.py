"""Sparse tensors of all ranks, summed: every rank gets the indices and values of all, and adds them up."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from syncline.runtime.memory import refusal

SUMS = (dist.ReduceOp.SUM, dist.ReduceOp.AVG)


class Sparse:
    """A sparse tensor (COO) that is summed over ranks, in place.

    Raises ``SynclineError`` for other reductions.
    """

    def __init__(self, tensor: torch.Tensor, world: int, op: Any) -> None:
        kind = op.op if isinstance(op, dist.ReduceOp) else op
        if kind not in SUMS:
            name = getattr(kind, "name", str(kind)).lower()
            raise refusal("all_reduce can only sum sparse tensors", name, "sum, avg")
        fractions = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        if kind == dist.ReduceOp.AVG and not fractions:
            found = f"avg of {str(tensor.dtype).removeprefix('torch.')}"
            raise refusal("all_reduce averages sparse tensors of floats only", found, "floats, or sum")
        self._tensor = tensor
        self._own = tensor.detach().coalesce()
        self._divisor = world if kind == dist.ReduceOp.AVG else 1
        self._rooms: list[tuple[torch.Tensor, torch.Tensor]] = []
        device = tensor.device
        self.count = torch.tensor([self._own._nnz()], device=device)  # noqa: SLF001 - PyTorch's only name for it
        """How many elements this rank has."""
        self.counts = torch.zeros(world, dtype=torch.int64, device=device)
        """How many each rank has, once they are exchanged."""

    def rooms(self, me: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Indices and values of each rank; there is room for those of others."""
        own = (self._own.indices().contiguous(), self._own.values().contiguous())
        for rank, count in enumerate(self.counts.tolist()):
            if rank == me:
                self._rooms.append(own)
                continue
            indices = own[0].new_empty((own[0].shape[0], count))
            self._rooms.append((indices, own[1].new_empty((count, *own[1].shape[1:]))))
        return self._rooms

    def sum(self) -> None:
        """Adds up what has come, in the order of ranks, into the tensor."""
        indices = torch.cat([pair[0] for pair in self._rooms], dim=1)
        values = torch.cat([pair[1] for pair in self._rooms])
        whole = torch.sparse_coo_tensor(indices, values, self._tensor.shape).coalesce()
        self._tensor.copy_(whole / self._divisor if self._divisor > 1 else whole)

"""Sums sparse tensors over ranks: every rank gets the indices and values of all ranks, and adds them up."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from syncline.input.problem import bad_value

SUMS = (dist.ReduceOp.SUM, dist.ReduceOp.AVG)


class Sparse:
    """The sum of a sparse tensor (COO) over all ranks, in place.

    Raises ``SynclineError`` for reductions other than a sum or an average.
    """

    def __init__(self, tensor: torch.Tensor, world: int, op: Any) -> None:
        kind = op.op if isinstance(op, dist.ReduceOp) else op
        if kind not in SUMS:
            name = getattr(kind, "name", str(kind)).lower()
            raise bad_value("all_reduce can only sum sparse tensors", name, allowed="sum, avg")
        fractions = tensor.dtype.is_floating_point or tensor.dtype.is_complex
        if kind == dist.ReduceOp.AVG and not fractions:
            found = f"avg of {str(tensor.dtype).removeprefix('torch.')}"
            raise bad_value("all_reduce averages sparse tensors of floats only", found, allowed="floats, or sum")
        self._tensor = tensor
        self._own = tensor.detach().coalesce()
        self._divisor = world if kind == dist.ReduceOp.AVG else 1
        self._rooms: list[tuple[torch.Tensor, torch.Tensor]] = []
        device = tensor.device
        self.count = torch.tensor([self._own._nnz()], device=device)  # noqa: SLF001 - PyTorch's only name for it
        """The number of elements of this rank."""
        self.counts = torch.zeros(world, dtype=torch.int64, device=device)
        """The number of elements of each rank, once the ranks have exchanged them."""

    def rooms(self, me: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Returns the indices and values of each rank; those of other ranks are empty tensors of the right size."""
        own = (self._own.indices().contiguous(), self._own.values().contiguous())
        for rank, count in enumerate(self.counts.tolist()):
            if rank == me:
                self._rooms.append(own)
                continue
            indices = own[0].new_empty((own[0].shape[0], count))
            self._rooms.append((indices, own[1].new_empty((count, *own[1].shape[1:]))))
        return self._rooms

    def sum(self) -> None:
        """Adds up the elements of all ranks, in the order of ranks, and stores the sum in the tensor."""
        indices = torch.cat([pair[0] for pair in self._rooms], dim=1)
        values = torch.cat([pair[1] for pair in self._rooms])
        whole = torch.sparse_coo_tensor(indices, values, self._tensor.shape).coalesce()
        self._tensor.copy_(whole / self._divisor if self._divisor > 1 else whole)

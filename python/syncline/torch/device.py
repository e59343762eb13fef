"""Gives collectives access to the memory of tensors: in place if possible, or else through a contiguous copy.

A tensor on a GPU is copied to pinned memory and back on a separate stream, after the work that its own stream has
queued. Only a thread that has nothing else to do waits for the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_STREAMS: dict[torch.device, torch.cuda.Stream] = {}
"""The stream for copies of each GPU."""


def _copies(device: torch.device) -> torch.cuda.Stream:
    if device not in _STREAMS:
        _STREAMS[device] = torch.cuda.Stream(device)
    return _STREAMS[device]


def in_place(tensor: torch.Tensor) -> bool:
    """Whether collectives can use a tensor's memory directly."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the address of the first byte of a tensor's memory, and the address after its last byte."""
    if not tensor.numel():
        return 0, 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (steps + 1) * tensor.element_size()


class Local:
    """Tensors of an operation, as one contiguous tensor ``host`` on the CPU, once it is prepared.

    If the operation reads them, they are copied to ``host`` (each multiplied by ``factor``, if there is one). If it
    writes them, they are copied back.
    """

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        *,
        reads: bool,
        writes: bool,
        factor: float | torch.Tensor | None = None,
    ) -> None:
        self.tensors = [tensor.detach() for tensor in tensors]
        self.reads = reads
        self.writes = writes
        self._factor = factor
        self._host: torch.Tensor | None = None
        self._copied: torch.cuda.Event | None = None
        self._back: torch.cuda.Event | None = None
        first = self.tensors[0]
        self.device = first.device
        self._asked = None
        if self.device.type == "cuda":
            self._asked = torch.cuda.current_stream(self.device).record_event()
        if factor is None and all(in_place(tensor) for tensor in self.tensors) and self._adjacent():
            size = sum(tensor.numel() for tensor in self.tensors)
            self._host = first.view(-1) if len(self.tensors) == 1 else first.as_strided((size,), (1,))
        self.direct = self._host is not None
        """Whether ``host`` is the memory of the tensors themselves, so that no copies are needed."""

    def _adjacent(self) -> bool:
        """Returns whether each tensor begins where the one before it ends, in one storage."""
        first, at = self.tensors[0], self.tensors[0].data_ptr()
        for tensor in self.tensors[1:]:
            at += first.numel() * first.element_size()
            alike = tensor.dtype == first.dtype and tensor.numel() == first.numel()
            same = tensor.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
            if not (alike and same and tensor.data_ptr() == at):
                return False
        return True

    @property
    def host(self) -> torch.Tensor:
        """The elements of all tensors on the CPU, flat and contiguous."""
        if self._host is None:
            raise RuntimeError("an operation uses tensors that were not prepared: this is a bug in syncline")
        return self._host

    def prepare(self) -> None:
        """Begins to copy the elements to the CPU, unless they are used in place."""
        if self.direct:
            return
        size = sum(tensor.numel() for tensor in self.tensors)
        pinned = self.device.type == "cuda"
        self._host = torch.empty(size, dtype=self.tensors[0].dtype, pin_memory=pinned)
        if not self.reads:
            return
        if not pinned:
            self._gather()
            return
        stream = _copies(self.device)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            if self._asked is not None:
                stream.wait_event(self._asked)
            for tensor in self.tensors:
                tensor.record_stream(stream)
            self._gather()
            self._copied = stream.record_event()

    def _gather(self) -> None:
        at = 0
        for tensor in self.tensors:
            part = self.host[at : at + tensor.numel()].view(tensor.shape)
            source = tensor if self._factor is None else tensor * self._factor
            part.copy_(source, non_blocking=True)
            at += tensor.numel()

    def ready(self) -> bool:
        """Returns whether the elements are on the CPU."""
        return self._copied is None or self._copied.query()

    def wait(self) -> None:
        """Waits until the elements are on the CPU."""
        if self._copied is not None:
            self._copied.synchronize()

    def finish(self, factor: float | int | None = None) -> None:
        """Multiplies the result by ``factor`` (or divides it, if that is an integer), and copies it to the tensors."""
        if isinstance(factor, int):
            self.host.div_(factor, rounding_mode="trunc")
        elif factor is not None and self.host.numel():
            self.host.mul_(factor)
        if self.direct or not self.writes:
            return
        if self.device.type != "cuda":
            self._scatter()
            return
        stream = _copies(self.device)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            if self._asked is not None:
                stream.wait_event(self._asked)
            self._scatter()
            for tensor in self.tensors:
                tensor.record_stream(stream)
            self._back = stream.record_event()

    def _scatter(self) -> None:
        at = 0
        for tensor in self.tensors:
            tensor.copy_(self.host[at : at + tensor.numel()].view(tensor.shape), non_blocking=True)
            at += tensor.numel()

    def join(self) -> None:
        """Makes the current stream wait until the results are copied back."""
        if self._back is not None:
            torch.cuda.current_stream(self.device).wait_event(self._back)


def clashes(one: Local, other: Local) -> bool:
    """Whether one of two operations writes memory that the other uses."""
    if not (one.writes or other.writes) or one.device != other.device:
        return False
    for a in one.tensors:
        begin, end = extent(a)
        for b in other.tensors:
            first, last = extent(b)
            if begin < last and first < end:
                return True
    return False

"""Where tensors lie, and where collectives work on them: in place where they can, else on a copy without gaps.

A tensor of a GPU is copied to pinned memory on a stream of its own, behind what its own stream is doing, and back
again; nobody waits for the GPU but a thread that has nothing else to do.
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
    """Whether a tensor's memory can be worked on as it is."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor's memory, and the one behind its last."""
    if not tensor.numel():
        return 0, 0
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (steps + 1) * tensor.element_size()


class Local:
    """Tensors, one behind the other, as an operation works on them: ``host``, once it is prepared.

    They are copied there where the operation reads them (each multiplied with ``factor``, if there is one), and back
    where it writes them.
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
        """Whether it is worked on as it is."""

    def _adjacent(self) -> bool:
        """Whether each tensor begins where the one before it ends, in one storage."""
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
        """The elements on the CPU, without gaps and flat."""
        if self._host is None:
            raise RuntimeError("an operation works on tensors that were not prepared: a bug of syncline")
        return self._host

    def prepare(self) -> None:
        """Sees to it that the elements are, or will be, on the CPU."""
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
        """Whether the elements are there."""
        return self._copied is None or self._copied.query()

    def wait(self) -> None:
        """Waits until they are."""
        if self._copied is not None:
            self._copied.synchronize()

    def finish(self, factor: float | int | None = None) -> None:
        """Multiplies what has come with ``factor``, or divides it by an integer, and copies it to the tensors."""
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
        """Has the current stream wait until results are back."""
        if self._back is not None:
            torch.cuda.current_stream(self.device).wait_event(self._back)


def clashes(one: Local, other: Local) -> bool:
    """Whether one of two writes what the other works on, too."""
    if not (one.writes or other.writes) or one.device != other.device:
        return False
    for a in one.tensors:
        begin, end = extent(a)
        for b in other.tensors:
            first, last = extent(b)
            if begin < last and first < end:
                return True
    return False

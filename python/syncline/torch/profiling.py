"""Records operations in traces of PyTorch's profiler, from the call until the operation is over."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from syncline.torch.callbacks import POOL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.torch.device import Local


def profiling() -> bool:
    """Whether a profiler is recording on this thread."""
    return bool(torch._C._autograd._profiler_enabled())  # noqa: SLF001 - there is no public name


class Span:
    """An operation in a trace, with its name and the shapes of the tensors that it reads, or else writes.

    It ends on another thread. PyTorch therefore records it as asynchronous: it may overlap other work of the caller.
    """

    def __init__(self, name: str, places: Sequence[Local]) -> None:
        shown = [place for place in places if place.reads] or places
        tensors = [tensor for place in shown for tensor in place.tensors]
        self._handle = torch.autograd._record_function_with_args_enter(name, *tensors)  # noqa: SLF001 - as above
        self._over = threading.Event()

    def end(self) -> None:
        """Records that the operation is over."""
        POOL.put(self._exit)

    def _exit(self) -> None:
        torch.autograd._record_function_with_args_exit(self._handle)  # noqa: SLF001 - as above
        self._over.set()

    def wait(self) -> None:
        """Waits until the end has been recorded in the trace."""
        self._over.wait()

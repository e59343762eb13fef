"""Operations in traces of PyTorch's profiler, from when they are asked for until they are over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.torch.device import Local
    from syncline.torch.work import Work


def profiling() -> bool:
    """Whether a profiler is recording on this thread."""
    return torch._C._autograd._profiler_enabled()  # noqa: SLF001 - the only way to ask


def trace(name: str, places: Sequence[Local], work: Work) -> None:
    """Has an operation recorded under a name, with the shapes of what it reads."""
    tensors = [tensor for place in places if place.reads for tensor in place.tensors]
    handle = torch.autograd._record_function_with_args_enter(name, *tensors)
    torch.ops.profiler._call_end_callbacks_on_jit_fut(handle, work.get_future())

"""Keeps ``torch.compile`` from tracing the backend: its graphs call operations, or break before and after them.

PyTorch's own backends are written in C++, which the compiler does not trace. This backend is written in Python; the
compiler would trace its threads and locks, and fail.
"""

from __future__ import annotations

import types
from typing import TypeVar

Class = TypeVar("Class", bound=type)

REASON = "operations of syncline are not traced"


def untraced(cls: Class) -> Class:
    """Makes the compiler run the methods of a class, and everything that they call, without tracing."""
    # Part of PyTorch's C code. Importing `torch._dynamo` itself takes seconds, and only the compiler needs it.
    from torch._C._dynamo import eval_frame

    skip = eval_frame._FrameAction.SKIP  # noqa: SLF001 - there is no public name
    strategy = eval_frame._FrameExecStrategy(skip, skip)  # noqa: SLF001
    for member in vars(cls).values():
        found = member.fget if isinstance(member, property) else member
        if isinstance(found, types.FunctionType):
            found._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001 - as torch.compiler.disable does
            found._torchdynamo_disable_msg = REASON  # type: ignore[attr-defined]  # noqa: SLF001
            eval_frame.set_code_exec_strategy(found.__code__, strategy)
    return cls

"""Errors as PyTorch's callers expect them: a ``RuntimeError`` that says "timeout" where something took too long."""

from __future__ import annotations

import torch.distributed as dist

from syncline.errors import Diagnostic, SynclineError

# A timeout of PyTorch becomes the deadline of the runtime, which calls it so nowhere.
LATE = ("has not begun operation", "was not through", "has not sent", "has sent", "has not asked for")
"""What the runtime says of operations that a deadline ended."""


class BackendError(SynclineError, dist.DistBackendError):  # type: ignore[misc]  # the base is not known without PyTorch
    """An operation of the backend failed. It is a ``SynclineError`` and PyTorch's ``DistBackendError``."""


def failure(error: SynclineError) -> BackendError:
    """The same error for PyTorch's callers."""
    if isinstance(error, BackendError):
        return error
    first = error.diagnostics[0]
    message = first["message"]
    diagnostics = error.diagnostics
    if "timeout" not in message and any(words in message for words in LATE):
        told: Diagnostic = {**first, "message": f"a timeout ended the operation: {message}"}
        diagnostics = [told, *error.diagnostics[1:]]
    raised = BackendError(diagnostics, error.exit_status)
    raised.__cause__ = error.__cause__
    return raised


def late(message: str) -> BackendError:
    """Something that took too long, as ``message`` says."""
    return BackendError([{"code": "SL1202", "severity": "error", "message": message}], 6)


def closed() -> BackendError:
    """An operation of a group that was left."""
    return BackendError([{"code": "SL1202", "severity": "error", "message": "the group is closed"}], 6)

"""Converts errors to those that PyTorch's callers expect: ``RuntimeError``, with "timeout" in its text if one expired.

A timeout of PyTorch is the deadline of the runtime, whose messages do not contain the word "timeout".
"""

from __future__ import annotations

import torch.distributed as dist

from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.input.problem import error as diagnostic
from syncline.input.problem import exception


class BackendError(SynclineError, dist.DistBackendError):  # type: ignore[misc]  # the base is not known without PyTorch
    """An operation of the backend failed. It is a ``SynclineError`` and PyTorch's ``DistBackendError``."""


def backend_error(error: SynclineError) -> BackendError:
    """Converts an error of the runtime for PyTorch's callers."""
    if isinstance(error, BackendError):
        return error
    first = error.diagnostics[0]
    message = first["message"]
    diagnostics = error.diagnostics
    if first.get("kind") == "deadline":
        first = {**first, "message": f"a timeout ended the operation: {message}"}
        diagnostics = [first, *error.diagnostics[1:]]
    raised = BackendError(diagnostics, error.exit_status)
    raised.__cause__ = error.__cause__
    return raised


def timeout_error(message: str) -> BackendError:
    """Returns the error for a wait that timed out; ``message`` describes it."""
    return backend_error(exception(diagnostic(Code.PEER_FAILED, message)))


def closed_error() -> BackendError:
    """Returns the error for an operation of a closed group."""
    return backend_error(exception(diagnostic(Code.PEER_FAILED, "the group is closed")))

"""Imports PyTorch, an optional package, when it is first needed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from syncline.codes import Code
from syncline.extras import install
from syncline.input.problem import error, raise_errors


def torch() -> Any:
    """The package ``torch``. Raises :class:`SynclineError` if it is not installed or cannot be imported."""
    if find_spec("torch") is None:
        raise_errors(
            error(
                Code.MISSING_PACKAGE,
                "PyTorch is not installed, and this needs it",
                help=f"install it: {install('torch')}",
            )
        )
    try:
        return import_module("torch")
    except (ImportError, OSError) as problem:
        reason = " ".join(str(problem).split())
        raise_errors(
            error(
                Code.MISSING_PACKAGE, f"PyTorch cannot be imported: {reason}", help=f"reinstall it: {install('torch')}"
            )
        )

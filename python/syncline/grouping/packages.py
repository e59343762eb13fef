"""Imports the optional packages that find groups."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from syncline.codes import Code
from syncline.extras import install
from syncline.input.problem import error, raise_errors


def needed(module: str, package: str, extra: str = "group") -> Any:
    """Imports a module of an optional package.

    :raises SynclineError: the package is not installed; the error says how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise_errors(error(Code.MISSING_PACKAGE, f"this needs {package}, which is not installed", help=install(extra)))

"""Imports the optional packages that find groups."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

from syncline.codes import Code
from syncline.extras import install
from syncline.input.problem import error, raise_errors


def require() -> None:
    """Checks that the packages are installed that find groups, without importing them.

    :raises SynclineError: one is not; the error says how to install it.
    """
    for module, package in (("numpy", "numpy"), ("scipy", "scipy"), ("sklearn", "scikit-learn")):
        if find_spec(module) is None:
            _missing(package, "group")


def needed(module: str, package: str, extra: str = "group") -> Any:
    """Imports a module of an optional package.

    :raises SynclineError: the package is not installed; the error says how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        _missing(package, extra)


def _missing(package: str, extra: str) -> NoReturn:
    raise_errors(error(Code.MISSING_PACKAGE, f"this needs {package}, which is not installed", help=install(extra)))

"""The optional packages that fits need."""

from __future__ import annotations

from importlib.util import find_spec

from syncline.codes import Code
from syncline.extras import install
from syncline.input.problem import error, raise_errors


def require() -> None:
    """Checks that the packages are installed, without importing them.

    :raises SynclineError: one is not; the error says how to install it.
    """
    for package in ("numpy", "scipy"):
        if find_spec(package) is None:
            message = f"this needs {package}, which is not installed"
            raise_errors(error(Code.MISSING_PACKAGE, message, help=install("kernels")))

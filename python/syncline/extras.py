"""Optional packages, and the command that installs them."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, requires


@cache
def install(extra: str) -> str:
    """The command that installs the packages of an extra in ``pyproject.toml``, such as ``pip install "torch>=2.14"``.

    It names the packages themselves, so that it works however ``syncline`` was installed, including from a checkout.
    If the packages of the extra are unknown, it names the extra itself as the package.
    """
    try:
        lines = requires("syncline") or []
    except PackageNotFoundError:
        lines = []
    asked = re.compile(rf"""extra\s*==\s*["']{re.escape(extra)}["']""")
    wanted = [line.partition(";")[0].strip() for line in lines if asked.search(line)]
    return " ".join(["pip install", *(f'"{each}"' for each in wanted or [extra])])

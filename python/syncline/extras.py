"""Optional packages, and the command that installs them."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, requires


@cache
def install(extra: str) -> str:
    """The command that installs what an extra of ``pyproject.toml`` needs, such as ``pip install "torch>=2.14"``.

    It names the packages themselves, so it works however ``syncline`` was installed, from a checkout too. Where nothing
    is known of the extra, its name stands for its package.
    """
    try:
        lines = requires("syncline") or []
    except PackageNotFoundError:
        lines = []
    asked = re.compile(rf"""extra\s*==\s*["']{re.escape(extra)}["']""")
    wanted = [line.partition(";")[0].strip() for line in lines if asked.search(line)]
    return " ".join(["pip install", *(f'"{each}"' for each in wanted or [extra])])

"""Lets a package offer names of its modules, and imports each when it is first used: the modules are slow to import."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Makes the ``__getattr__`` of a package. ``names`` maps names to where they are: ``package.module.name``."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, there = names[name].rpartition(".")
        return getattr(import_module(module), there)

    return get

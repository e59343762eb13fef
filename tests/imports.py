"""Finds what Python files import, by their syntax: at the top, in functions, and under ``TYPE_CHECKING``."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@cache
def imported(file: Path, module: str = "") -> frozenset[tuple[str, str]]:
    """Module and name of everything that a file imports; the name is empty after ``import module``.

    ``module`` is the file's own name, to which relative imports are relative.
    """
    return imported_by(file.read_text("utf-8"), module, package=file.name == "__init__.py")


def imported_by(text: str, module: str = "", *, package: bool = False) -> frozenset[tuple[str, str]]:
    """Module and name of everything that a text imports."""
    return frozenset(_imported(ast.parse(text), module, package))


def _imported(tree: ast.AST, module: str, package: bool) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + package]
                base = ".".join([*parts, *([base] if base else [])])
            yield from ((base, each.name) for each in node.names)

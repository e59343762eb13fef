"""The public names of the package, found by syntax alone, so that modules with absent dependencies are covered, too.

A public module is one that has a section in ``docs/reference/python.md``; its public names are those in ``__all__``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "reference" / "python.md"
PACKAGE = ROOT / "python"


def modules() -> list[str]:
    """The public modules, in the order of the page."""
    return re.findall(r"^## `([\w.]+)`$", PAGE.read_text("utf-8"), re.M)


@cache
def tree(module: str) -> ast.Module:
    """The syntax of a module."""
    return ast.parse(file(module).read_text("utf-8"))


def file(module: str) -> Path:
    """The file of a module or package."""
    path = PACKAGE / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def exists(module: str) -> bool:
    """Whether there is such a module or package."""
    return file(module).is_file()


@cache
def names(module: str) -> tuple[str, ...]:
    """The public names of a module: its ``__all__``."""
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return tuple(ast.literal_eval(node.value))
    raise AssertionError(f"{module} has no __all__")


def plain(text: str) -> str:
    """A docstring in Markdown: references are names, and code is in single quotes."""
    named = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", " ".join(text.split()))
    return named.replace("``", "`")


@dataclass(frozen=True)
class Definition:
    """Where and how a name is defined."""

    node: ast.AST
    text: str
    """Its docstring."""

    @property
    def sentence(self) -> str:
        """The first sentence of the docstring."""
        return re.split(r"(?<=[.:]) (?=[A-Z])", plain(self.text.split("\n\n")[0]))[0]


def definition(module: str, name: str) -> Definition:
    """Follows imports to the definition of a name."""
    if exists(f"{module}.{name}"):
        found = tree(f"{module}.{name}")
        return Definition(found, ast.get_docstring(found) or "")
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("syncline"):
            for each in node.names:
                if (each.asname or each.name) == name:
                    return definition(node.module, each.name)
    body = tree(module).body
    for at, node in enumerate(body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return Definition(node, ast.get_docstring(node) or "")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(getattr(each, "id", None) == name for each in targets):
            below = body[at + 1] if at + 1 < len(body) else None
            has_docstring = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            return Definition(node, str(below.value.value) if has_docstring else "")
    raise AssertionError(f"{module} does not define {name}")


def kind(found: Definition) -> str:
    """A word for what a name is."""
    match found.node:
        case ast.ClassDef():
            return "class"
        case ast.FunctionDef():
            return "function"
        case ast.Module():
            return "module"
    return "value"


def fields(found: Definition) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each field of a dataclass."""
    assert isinstance(found.node, ast.ClassDef)
    body, rows = found.node.body, []
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign):
            assert isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant), ast.unparse(node)
            default = "" if node.value is None else ast.unparse(node.value)
            factory = re.fullmatch(r"field\(default_factory=(\w+)\)", default)
            default = f"{factory[1]}()" if factory else default
            rows.append((node.target.id, default, plain(below.value.value)))
    return rows

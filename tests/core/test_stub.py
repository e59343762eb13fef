"""``_core.pyi`` has the same names and parameters as the binary."""

from __future__ import annotations

import ast
import inspect

from syncline import _core
from tests.conftest import ROOT

STUB = ast.parse((ROOT / "python/syncline/_core.pyi").read_text("utf-8"))


def described(node: ast.FunctionDef) -> list[tuple[str, str, bool]]:
    """For each parameter: name, kind, and whether it has a default."""
    arguments = node.args
    positional = arguments.args
    defaults = [False] * (len(positional) - len(arguments.defaults)) + [True] * len(arguments.defaults)
    found = [(each.arg, "POSITIONAL_OR_KEYWORD", given) for each, given in zip(positional, defaults, strict=True)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found + [(each.arg, "KEYWORD_ONLY", given is not None) for each, given in keywords]


def actual(function: object) -> list[tuple[str, str, bool]]:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    found = [(each.name, each.kind.name, each.default is not inspect.Parameter.empty) for each in parameters]
    # `self` is always positional; a stub need not mark it as such.
    return [("self", "POSITIONAL_OR_KEYWORD", False) if each[0] == "self" else each for each in found]


def functions(body: list[ast.stmt]) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def test_functions_have_the_signatures_of_the_stub() -> None:
    stub = functions(STUB.body)
    names = {name for name, value in vars(_core).items() if callable(value) and not isinstance(value, type)}
    assert set(stub) == {name for name in names if not name.startswith("__")}
    for name, node in stub.items():
        assert actual(getattr(_core, name)) == described(node), name


def test_classes_have_the_methods_of_the_stub() -> None:
    stub = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
    assert set(stub) == {name for name, value in vars(_core).items() if isinstance(value, type)}
    for name, node in stub.items():
        kind = getattr(_core, name)
        methods = functions(node.body)
        assert set(methods) == {each for each in vars(kind) if not each.startswith("__")}
        for method, described_by in methods.items():
            if not described_by.decorator_list:
                assert actual(getattr(kind, method)) == described(described_by), f"{name}.{method}"


def test_every_function_has_a_docstring() -> None:
    for name in functions(STUB.body):
        assert getattr(_core, name).__doc__, name

"""Every public name has a docstring."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

import syncline

# Modules that run when imported, and those that need PyTorch if it is not installed.
_SKIPPED = ("syncline.__main__", *(() if find_spec("torch") else ("syncline.models.traced", "syncline.torch")))
MODULES = [
    info.name for info in pkgutil.walk_packages(syncline.__path__, "syncline.") if not info.name.startswith(_SKIPPED)
]


def _names(module: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if not (inspect.isclass(value) or inspect.isfunction(value)) or value.__module__ != module.__name__:
            continue
        if not name.startswith("_"):
            yield name, value
        if inspect.isclass(value):
            for member, held in vars(value).items():
                described = isinstance(held, property | classmethod | staticmethod) or hasattr(held, "func")
                if not member.startswith("_") and (described or inspect.isfunction(held)):
                    yield f"{name}.{member}", held


@pytest.mark.parametrize("module", ["syncline", *MODULES])
def test_every_public_name_has_a_docstring(module: str) -> None:
    found = importlib.import_module(module)
    assert found.__doc__
    # `getdoc` also finds a docstring that is inherited from a base class.
    assert not [name for name, value in _names(found) if not (inspect.getdoc(value) or "").strip()]


def test_every_name_of_the_package_has_a_docstring() -> None:
    for name in syncline.__all__:
        assert name == "__version__" or getattr(syncline, name).__doc__


def test_every_name_of_the_core_has_a_docstring() -> None:
    from syncline import _core

    undescribed = [
        name
        for name, value in vars(_core).items()
        if not name.startswith("_") and callable(value) and not (value.__doc__ or "").strip()
    ]
    members = [
        f"Run.{name}" for name in dir(_core.Run) if not name.startswith("_") and not getattr(_core.Run, name).__doc__
    ]
    assert not undescribed + members

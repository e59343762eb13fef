"""Every name that a user can reach says what it is."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

import syncline

# What runs when it is imported, and what needs PyTorch where that is absent.
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
def test_every_public_name_is_described(module: str) -> None:
    found = importlib.import_module(module)
    assert found.__doc__
    # What a base class describes need not be described again: getdoc finds it.
    assert not [name for name, value in _names(found) if not (inspect.getdoc(value) or "").strip()]


def test_every_name_of_the_package_is_described() -> None:
    for name in syncline.__all__:
        assert name == "__version__" or getattr(syncline, name).__doc__


def test_the_core_is_described() -> None:
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

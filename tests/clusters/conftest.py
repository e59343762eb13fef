"""Printed texts, and their fabrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from syncline.clusters import Given, convert, recognise
from syncline.clusters.printed import Printed
from syncline.errors import SynclineError
from syncline.input.yaml import read

PRINTED = Path(__file__).parent / "printed"


@pytest.fixture
def fabric() -> Callable[..., dict[str, Any]]:
    """A function that converts a printed text, by its name or its lines; options as ``nic="400Gb/s"``."""
    return converted


@pytest.fixture
def regular() -> Callable[..., dict[str, Any]]:
    """The same, for modules that have a ``fabric`` of their own."""
    return converted


def converted(name: str, **options: str) -> dict[str, Any]:
    return read(convert(_printed(name), given(options)).text, name).to_python()


@pytest.fixture
def notes() -> Callable[..., list[str]]:
    """A function that returns what a conversion says."""
    return lambda name, **options: convert(_printed(name), given(options)).notes


@pytest.fixture
def wrong() -> Callable[..., list[Any]]:
    """A function that returns the errors of a conversion."""

    def call(name: str, **options: str) -> list[Any]:
        with pytest.raises(SynclineError) as caught:
            convert(_printed(name), given(options))
        return caught.value.diagnostics

    return call


def given(options: dict[str, str]) -> Given:
    return Given({f"--{name.replace('_', '-')}": value for name, value in options.items()})


def _printed(name: str) -> Printed:
    if "\n" in name:
        return Printed("printed.txt", name)
    found = recognise((PRINTED / name).as_posix())
    assert found is not None
    return found

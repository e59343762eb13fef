"""Architectures of published models by name: a copy of those in ``validation/models.yaml`` that are complete."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from pydantic import RootModel

from syncline.codes import Code
from syncline.input.check import Whole, check
from syncline.input.problem import error, exception, nearest
from syncline.input.source import from_file
from syncline.models.architecture import Architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "architectures.yaml"


class _File(RootModel[dict[str, Architecture]]):
    """A file of architectures."""


@cache
def architectures() -> Mapping[str, Architecture]:
    """All of them by their names, such as ``llama3-70b``."""
    return check(from_file(str(files("syncline") / "data" / FILE)), _File, Whole("the file of architectures")).root


def named(name: str) -> Architecture:
    """The architecture of a model by its name.

    :raises SynclineError: there is none of this name.
    """
    found = architectures()
    if name in found:
        return found[name]
    near = nearest(name, found, likeness=0.5)
    raise exception(
        error(
            Code.BAD_VALUE,
            "no model has this name",
            key="model",
            found=name,
            allowed="a name such as llama3-70b, mixtral-8x7b or deepseek-v3, or the path of a config.json",
            nearest=near,
            help=None if near else "give the path of its config.json, or its sizes",
        )
    )

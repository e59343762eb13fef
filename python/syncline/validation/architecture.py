"""Architectures of models: what ``models.yaml`` of a folder of measured runs describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from syncline.codes import Code
from syncline.input.base import Strict
from syncline.input.check import Whole, collect, in_order
from syncline.input.limits import MAX_MODEL_FILE_BYTES
from syncline.input.problem import error, raise_errors
from syncline.input.source import Source, read_file
from syncline.input.yaml import read
from syncline.models.architecture import LAYERS, Architecture, Length, Size, Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.errors import Diagnostic


class Unknown(Strict):
    """A model whose architecture is not published, or has parts that are not modelled."""

    family: Text
    hidden: Size | None = None
    layers: Annotated[int, Field(ge=1, le=LAYERS)] | None = None
    heads: Size | None = None
    kv_heads: Size | None = None
    head_dim: Size | None = None
    vocab: Length | None = None
    parameters: Annotated[float, Field(gt=0)] | None = None
    unknown: Annotated[list[Text], Field(min_length=1)]
    """What is missing."""
    source: Text
    note: Text | None = None


def read_models(path: str) -> Mapping[str, Architecture | Unknown]:
    """Reads the models of a file such as ``validation/models.yaml``.

    :raises SynclineError: the file cannot be read, is malformed, or describes an impossible architecture.
    """
    root = read(read_file(path, MAX_MODEL_FILE_BYTES), path)
    found: dict[str, Architecture | Unknown] = {}
    problems: list[Diagnostic] = []
    if not isinstance(root.value, dict):
        raise_errors(error(Code.BAD_SYNTAX, "the file is not a mapping of models", mark=root.mark))
    for name, node in root.value.items():
        whole = Whole(f"model `{name}`")
        made: Architecture | Unknown | None
        if isinstance(node.value, dict) and "unknown" in node.value:
            made, wrong = collect(Source(node, path), Unknown, whole)
        else:
            made, wrong = collect(Source(node, path), Architecture, whole)
        problems += wrong
        if made is not None:
            found[name] = made
    if problems:
        raise_errors(*in_order(problems))
    return found

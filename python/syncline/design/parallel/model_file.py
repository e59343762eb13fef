"""Reads the model of a search from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.limits import MAX_MODEL_FILE_BYTES
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.models.errors import ModelError
from syncline.models.hugging_face.architecture import architecture

if TYPE_CHECKING:
    from syncline.models.architecture import Architecture


def read_model(path: str) -> Architecture:
    """The architecture in a ``config.json``.

    :raises SynclineError: the file cannot be read, is no JSON, or describes a model that is not known.
    """
    place = Mark(Text(path, ()), 0, 0, 0)
    text = read_file(path, MAX_MODEL_FILE_BYTES)
    try:
        config = json.loads(text)
    except ValueError as problem:
        at = Mark(Text(path, text.splitlines()), getattr(problem, "lineno", 0), getattr(problem, "colno", 0), 1)
        raise_errors(error(Code.BAD_SYNTAX, "not valid JSON", mark=at, found=str(problem).partition(":")[0]))
    if not isinstance(config, dict):
        raise_errors(error(Code.BAD_SYNTAX, "the file is not a mapping", mark=place))
    file = Path(path)
    # A file of this name is in a folder that is named after the model.
    name = file.resolve().parent.name if file.stem == "config" else file.stem
    try:
        return architecture(config, str(config.get("_name_or_path") or name))
    except ModelError as problem:
        found = None if problem.found is None else str(problem.found)
        raise_errors(
            error(
                Code.BAD_VALUE,
                problem.problem or ("missing key" if problem.found is None else "wrong value"),
                mark=place,
                key=problem.key,
                nearest=problem.nearest,
                found=found,
                allowed=problem.allowed,
            )
        )

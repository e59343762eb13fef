"""Reads files that describe a model: ``config.json`` of Hugging Face."""

from __future__ import annotations

import json
import re
from collections import Counter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from syncline.codes import Code
from syncline.input import limits
from syncline.input.arguments import Arguments
from syncline.input.node import Mark, Text
from syncline.input.problem import error, nearest, raise_errors, shown
from syncline.input.source import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from syncline.errors import Diagnostic
    from syncline.models.architecture import Architecture
    from syncline.models.info import ModelInfo

T = TypeVar("T")
_OTHER_KINDS = "a scenario can have layers of any kind, with their times or operations, as `workload.layers`"
"""What to do about a kind of model that is refused."""


def names_file(model: str) -> bool:
    """Whether ``model`` is the path of a file and not a name."""
    return model.endswith(".json") or "/" in model or "\\" in model


def read(path: str) -> tuple[str, ModelInfo]:
    """The name and the model that a file describes. Raises :class:`SynclineError` with the place of the error."""
    from syncline.models.hugging_face import model

    def named(config: Mapping[str, Any]) -> tuple[str, ModelInfo]:
        called = name(path, config)
        return called, model(config, called)

    return described(path, named)


def find_architecture(model: str | PathLike[str]) -> Architecture:
    """The architecture of a published model by its name, such as ``llama3-70b``, or that in a ``config.json``.

    Its ``source`` is that name, or the name of the model that the file describes.

    :raises SynclineError: there is no such model or file, or the file describes a model that is not known.
    """
    from syncline.models.architectures import named

    if isinstance(model, str) and not names_file(model) and not Path(model).exists():
        return named(model).model_copy(update={"source": model})
    return read_architecture(model)


def read_architecture(path: str | PathLike[str]) -> Architecture:
    """The architecture in a ``config.json``, or in that of a folder.

    :raises SynclineError: the file cannot be read, is no JSON, or describes a model that is not known.
    """
    with Arguments() as check:
        check.instance("path", path, (str, PathLike), "the path of a config.json")
    from syncline.models.hugging_face.architecture import architecture

    file = Path(path)
    if file.is_dir() and (file / "config.json").is_file():
        file = file / "config.json"
    # A file of this name is in a folder that is named after the model.
    called = file.resolve().parent.name if file.stem == "config" else file.stem

    def made(config: Mapping[str, Any]) -> Architecture:
        said = config.get("_name_or_path")
        return architecture(config, said if isinstance(said, str) and said else called)

    return described(str(file), made)


def described(path: str, made: Callable[[Mapping[str, Any]], T]) -> T:
    """What ``made`` makes of the values of a file.

    Raises :class:`SynclineError` with the place of the error if the file is no mapping in JSON, or if ``made`` raises a
    :class:`~syncline.models.ModelError`.
    """
    from syncline.models import ModelError, ModelErrorKind

    text = read_file(path, limits.MAX_MODEL_FILE_BYTES)
    file = Text(path, text.splitlines())
    whole = Mark(file, 0, 0, 0)
    help = "give the path of a model's `config.json`"
    if not text.strip():
        raise_errors(error(Code.BAD_SYNTAX, "the file is empty", mark=whole, help=help))
    repeated: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated.extend(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return found

    try:
        config = json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as problem:
        mark = Mark(file, problem.lineno, problem.colno, 1)
        raise_errors(
            error(
                Code.BAD_SYNTAX,
                f"not well-formed JSON: {problem.msg[:1].lower()}{problem.msg[1:]}",
                mark=mark,
                help="the file ends early: copy it again" if problem.pos >= len(text.rstrip()) else help,
            )
        )
    except (ValueError, RecursionError):  # integers of thousands of digits, or brackets nested thousands deep
        raise_errors(
            error(
                Code.BAD_SYNTAX,
                "not well-formed JSON: a number is too long, or values are nested too deeply",
                mark=whole,
            )
        )
    if not isinstance(config, dict):
        raise_errors(error(Code.BAD_SYNTAX, "not a model's configuration", mark=whole, found=shown(config), help=help))
    if repeated:
        raise_errors(*(_repeated(file, key) for key in dict.fromkeys(repeated)))
    try:
        return made(config)
    except ModelError as problem:
        missing = problem.kind is ModelErrorKind.MISSING_KEY
        refused = problem.key == "model_type" and bool(problem.problem)
        why = problem.problem or f"`{problem.key}` of this model is not supported"
        raise_errors(
            error(
                Code.MISSING_KEY if missing else Code.BAD_VALUE,
                f"missing key `{problem.key}`" if missing else why,
                mark=_mark(file, problem.key) or whole,
                key=problem.key,
                found=None if missing else shown(problem.found),
                allowed=problem.allowed,
                nearest=problem.nearest,
                help=_misspelt(config, problem.key) if missing else _OTHER_KINDS if refused else None,
            )
        )


def _repeated(file: Text, key: str) -> Diagnostic:
    """The error about a key that an object has twice."""
    said = re.compile(rf'"{re.escape(key)}"\s*:')
    lines = [number for number, line in enumerate(file.lines, start=1) if said.search(line)]
    where = f", on lines {lines[0]} and {lines[1]}" if len(lines) == 2 else ""
    return error(
        Code.BAD_VALUE,
        f"the key `{key}` is given twice{where}",
        mark=_mark(file, key) or Mark(file, 0, 0, 0),
        key=key,
        help="leave out one of them",
    )


def _misspelt(config: Mapping[str, Any], key: str) -> str | None:
    """What to do about a missing key if the file has one that was most likely meant to be it."""
    inside = config.get("text_config")
    near = nearest(key, [*config, *(inside if isinstance(inside, dict) else ())], likeness=0.8)
    return near and f"if `{near}` is meant to be it, rename that"


def name(path: str, config: Mapping[str, Any]) -> str:
    """The name of a model: that of its file; for a ``config.json``, its ``_name_or_path``, or else its type."""
    stem = Path(path).stem
    said = config.get("_name_or_path")
    if stem != "config":
        return stem
    return (said.rstrip("/").rpartition("/")[2] if isinstance(said, str) else "") or str(config.get("model_type", stem))


def _mark(file: Text, key: str) -> Mark | None:
    """The first line that gives ``key`` a value."""
    pattern = re.compile(rf'"{re.escape(key)}"\s*:\s*([^,}}]*)')
    for number, line in enumerate(file.lines, start=1):
        if found := pattern.search(line):
            return Mark(file, number, found.start(1) + 1, len(found[1].rstrip()))
    return None

"""Converts the TOML files of torchtitan into job files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.jobs.converted import Converted, convert
from syncline.jobs.given import Given
from syncline.jobs.keys import known, read_keys
from syncline.jobs.python_code import refuse_code
from syncline.jobs.settings import Setting, Settings
from syncline.jobs.torchtitan.mapping import map_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FILE = "torchtitan-keys.yaml"


def convert_torchtitan(
    path: str,
    *,
    gpus: int | None = None,
    accelerator: str | None = None,
    model: str | None = None,
    ignored: Sequence[str] = (),
) -> Converted:
    """The job file of a TOML file.

    :param gpus: the number of accelerators, unless the file gives all degrees.
    :param accelerator: their name; without it, H100.
    :param model: a model's name or the path of its ``config.json``, if torchtitan's is not known.
    :param ignored: keys to leave out, though they are unknown or refused.
    :raises SynclineError: with all keys that cannot be used, each with its place.
    """
    refuse_code(path, "torchtitan", "convert a TOML file of torchtitan 0.1 or 0.2, or write a job file")
    found = known(read_settings(path), read_keys(FILE), ignored, "torchtitan")
    settings = Settings(found.found, "torchtitan")
    map_settings(settings, Given.of(accelerator, gpus, model=model))
    return convert(Path(path).stem, Path(path).name, settings, found.left_out(settings), found.problems)


def read_settings(path: str) -> dict[str, Setting]:
    """The settings of a TOML file by their dotted names, with their places."""
    text = read_file(path)
    held = Text(path, text.split("\n"))
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(problem))
        mark = Mark(held, int(found[1]), int(found[2]), 1) if found else Mark(held, 0, 0, 0)
        said = str(problem).partition(" (at ")[0]
        raise_errors(error(Code.BAD_SYNTAX, f"not well-formed TOML: {said[:1].lower()}{said[1:]}", mark=mark))
    places = dict(_places(held))
    if not values:
        raise_errors(error(Code.BAD_SYNTAX, "the file is empty", mark=Mark(held, 0, 0, 0)))
    return {
        name: Setting(value, f"{name} = {_said(value)}", places.get(name, Mark(held, 0, 0, 0)))
        for name, value in _flat(values, "")
    }


def _flat(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_said(each) for each in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


_HEADER = re.compile(r"^\s*\[([\w.\- ]+)\]")
_KEY = re.compile(r"^\s*([\w.\-]+)\s*=")


def _places(text: Text) -> Iterator[tuple[str, Mark]]:
    """The lines of keys. TOML's library has no places, and keys of these files are one to a line."""
    section = ""
    for number, line in enumerate(text.lines, start=1):
        if (header := _HEADER.match(line)) is not None:
            section = header[1].replace(" ", "") + "."
        elif (key := _KEY.match(line)) is not None:
            yield f"{section}{key[1]}", Mark(text, number, key.start(1) + 1, len(key[1]))

"""Arguments of Megatron-LM in YAML: below ``MODEL_ARGS``, as its functional tests and collections of models have them.

A value ``true`` makes a switch, and ``false`` leaves an argument out; a list makes several values. ``${NAME}`` stands
for a variable of the environment. Launchers give values to a shell, so quotes around a value within those of YAML do
not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.input.yaml import read
from syncline.jobs.launch.words import Word
from syncline.jobs.megatron.arguments import arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.input.node import Node

SECTION = "MODEL_ARGS"
_QUOTED = re.compile(r"""\s*(?P<quote>['"])(?P<inside>[^'"]*)(?P=quote)\s*""")
_VARIABLE = re.compile(r"\$(?:\{(?P<inside>\w+)\}|(?P<bare>\w+))")


@dataclass(frozen=True, slots=True)
class YamlArguments:
    """The arguments of a file."""

    words: Sequence[Word]
    off: Sequence[str]
    """How the arguments are written that are left out by ``false``."""


def of_yaml(path: str, environment: Mapping[str, str]) -> YamlArguments:
    """The arguments of the file of this path.

    :raises SynclineError: it cannot be read, or has no arguments.
    """
    root = read(read_file(path), path)
    section = root.child(SECTION)
    if section is None or not isinstance(section.value, dict):
        raise_errors(
            error(
                Code.MISSING_KEY,
                f"the file has no mapping `{SECTION}`",
                mark=root.mark or Mark(Text(path, ()), 0, 0, 0),
                key=SECTION,
                help="give the script that starts the training; for files of NeMo and Megatron-Bridge, "
                "use syncline convert nemo or convert bridge",
            )
        )
    words: list[Word] = []
    off: list[str] = []
    for name, node in section.value.items():
        mark = section.keys.get(name) or node.mark or Mark(Text(path, ()), 0, 0, 0)
        values = _values(name, node, mark, environment)
        if any(not each.unknown and each.text in ("false", "") for each in values):
            off.append(f"{name}: {values[0].text}")
            continue
        words.append(Word(name, mark))
        words += [each for each in values if each.unknown or each.text != "true"]
    return YamlArguments(words, off)


def _values(name: str, node: Node, mark: Mark, environment: Mapping[str, str]) -> list[Word]:
    nodes = node.value if isinstance(node.value, list) else [node]
    made = [_filled(each.to_python(), each.mark or mark, environment) for each in nodes]
    if len(made) == 1 and arguments().values.get(name.removeprefix("--"), 1) is None:
        return [Word(text, made[0].mark, made[0].unknown) for text in made[0].text.split()] or made
    return made


def _filled(value: object, mark: Mark, environment: Mapping[str, str]) -> Word:
    """A value with what its variables stand for."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if (quoted := _QUOTED.fullmatch(text)) is not None:
        text = quoted["inside"]
    unset: list[str] = []

    def fill(found: re.Match[str]) -> str:
        variable = found["inside"] or found["bare"]
        if variable not in environment:
            unset.append(variable)
        return environment.get(variable, found[0])

    text = _VARIABLE.sub(fill, text)
    return Word(text, mark, f"the file does not set `{unset[0]}`" if unset else None)

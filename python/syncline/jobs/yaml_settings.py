"""Settings of YAML files by their dotted names, with their places, and references between them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.input.problem import error, raise_errors, shown
from syncline.input.source import read_file
from syncline.input.yaml import read
from syncline.jobs.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.input.node import Mark, Node

_INNER = re.compile(r"\$\{\s*(?:(?P<path>[\w.]+)|multiply:(?P<factors>[^${}]*))\s*\}")
"""A reference, or a product, with no other one inside."""
_DEEPEST = 20
"""Most references that lead to a value."""


def read_settings(path: str) -> dict[str, Setting]:
    """The settings of a YAML file; a value that refers to another one (``${model.hidden_size}``) has that one's.

    :raises SynclineError: the file cannot be read or is malformed.
    """
    root = read(read_file(path), path)
    if not isinstance(root.value, dict):
        raise_errors(error(Code.BAD_SYNTAX, "the file is not a mapping", mark=root.mark))
    nodes = dict(_flat(root, "", root.mark))
    return {name: _setting(name, node, mark, nodes) for name, (node, mark) in nodes.items()}


def _flat(node: Node, before: str, mark: Mark | None) -> Iterator[tuple[str, tuple[Node, Mark | None]]]:
    if not isinstance(node.value, dict) or (before and not node.value):
        yield before.rstrip("."), (node, mark)
        return
    for key, each in node.value.items():
        yield from _flat(each, f"{before}{key}.", node.keys.get(key, each.mark))


def _setting(name: str, node: Node, mark: Mark | None, nodes: dict[str, tuple[Node, Mark | None]]) -> Setting:
    value = node.to_python()
    said = f"{name}: {value if isinstance(value, list) else shown(value)}"
    made = _filled(value, name, nodes, 0)
    unknown = isinstance(made, str) and "${" in made
    return Setting(made, said, mark, f"`{value}` is filled in when the job starts" if unknown else None)


def _filled(value: Any, name: str, nodes: dict[str, tuple[Node, Mark | None]], depth: int) -> Any:
    """The value with what it refers to; references that lead nowhere stay."""
    while isinstance(value, str) and depth < _DEEPEST and (found := _INNER.search(value)) is not None:
        depth += 1
        path, factors = found["path"], found["factors"]
        if path is not None:
            above = name.rpartition(".")[0]
            whole = f"{above}{path}" if path.startswith(".") else path.removeprefix("training.").removeprefix("peft.")
            if whole == name or whole not in nodes:
                return value
            made = _filled(nodes[whole][0].to_python(), whole, nodes, depth)
        else:
            try:
                made = math.prod(int(each) for each in factors.split(","))
            except ValueError:
                return value
        if found[0] == value.strip():
            value = made
        elif made is None or isinstance(made, (list, dict)):
            return value
        else:
            value = value.replace(found[0], str(made), 1)
    return value

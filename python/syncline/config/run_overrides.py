"""Applies changes to the scenario in a run's folder, and reports those that the core cannot read.

Such a scenario is in the core's form, with every key written out: `fabric.dims` in place of `fabric.shape`.
"""

from __future__ import annotations

import json
import re
import shlex
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.config.network import NAMES
from syncline.config.scenario import Scenario
from syncline.errors import Diagnostic, SynclineError
from syncline.input.check import knows
from syncline.input.node import Key, Node, Path, dotted, undotted
from syncline.input.problem import error, nearest, raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from syncline.input.source import Override, Source

MAX_PATHS = 8
"""Maximum number of changes that a help text suggests."""


def changed(source: Source, changes: Iterable[Override], resolved: Callable[[Source], dict[str, Any]]) -> None:
    """Applies ``changes`` to the scenario of a run's folder. ``resolved`` turns a scenario into the core's form.

    Raises :class:`SynclineError` for the first change that does not fit.
    """
    for change in changes:
        before = deepcopy(source.root)
        source.override([change])
        if (said := _refused(source, resolved)) is not None:
            broken, source.root = source.root, before
            if _refused(source, resolved) is not None:
                # The file was wrong already, without the change.
                source.override([change])
                return
            raise_errors(_problem(source, change, said, broken, resolved))


def _refused(source: Source, resolved: Callable[[Source], dict[str, Any]]) -> str | None:
    """The core's message if it cannot read the scenario, else None."""
    try:
        _core.readable(json.dumps(resolved(source)))
    except SynclineError as problem:
        said = problem.diagnostics[0]["message"].removeprefix("not a resolved scenario: ")
        for pattern, words in _WORDS:
            said = pattern.sub(words, said)
        return said
    return None


_WORDS = (
    (re.compile(r"expected (internally tagged enum|struct|a map|map)\b( \w+)?"), "expected a mapping"),
    (re.compile(r"expected [ui](8|16|32|64)\b"), "expected a whole number"),
    (re.compile(r"expected f64\b"), "expected a number"),
    (re.compile(r"expected a string\b"), "expected text"),
    (re.compile(r"expected a sequence\b"), "expected a list"),
)
"""Type names of the core's parser, and words for them that users know."""


def _problem(
    source: Source, change: Override, said: str, broken: Node, resolved: Callable[[Source], dict[str, Any]]
) -> Diagnostic:
    """The diagnostic for a change that does not fit; its help suggests a change that works, if there is one."""
    path = _found(source.root, undotted(change.path))
    # The first key of the path that does not exist.
    depth = next((at for at in range(len(path)) if source.root.at(path[: at + 1]) is None), len(path) - 1)
    key, holder, here = str(path[depth]), source.root.at(path[:depth]), source.root.at(path)
    value = broken.at(path)
    found = None if value is None else shown(value.to_python())
    if here is None and holder is not None and isinstance(holder.value, dict):
        instead = _instead(source, change, key, resolved)
        return error(
            Code.UNKNOWN_KEY,
            f"unknown key `{key}` in the scenario of a run, which has all keys written out",
            mark=change.mark,
            key=change.path,
            found=key,
            allowed=", ".join(holder.value),
            nearest=None if instead else nearest(key, holder.value),
            help=instead or _in_the_file(change),
        )
    return error(
        Code.BAD_VALUE,
        f"the scenario of a run cannot have this value: {said}",
        mark=change.mark,
        key=change.path,
        found=found,
        allowed=", ".join(NAMES) if path == ("network",) else None,
        nearest=nearest(found, NAMES) if path == ("network",) and found else None,
        help=_right(change, here),
    )


def _in_the_file(change: Override) -> str | None:
    """The help for a key that scenario files have and the scenario of a run lacks; ``None`` for unknown keys."""
    if not knows(Scenario, undotted(change.path)):
        return None
    return f"change the file that the run was made from: syncline simulate FILE {_option(change, change.path)}"


def _found(root: Node, path: Path) -> Path:
    """``path`` with positions in place of the names of list entries."""
    node: Node | None = root
    found: list[Key] = []
    for key in path:
        at = key
        if node is not None and isinstance(node.value, list) and isinstance(key, str):
            names = [None if (name := item.child("name")) is None else name.value for item in node.value]
            at = names.index(key) if key in names else key
        found.append(at)
        node = None if node is None else node.child(at)
    return tuple(found)


def _right(change: Override, here: Node | None) -> str | None:
    """The help for a value of the wrong form: shows the form that the run's scenario has."""
    if here is None or isinstance(here.value, list):
        return None
    if isinstance(here.value, dict):
        return f"change a key in it: {', '.join(f'`{change.path}.{key}`' for key in here.value)}"
    return f"write it as the run has it: {_option(change, change.path, here)}"


def _option(change: Override, path: str, value: Node | None = None) -> str:
    text = change.value.strip() if change.node is None else shown(change.node.to_python())
    text = text if value is None else shown(value.to_python())
    return f"{change.flag} {shlex.quote(f'{path}={text}')}" if change.flag else f"`{path}: {text}`"


def _instead(source: Source, change: Override, key: str, resolved: Callable[[Source], dict[str, Any]]) -> str | None:
    """A help text with changes of the same key deeper inside, if the core can read them; else ``None``."""
    section = undotted(change.path)[0]
    root = source.root.at((section,))
    paths = [] if root is None else [dotted((section, *path)) for path in _paths(root, key)][:MAX_PATHS]
    if not paths:
        return None
    before = deepcopy(source.root)
    try:
        source.override([replace(change, path=path) for path in paths])
        if _refused(source, resolved) is not None:
            return None
    finally:
        source.root = before
    return f"change the key where it exists: {' '.join(_option(change, path) for path in paths)}"


def _paths(node: Node, key: str) -> Iterable[Path]:
    """Paths of all keys of this name; list entries are given by their names, if they have one."""
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            if name == key:
                yield (name,)
            else:
                yield from ((name, *path) for path in _paths(child, key))
    elif isinstance(node.value, list):
        for at, child in enumerate(node.value):
            named = child.child("name")
            given = None if named is None else named.value
            own = given if isinstance(given, str) and "." not in given else at
            yield from ((own, *path) for path in _paths(child, key))

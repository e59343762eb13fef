"""A scenario before it is checked: its values, where they stand, and the overrides of the command line."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from syncline.config import limits, yaml
from syncline.config.node import Mark, Node, Path, Text, dotted, from_python, undotted
from syncline.config.problem import error, refuse, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.errors import Diagnostic


@dataclass(frozen=True, slots=True)
class Override:
    """A value of the command line that takes the place of one in the file."""

    path: str
    """Such as ``fabric.dims.2.rate``; an entry of a list may also be given by its name: ``fabric.dims.local.rate``."""
    value: str
    """YAML."""
    flag: str = "--set"
    """The option that it came from; empty where it was made in Python."""
    node: Node | None = None
    """The value, where it is no YAML text."""

    @classmethod
    def parse(cls, text: str) -> Override:
        """Reads ``a.b.c=value``."""
        path, equals, value = text.partition("=")
        if not equals or not path.strip(".") or "" in path.split("."):
            mark = Mark(Text("--set", [text]), 1, 1, 0)
            refuse(error("SL0102", "not an override", mark=mark, help="write it like fabric.dims.2.rate=50GB/s"))
        return cls(path, value)

    @classmethod
    def of(cls, path: str, value: object) -> Override:
        """A value that was made in Python."""
        return cls(path, "", "", from_python(value))

    @property
    def mark(self) -> Mark | None:
        """Where the path stands in the option."""
        return Mark(self.text, 1, 1, len(self.path) if self.flag == "--set" else 0) if self.flag else None

    @property
    def text(self) -> Text:
        """The option as written."""
        return Text(self.flag, [f"{self.path}={self.value}" if self.flag == "--set" else self.value])

    @property
    def value_column(self) -> int:
        """Where the value starts."""
        return len(self.path) + 2 if self.flag == "--set" else 1


@dataclass(slots=True)
class Source:
    """A file's values with their places."""

    root: Node
    file: str = ""
    """As the user named it; empty where the values were made in Python."""

    @property
    def folder(self) -> FilePath:
        """What relative paths in the file are relative to."""
        return FilePath(self.file).parent

    def relative(self, path: str) -> str:
        """A path of the file, as seen from the current directory."""
        return (self.folder / path).as_posix() if self.file else path

    def mark(self, path: Path, *, key: bool = False) -> Mark | None:
        """Where ``path`` stands."""
        return self.root.mark_of(path, key=key)

    def override(self, changes: Iterable[Override]) -> None:
        """Puts the values of the command line into place."""
        problems = []
        for change in changes:
            wrong = _put(self.root, change)
            if wrong:
                problems.append(wrong)
        if problems:
            refuse(*problems)


def _put(root: Node, change: Override) -> Diagnostic | None:
    """Puts one value into place; says what is wrong where that cannot be."""
    value = _value(change)
    path = undotted(change.path)
    node = root
    for depth, key in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(node.value, list):
            index = _index(node, str(key))
            if index is None:
                message = f"`{dotted(path[:depth])}` has {len(node.value)} entries, and none is `{key}`"
                return error("SL0102", message, mark=change.mark, key=change.path)
            if last:
                node.value[index] = value
            else:
                node = node.value[index]
            continue
        if node.value is None:
            node.value = {}
        if not isinstance(node.value, dict):
            return _no_inside(change, path, depth, node)
        if last:
            node.value[str(key)] = value
        else:
            node = node.value.setdefault(str(key), Node({}, value.mark))
            continue
        if change.mark:
            node.keys[str(key)] = change.mark
    return None


def _no_inside(change: Override, path: Path, depth: int, node: Node) -> Diagnostic:
    """The path leads into a value that holds nothing."""
    whole = dotted(path[:depth])
    inner = change.value.strip() if change.node is None else shown(change.node.plain())
    for key in reversed(path[depth:]):
        inner = f"{{{key}: {inner}}}"
    return error(
        "SL0102",
        f"`{whole}` is neither a mapping nor a list",
        mark=change.mark,
        key=change.path,
        found=shown(node.plain()),
        help=f"replace it as a whole: {f'{change.flag} ' if change.flag else ''}'{whole}={inner}'",
    )


def _index(node: Node, key: str) -> int | None:
    """The entry that ``key`` means: a position, or the name of an entry."""
    items = node.value if isinstance(node.value, list) else []
    if key.isdigit():
        return int(key) if len(key) < 10 and int(key) < len(items) else None
    names = [name.value if (name := item.child("name")) else None for item in items]
    return names.index(key) if key in names else None


def _value(change: Override) -> Node:
    if change.node is not None:
        return change.node
    mark = Mark(change.text, 1, change.value_column, 0)
    if not change.value.strip():
        return Node(None, mark)
    node = yaml.read(change.value, change.flag)
    _move(node, change.text, change.value_column - 1)
    return node


def _move(node: Node, text: Text, by: int) -> None:
    """Shifts the places of a value to where it stands in the option."""

    def moved(mark: Mark) -> Mark:
        return Mark(text, mark.line, mark.column + by, mark.width) if mark.line == 1 else mark

    node.mark = node.mark and moved(node.mark)
    node.keys = {key: moved(mark) for key, mark in node.keys.items()}
    children = node.value.values() if isinstance(node.value, dict) else node.value
    for child in children if not isinstance(children, (str, int, float, bool, type(None))) else ():
        _move(child, text, by)


STANDARD_INPUT = "-"
"""The path that stands for standard input."""


def read_file(path: str, limit: int = limits.MAX_BYTES) -> str:
    """The text of a file. Raises :class:`SynclineError` where it cannot be read or is too large."""
    place = Mark(Text(path, ()), 0, 0, 0)
    try:
        with FilePath(path).open("rb") as file:
            # A pipe says that it is empty, so what is read counts as well.
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > limit else file.read(limit + 1)
    except FileNotFoundError:
        refuse(error("SL0105", "no such file", mark=place, help=_similar(path)))
    except IsADirectoryError:
        refuse(error("SL0105", "this is a folder, not a file", mark=place))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        refuse(error("SL0105", f"cannot be read: {reason.lower()}", mark=place))
    return _text(content, max(size, len(content)), limit, place)


def _read_standard_input() -> tuple[str, str]:
    """The text of standard input, and what messages call it. Raises :class:`SynclineError` like :func:`read_file`."""
    name = "standard input"
    place = Mark(Text(name, ()), 0, 0, 0)
    try:
        content = sys.stdin.buffer.read(limits.MAX_BYTES + 1)
    except (AttributeError, OSError, ValueError):
        # Python has no stdin, or one without bytes, where the process was started without it.
        refuse(error("SL0105", "standard input cannot be read", mark=place, help="name a file"))
    return _text(content, len(content), limits.MAX_BYTES, place), name


def _text(content: bytes, size: int, limit: int, place: Mark) -> str:
    """The characters of what was read: ``size`` bytes, of which ``limit`` are allowed."""
    if size > limit:
        refuse(error("SL0106", f"larger than {limit >> 20} MiB", mark=place))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        refuse(error("SL0106", f"not UTF-8 text: byte {problem.start} is not part of any character", mark=place))


def _similar(path: str) -> str | None:
    """The file that was probably meant."""
    from syncline.config.problem import nearest

    wanted = FilePath(path)
    try:
        names = sorted(each.name for each in wanted.parent.iterdir())[:10_000]
    except OSError:
        return f"there is no folder {wanted.parent.as_posix()}"
    near = nearest(wanted.name, names)
    return f"did you mean {(wanted.parent / near).as_posix()}?" if near else None


def from_file(path: str) -> Source:
    """The values of a YAML or JSON file."""
    return Source(yaml.read(read_file(path), path), path)


def from_argument(path: str) -> Source:
    """The values of the file that a command was given; of standard input where that is ``-``.

    What standard input names is relative to the current directory.
    """
    return Source(yaml.read(*_read_standard_input())) if path == STANDARD_INPUT else from_file(path)

"""A scenario before it is checked: its values, their places, and the overrides of the command line."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input import limits, yaml
from syncline.input.node import Mark, Node, Path, Text, dotted, from_python, undotted
from syncline.input.problem import error, raise_errors, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syncline.errors import Diagnostic


@dataclass(frozen=True, slots=True)
class Override:
    """A value from the command line, or from Python, that replaces one in the file."""

    path: str
    """Path of the key, such as ``fabric.dims.2.rate``. An entry of a list may also be given by its name:
    ``fabric.dims.local.rate``."""
    value: str
    """The value, as YAML text."""
    flag: str = "--set"
    """The option that it came from; empty if it was made in Python."""
    node: Node | None = None
    """The value, if it was made in Python."""

    @classmethod
    def parse(cls, text: str) -> Override:
        """Reads ``a.b.c=value``."""
        path, equals, value = text.partition("=")
        if not equals or not path.strip(".") or "" in path.split("."):
            mark = Mark(Text("--set", [text]), 1, 1, 0)
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "not of the form KEY=VALUE",
                    mark=mark,
                    help="write it like fabric.dims.2.rate=50GB/s",
                )
            )
        return cls(path, value)

    @classmethod
    def of(cls, path: str, value: object) -> Override:
        """An override from Python."""
        return cls(path, "", "", from_python(value))

    @property
    def mark(self) -> Mark | None:
        """Place of the path in the option."""
        return Mark(self.text, 1, 1, len(self.path) if self.flag == "--set" else 0) if self.flag else None

    @property
    def text(self) -> Text:
        """The option as written."""
        return Text(self.flag, [f"{self.path}={self.value}" if self.flag == "--set" else self.value])

    @property
    def value_column(self) -> int:
        """Column at which the value starts in the option."""
        return len(self.path) + 2 if self.flag == "--set" else 1


@dataclass(slots=True)
class Source:
    """A file's values with their places."""

    root: Node
    file: str = ""
    """Path as the user gave it; empty if the values were made in Python."""

    @property
    def folder(self) -> FilePath:
        """The folder that relative paths in the file are relative to."""
        return FilePath(self.file).parent

    def relative(self, path: str) -> str:
        """A path in the file, made relative to the current directory."""
        return (self.folder / path).as_posix() if self.file else path

    def mark(self, path: Path, *, key: bool = False) -> Mark | None:
        """Place of the value at ``path``, or with ``key`` of its key."""
        return self.root.mark_of(path, key=key)

    def override(self, changes: Iterable[Override]) -> None:
        """Applies overrides. Raises :class:`SynclineError` with all that cannot be applied."""
        problems = []
        for change in changes:
            wrong = _put(self.root, change)
            if wrong:
                problems.append(wrong)
        if problems:
            raise_errors(*problems)


def _put(root: Node, change: Override) -> Diagnostic | None:
    """Applies one override; returns an error if it cannot be applied."""
    value = _value(change)
    path = undotted(change.path)
    node = root
    for depth, key in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(node.value, list):
            index = _index(node, str(key))
            if index is None:
                message = f"`{dotted(path[:depth])}` has {len(node.value)} entries, and none is `{key}`"
                return error(Code.BAD_VALUE, message, mark=change.mark, key=change.path)
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
    """The error for a path that leads into a value that is neither a mapping nor a list."""
    whole = dotted(path[:depth])
    inner = change.value.strip() if change.node is None else shown(change.node.to_python())
    for key in reversed(path[depth:]):
        inner = f"{{{key}: {inner}}}"
    return error(
        Code.BAD_VALUE,
        f"`{whole}` is neither a mapping nor a list",
        mark=change.mark,
        key=change.path,
        found=shown(node.to_python()),
        help=f"replace the whole value: {f'{change.flag} ' if change.flag else ''}'{whole}={inner}'",
    )


def _index(node: Node, key: str) -> int | None:
    """Index of the entry that ``key`` means: a position, or the name of an entry; None if there is no such entry."""
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
    """Shifts the places in a value by the column at which the value starts in the option."""

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
    """The text of a file. Raises :class:`SynclineError` if it cannot be read or is too large."""
    place = Mark(Text(path, ()), 0, 0, 0)
    try:
        with FilePath(path).open("rb") as file:
            # A pipe reports a size of 0, so check the number of bytes read as well.
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > limit else file.read(limit + 1)
    except FileNotFoundError:
        raise_errors(error(Code.UNREADABLE, "no such file", mark=place, help=_similar(path)))
    except IsADirectoryError:
        raise_errors(error(Code.UNREADABLE, "this is a folder, not a file", mark=place))
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise_errors(error(Code.UNREADABLE, f"cannot be read: {reason.lower()}", mark=place))
    return _text(content, max(size, len(content)), limit, place)


def _read_standard_input() -> tuple[str, str]:
    """The text of standard input, and its name in messages. Raises :class:`SynclineError` like :func:`read_file`."""
    name = "standard input"
    place = Mark(Text(name, ()), 0, 0, 0)
    try:
        content = sys.stdin.buffer.read(limits.MAX_BYTES + 1)
    except (AttributeError, OSError, ValueError):
        # If the process was started without stdin, Python has no stdin, or one without a buffer.
        raise_errors(error(Code.UNREADABLE, "standard input cannot be read", mark=place, help="name a file"))
    return _text(content, len(content), limits.MAX_BYTES, place), name


def _text(content: bytes, size: int, limit: int, place: Mark) -> str:
    """Decodes what was read. Raises :class:`SynclineError` if ``size`` is above ``limit``, or for bad UTF-8."""
    if size > limit:
        raise_errors(error(Code.BAD_SYNTAX, f"larger than {limit >> 20} MiB", mark=place))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise_errors(
            error(Code.BAD_SYNTAX, f"not UTF-8 text: byte {problem.start} is not part of any character", mark=place)
        )


def _similar(path: str) -> str | None:
    """A help text that names the file that was probably meant, or the folder that does not exist."""
    from syncline.input.problem import nearest

    wanted = FilePath(path)
    try:
        names = sorted(each.name for each in wanted.parent.iterdir())[:10_000]
    except OSError:
        return f"the folder {wanted.parent.as_posix()} does not exist"
    near = nearest(wanted.name, names)
    return f"did you mean {(wanted.parent / near).as_posix()}?" if near else None


def from_file(path: str) -> Source:
    """The values of a YAML or JSON file."""
    return Source(yaml.read(read_file(path), path), path)


def from_argument(path: str) -> Source:
    """The values of the file ``path``, or of standard input if it is ``-``.

    Paths in standard input are relative to the current directory.
    """
    return Source(yaml.read(*_read_standard_input())) if path == STANDARD_INPUT else from_file(path)

"""Values with their places: the form into which a YAML file is read, so that every error can name its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from syncline.errors import Place

Key: TypeAlias = str | int
Path: TypeAlias = tuple[Key, ...]
Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Text:
    """A file, or a command-line option, as lines."""

    file: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of one line. ``line`` and ``column`` count from 1; ``width`` 0 means to the end of the line."""

    text: Text
    line: int
    column: int
    width: int

    def part(self, text: str, at: int, width: int) -> Mark:
        """The mark of a part of ``text``, which is at this mark, plain or in quotes."""
        line = self.text.lines[self.line - 1] if 0 < self.line <= len(self.text.lines) else ""
        start = line.find(text, max(self.column - 1, 0))
        return Mark(self.text, self.line, start + at + 1, width) if start >= 0 and width else self

    def place(self) -> Place:
        """The mark in the form that a diagnostic holds."""
        lines = self.text.lines
        text = lines[self.line - 1] if 0 < self.line <= len(lines) else ""
        return Place(file=self.text.file, line=self.line, column=self.column, width=self.width, text=text)


@dataclass(slots=True)
class Node:
    """A value: a mapping, a list or a scalar."""

    value: dict[str, Node] | list[Node] | Scalar
    mark: Mark | None = None
    keys: dict[str, Mark] = field(default_factory=dict)
    """Place of each key of a mapping."""
    size: int = 1
    """Number of values in it, including itself."""

    def to_python(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.to_python() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.to_python() for node in self.value]
        return self.value

    def child(self, key: Key) -> Node | None:
        """The value under ``key``; None if there is none."""
        if isinstance(self.value, dict):
            return self.value.get(str(key))
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            return self.value[key]
        return None

    def at(self, path: Path) -> Node | None:
        """The value at ``path``; None if there is none."""
        node: Node | None = self
        for key in path:
            node = node.child(key) if node else None
        return node

    def mark_of(self, path: Path, *, key: bool = False) -> Mark | None:
        """Place of the value at ``path``, or with ``key`` of its key.

        If ``path`` does not exist, the place of the innermost value on the way to it.
        """
        best, node = self.mark, self
        for index, part in enumerate(path):
            following = node.child(part)
            if following is None:
                return best
            last = index == len(path) - 1
            key_mark = node.keys.get(str(part))
            best = following.mark
            # Show the key of a value that spans several lines.
            if key_mark and ((key and last) or best is None or (best.width == 0 and following.size > 1)):
                best = key_mark
            node = following
        return best


def from_python(value: Any) -> Node:
    """A node, without places, for data that was made in Python."""
    if isinstance(value, Mapping):
        children = {str(key): from_python(each) for key, each in value.items()}
        return Node(children, size=1 + sum(child.size for child in children.values()))
    if isinstance(value, (list, tuple)):
        items = [from_python(each) for each in value]
        return Node(items, size=1 + sum(item.size for item in items))
    if value is None or isinstance(value, (str, int, float, bool)):
        return Node(value)
    return Node(str(value))


def dotted(path: Path) -> str:
    """The path as text, such as ``fabric.dims.2.rate``."""
    return ".".join(str(part) for part in path)


def undotted(text: str) -> Path:
    """The path that :func:`dotted` prints as ``text``."""
    return tuple(int(part) if part.isdigit() else part for part in text.split("."))

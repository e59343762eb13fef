"""Reads YAML into nodes, from the parser's events, and builds only values that a scenario can hold.

Scalars follow the core schema of YAML 1.2. Tags, duplicate keys, several documents and anything past a limit are
errors, so that no file can run code, exhaust memory through aliases, or differ from what it seems to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from syncline import _core
from syncline.codes import Code
from syncline.input import limits
from syncline.input.node import Mark, Node, Scalar, Text
from syncline.input.problem import error, raise_errors

if TYPE_CHECKING:
    from syncline.errors import Diagnostic

_Event: TypeAlias = tuple[str, int, int, int, int, str | None, bool, int, bool]
"""As :func:`syncline._core.yaml_events` gives them."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]{1,4000}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,4000}|0o[0-7]{1,4000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = {".nan": "nan", ".inf": "inf", "+.inf": "inf", "-.inf": "-inf"}


def read(content: str, file: str) -> Node:
    """The one document in ``content``. Raises :class:`SynclineError` if it is not well formed."""
    text = Text(file, _LINE_END.split(content))
    reader = _Reader(text)
    # Each value takes at most three events: its key, itself, and the end of its mapping or list.
    events, stop = _core.yaml_events(content, 3 * limits.MAX_NODES + 3)
    for event in events:
        reader.take(event)
    if stop:
        line, column, why = stop
        if tab := _tab(text, line):
            raise_errors(error(Code.BAD_SYNTAX, "a tab in the indentation", mark=tab, help="indent with spaces"))
        raise_errors(error(Code.BAD_SYNTAX, f"not well-formed YAML: {why}", mark=Mark(text, line, column, 1)))
    if reader.problems:
        raise_errors(*reader.problems)
    if reader.root is None:
        raise_errors(error(Code.BAD_SYNTAX, "the file is empty", mark=Mark(text, 0, 0, 0)))
    return reader.root


def _tab(text: Text, line: int) -> Mark | None:
    """The tab in the indentation of the line at which the parser stopped, or of a neighbouring line.

    YAML allows only spaces in the indentation.
    """
    for number in (line, line - 1, line + 1):
        if 0 < number <= len(text.lines):
            content = text.lines[number - 1]
            column = content[: len(content) - len(content.lstrip())].find("\t")
            if column >= 0:
                return Mark(text, number, column + 1, 1)
    return None


def scalar(text: str) -> Scalar:
    """A plain scalar's value by the core schema of YAML 1.2."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text.lower() in _NOT_FINITE:
        return float(_NOT_FINITE[text.lower()])
    return text


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been read yet."""

    node: Node
    anchor: int
    key: str | None = None


@dataclass(slots=True)
class _Reader:
    text: Text
    root: Node | None = None
    problems: list[Diagnostic] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[int, Node] = field(default_factory=dict)
    nodes: int = 0
    aliased: int = 0
    documents: int = 0

    def take(self, event: _Event) -> None:
        """Advances by one event of the parser."""
        kind, line, column, end_line, end_column, text, plain, anchor, tagged = event
        mark = Mark(self.text, line, column, max(end_column - column, 0) if line == end_line else 0)
        if tagged:
            self._stop(mark, "tags are not allowed", "remove the tag; values determine their types")
        if kind == "scalar":
            raw = text or ""
            top = self.stack[-1] if self.stack else None
            if top is not None and top.key is None and isinstance(top.node.value, dict):
                self._key(top, raw, mark)
                if plain and raw == "<<":
                    self._stop(
                        mark, "merge keys are not supported", "write the keys out, or repeat a value with an alias"
                    )
            else:
                self._count(mark)
                self._place(Node(scalar(raw) if plain else raw, mark), anchor)
        elif kind == "end":
            opened = self.stack.pop()
            node, start = opened.node, opened.node.mark
            if start and end_line == start.line:
                node.mark = Mark(self.text, start.line, start.column, end_column - start.column)
            self._place(node, opened.anchor)
        elif kind == "alias":
            self._alias(mark, anchor)
        elif kind == "document":
            self.documents += 1
            if self.documents > 1:
                self._stop(mark, "a second document starts here", "keep one scenario in a file")
        else:
            if len(self.stack) == limits.MAX_DEPTH:
                self._stop(mark, f"nested more than {limits.MAX_DEPTH} deep", "flatten the file")
            self._count(mark)
            self.stack.append(_Open(Node({} if kind == "mapping" else [], mark), anchor))

    def _key(self, top: _Open, key: str, mark: Mark) -> None:
        """Takes a scalar as the key of a mapping."""
        if key in top.node.keys:
            first = top.node.keys[key].line
            self.problems.append(
                error(
                    Code.BAD_VALUE,
                    f"key `{key}` is given twice",
                    mark=mark,
                    help=f"keep one of the two; the first is in line {first}",
                )
            )
        top.key, top.node.keys[key] = key, mark

    def _place(self, node: Node, anchor: int) -> None:
        """Adds a finished value to the enclosing mapping or list."""
        if anchor:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        if isinstance(top.node.value, list):
            top.node.value.append(node)
        elif isinstance(top.node.value, dict):
            if top.key is None:
                self._stop(node.mark, "a key must be a plain word", "write `key: value`")
            else:
                top.node.value[top.key] = node
                top.key = None
        top.node.size += node.size

    def _alias(self, mark: Mark, anchor: int) -> None:
        node = self.anchors.get(anchor)
        if node is None:
            name = self.text.lines[mark.line - 1][mark.column : mark.column + mark.width - 1]
            self._stop(mark, f"no anchor `{name}` is defined before this alias", "define it first with `&`")
            return
        self.aliased += node.size
        if self.aliased > limits.MAX_ALIASED:
            self._stop(mark, f"aliases repeat more than {limits.MAX_ALIASED} values", "write the file without them")
        self._place(node, 0)

    def _count(self, mark: Mark) -> None:
        self.nodes += 1
        if self.nodes > limits.MAX_NODES:
            self._stop(mark, f"more than {limits.MAX_NODES} values", "give a large fabric as a CSV edge list")

    def _stop(self, mark: Mark | None, message: str, help_text: str) -> None:
        raise_errors(*self.problems, error(Code.BAD_SYNTAX, message, mark=mark, help=help_text))

"""YAML into nodes, from the parser's events: nothing is constructed that a scenario cannot hold.

Scalars follow the core schema of YAML 1.2. Tags, duplicate keys, several documents and everything past a limit are
refused, so no file can run code, exhaust memory by repeating itself, or mean something else than it seems to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from syncline.config import limits
from syncline.config.node import Mark, Node, Scalar, Text
from syncline.config.problem import error, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.errors import Diagnostic

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]{1,4000}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,4000}|0o[0-7]{1,4000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = {".nan": "nan", ".inf": "inf", "+.inf": "inf", "-.inf": "-inf"}


def read(content: str, file: str) -> Node:
    """The one document in ``content``. Raises :class:`SynclineError` where it is not well formed."""
    text = Text(file, content.splitlines())
    reader = _Reader(text)
    try:
        for event in _events(content):
            reader.take(event)
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        what = " ".join(str(problem.problem or problem.context or "malformed").split())
        place = Mark(text, mark.line + 1, mark.column + 1, 1) if mark else None
        refuse(error("SL0106", f"not well-formed YAML: {what}", mark=place or Mark(text, 0, 0, 0)))
    except YAMLError as problem:
        first = next(iter(str(problem).splitlines()), "malformed")
        refuse(error("SL0106", f"not well-formed YAML: {first}", mark=Mark(text, 0, 0, 0)))
    if reader.problems:
        refuse(*reader.problems)
    if reader.root is None:
        refuse(error("SL0106", "the file is empty", mark=Mark(text, 0, 0, 0)))
    return reader.root


def _events(content: str) -> Iterator[Any]:
    return YAML(typ="safe", pure=True).parse(content)  # type: ignore[no-any-return]


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
    """A mapping or list whose end has not come yet."""

    node: Node
    anchor: str | None
    key: str | None = None


@dataclass(slots=True)
class _Reader:
    text: Text
    root: Node | None = None
    problems: list[Diagnostic] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, Node] = field(default_factory=dict)
    nodes: int = 0
    aliased: int = 0
    documents: int = 0

    def take(self, event: Any) -> None:
        """Advances by one event of the parser."""
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._stop(event, "a second document starts here", "keep one scenario in a file")
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, ScalarEvent):
            self._no_tag(event)
            plain = event.style in (None, "")
            self._add(event, Node(scalar(event.value) if plain else event.value, self._mark(event)), event.value)
        elif isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            self._no_tag(event)
            if len(self.stack) == limits.MAX_DEPTH:
                self._stop(event, f"nested more than {limits.MAX_DEPTH} deep", "flatten the file")
            node = Node({} if isinstance(event, MappingStartEvent) else [], self._mark(event))
            self._count(event)
            self.stack.append(_Open(node, event.anchor))
        elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
            opened = self.stack.pop()
            node, start = opened.node, opened.node.mark
            if start and event.end_mark.line + 1 == start.line:
                node.mark = Mark(self.text, start.line, start.column, event.end_mark.column + 1 - start.column)
            self._place(event, node, opened.anchor)

    def _add(self, event: Any, node: Node, raw: str) -> None:
        """A scalar: a key, where a mapping waits for one, or else a value."""
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.node.value, dict) and top.key is None:
            mark = self._mark(event)
            if raw in top.node.keys:
                first = top.node.keys[raw].line
                self.problems.append(
                    error(
                        "SL0102",
                        f"key `{raw}` is given twice",
                        mark=mark,
                        help=f"keep one of the two; the first is in line {first}",
                    )
                )
            top.key, top.node.keys[raw] = raw, mark
            return
        self._count(event)
        self._place(event, node, event.anchor)

    def _place(self, event: Any, node: Node, anchor: str | None) -> None:
        """A finished value goes where the enclosing mapping or list expects it."""
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
                self._stop(event, "a key must be a plain word", "write `key: value`")
            else:
                top.node.value[top.key] = node
                top.key = None
        top.node.size += node.size

    def _alias(self, event: Any) -> None:
        node = self.anchors.get(event.anchor)
        if node is None:
            self._stop(event, f"no anchor `{event.anchor}` stands before this alias", "define it first with `&`")
            return
        self.aliased += node.size
        if self.aliased > limits.MAX_ALIASED:
            self._stop(event, f"aliases repeat more than {limits.MAX_ALIASED} values", "write the file without them")
        self._place(event, node, None)

    def _count(self, event: Any) -> None:
        self.nodes += 1
        if self.nodes > limits.MAX_NODES:
            self._stop(event, f"more than {limits.MAX_NODES} values", "give a large fabric as a CSV edge list")

    def _no_tag(self, event: Any) -> None:
        if event.tag is not None:
            self._stop(event, "tags are not allowed", "remove the tag; types follow from the values")

    def _mark(self, event: Any) -> Mark:
        start, end = event.start_mark, event.end_mark
        width = end.column - start.column if end.line == start.line else 0
        return Mark(self.text, start.line + 1, start.column + 1, max(width, 0))

    def _stop(self, event: Any, message: str, help_text: str) -> None:
        refuse(*self.problems, error("SL0106", message, mark=self._mark(event), help=help_text))

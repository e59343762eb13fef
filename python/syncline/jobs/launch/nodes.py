"""Nodes of the syntax tree of a script: their text, their places, and the parts of statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.input.node import Mark, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a script."""

    text: Text
    content: bytes
    """As the parser has it."""

    def mark(self, node: Node) -> Mark:
        """The place of a node."""
        (row, column), (end, last) = node.start_point, node.end_point
        return Mark(self.text, row + 1, column + 1, last - column if end == row else 0)


def text(node: Node | None) -> str:
    """The text of a node; empty without one."""
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def clauses(node: Node) -> Iterator[tuple[list[Node], list[Node]]]:
    """Conditions and statements of ``if``, each ``elif``, and ``else``, which has no condition."""
    conditions: list[Node] = []
    body: list[Node] = []
    then = False
    rest: list[Node] = []
    for each in node.children:
        if each.type in ("elif_clause", "else_clause"):
            rest.append(each)
        elif each.type == "then":
            then = True
        elif each.type not in ("if", "fi", ";", "\n", "comment"):
            (body if then else conditions).append(each)
    yield conditions, body
    for each in rest:
        if each.type == "else_clause":
            yield [], [inside for inside in each.children if inside.type not in ("else", ";", "\n")]
            continue
        conditions, body, then = [], [], False
        for inside in each.children:
            if inside.type == "then":
                then = True
            elif inside.type not in ("elif", ";", "\n", "comment"):
                (body if then else conditions).append(inside)
        yield conditions, body


def assignments(node: Node) -> Iterator[Node]:
    """All assignments in a statement."""
    if node.type == "variable_assignment":
        yield node
        return
    for each in node.children:
        yield from assignments(each)

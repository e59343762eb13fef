"""Expansions of words: variables, arrays, defaults, arithmetic (Bash Reference Manual, section 3.5).

What a script does not set is unknown, and so is what programs print.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from syncline.input.node import Mark, Text
from syncline.jobs.launch.nodes import Source, text
from syncline.jobs.launch.values import Break, Part, Value, splitting, text_of, unknown_of

if TYPE_CHECKING:
    from tree_sitter import Node

Array: TypeAlias = list[Value]
_EXPANDED = re.compile(r"\\([\"$`\\])")
_ESCAPED = re.compile(r"\\(.)", re.S)
_LITERAL = frozenset(
    ("word", "number", "extglob_pattern", "regex", "file_descriptor", "test_operator", "brace_expression")
)
_UNSET = "\0"
"""Begins the reason of a variable that is not set."""


class Expansions:
    """The variables of a script, and what words make of them."""

    def __init__(self) -> None:
        self.variables: dict[str, Array] = {}
        self.source = Source(Text("", ()), b"")
        """The file that is followed."""

    def unknown(self, node: Node, why: str) -> Value:
        """A value that is not known."""
        return (Part(text(node)[:60], self.source.mark(node), unknown=why),)

    def known(self, node: Node) -> str | None:
        """The text of a value in a condition, where an unset variable is empty; None if it is unknown."""
        value = tuple(each for each in self.expand(node) if isinstance(each, Part))
        kept = tuple(each for each in value if not _is_unset(each))
        return None if unknown_of(kept) else text_of(kept)

    def unset(self, value: Value) -> bool:
        """Whether all that is unknown of a value are unset variables."""
        return all(_is_unset(each) for each in value if each.unknown)

    def expand(self, node: Node | None, *, quoted: bool = False) -> list[Part | Break]:
        """The parts that a word makes."""
        if node is None:
            return []
        kind = node.type
        if kind in _LITERAL:
            return [Part(_ESCAPED.sub(r"\1", text(node)), self.source.mark(node))]
        if kind == "string":
            return self.string(node)
        if kind == "raw_string":
            return [Part(text(node)[1:-1], self.source.mark(node))]
        if kind == "ansi_c_string":
            return [Part(text(node)[2:-1], self.source.mark(node))]
        if kind in ("concatenation", "command_name"):
            return [part for each in node.children for part in self.expand(each, quoted=quoted)]
        if kind == "simple_expansion":
            return self.variable(node, text(node)[1:], quoted=quoted)
        if kind == "expansion":
            return self.expansion(node, quoted=quoted)
        if kind == "arithmetic_expansion":
            inside = [each for each in node.children if each.is_named]
            number = self.number(inside[-1]) if inside else None
            if number is None:
                return list(self.unknown(node, f"`{text(node)}` has unknown terms"))
            return [Part(str(number), self.source.mark(node))]
        if kind == "command_substitution":
            if text(node).strip("`$() ") == "pwd":
                return [Part(".", self.source.mark(node))]
            return list(self.unknown(node, "it is the output of a command"))
        return list(self.unknown(node, "this form is not evaluated"))

    def string(self, node: Node) -> list[Part | Break]:
        """What is in double quotes. The parser leaves out some blanks between expansions, so bytes between count."""
        found: list[Part | Break] = []
        at, end = node.start_byte + 1, node.end_byte - 1
        for each in node.children[1:-1]:
            if each.type == "string_content":
                continue
            found += self.plain(node, at, each.start_byte)
            found += self.expand(each, quoted=True)
            at = each.end_byte
        found += self.plain(node, at, end)
        return found or [Part("", self.source.mark(node))]

    def plain(self, node: Node, start: int, end: int) -> list[Part]:
        """Literal text of the source."""
        if start >= end:
            return []
        before = self.source.content[:start]
        line = before.count(b"\n") + 1
        column = start - before.rfind(b"\n")
        plain = _EXPANDED.sub(r"\1", self.source.content[start:end].decode("utf-8", "replace"))
        return [Part(plain, Mark(self.source.text, line, column, 0))]

    def variable(self, node: Node, name: str, *, quoted: bool) -> list[Part | Break]:
        """The value of a variable."""
        if name == "#":
            return [Part(str(len(self.variables.get("@", []))), self.source.mark(node))]
        if name in ("@", "*"):
            return self.elements(self.variables.get("@", []), quoted=quoted)
        if name in self.variables:
            array = self.variables[name]
            return list(splitting(array[0], splits=not quoted)) if array else []
        return [self.missing(node, name)]

    def missing(self, node: Node, name: str) -> Part:
        """What a variable stands for that has no value."""
        if name.isdigit():
            return Part(
                "", self.source.mark(node), splits=True, unknown=f"{_UNSET}`${name}` is an argument of the script"
            )
        return Part("", self.source.mark(node), splits=True, unknown=f"{_UNSET}the script does not set `{name}`")

    def elements(self, array: Array, *, quoted: bool) -> list[Part | Break]:
        """The elements of an array, each a word of its own."""
        found: list[Part | Break] = []
        for index, each in enumerate(array):
            if index:
                found.append(Break())
            found += splitting(each, splits=not quoted)
        return found

    def expansion(self, node: Node, *, quoted: bool) -> list[Part | Break]:
        """``${...}`` in its forms."""
        inside = [each for each in node.children if each.type not in ("${", "}")]
        if not inside:
            return []
        first = inside[0]
        if first.type == "subscript":
            name = text(first.child_by_field_name("name"))
            index = text(first.child_by_field_name("index"))
            array = self.variables.get(name)
            if array is None:
                return [self.missing(node, name)] if index not in ("@", "*") else []
            if index in ("@", "*"):
                return self.elements(array, quoted=quoted)
            if index.isdigit() and int(index) < len(array):
                return list(splitting(array[int(index)], splits=not quoted))
            return list(self.unknown(node, f"`{text(node)}` is not evaluated"))
        name = text(first)
        if first.type not in ("variable_name", "special_variable_name", "word", "number") or not name:
            return list(self.unknown(node, f"`{text(node)}` is not evaluated"))
        operator = text(inside[1]) if len(inside) > 1 else ""
        rest = inside[2:]
        current = self.variables.get(name)
        value = None if current is None else (current[0] if current else ())
        absent = value is None or (operator.startswith(":") and not unknown_of(value) and not text_of(value))
        match operator:
            case "":
                return self.variable(node, name, quoted=quoted)
            case ":-" | "-" | ":=" | "=":
                if not absent:
                    return self.variable(node, name, quoted=quoted)
                made = [part for each in rest for part in self.expand(each, quoted=quoted)]
                if "=" in operator:
                    self.variables[name] = [tuple(each for each in made if isinstance(each, Part))]
                return [
                    Part(each.text, each.mark, splits=not quoted, unknown=each.unknown)
                    if isinstance(each, Part)
                    else each
                    for each in made
                ]
            case ":+" | "+":
                return [] if absent else [part for each in rest for part in self.expand(each, quoted=quoted)]
            case ":?" | "?":
                return self.variable(node, name, quoted=quoted)
            case _:
                return list(self.unknown(node, f"`{text(node)}` is not evaluated"))

    def number(self, node: Node) -> int | None:
        """The value of an arithmetic expression; None if it is unknown."""
        match node.type:
            case "number":
                return _int(text(node))
            case "parenthesized_expression":
                inside = [each for each in node.children if each.is_named]
                return self.number(inside[0]) if len(inside) == 1 else None
            case "unary_expression":
                value = self.number(node.children[-1])
                sign = {"-": -1, "+": 1}.get(text(node.children[0]))
                return None if value is None or sign is None else sign * value
            case "binary_expression":
                a, b = self.number(node.children[0]), self.number(node.children[-1])
                return None if a is None or b is None else _arithmetic(text(node.children[1]), a, b)
            case "variable_name" | "word":
                value_of = self.variables.get(text(node))
                return None if not value_of or unknown_of(value_of[0]) else _int(text_of(value_of[0]))
            case "simple_expansion" | "expansion" | "string" | "concatenation":
                known = self.known(node)
                return None if known is None else _int(known)
            case _:
                return None


def reason(unknown: str) -> str:
    """Why something is unknown, for people."""
    return unknown.removeprefix(_UNSET)


def _is_unset(part: Part) -> bool:
    return part.unknown is not None and part.unknown.startswith(_UNSET)


def _arithmetic(operator: str, a: int, b: int) -> int | None:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" | "%" if b != 0:
            # Bash rounds towards zero.
            whole = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return whole if operator == "/" else a - b * whole
        case _:
            return None


def _int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text) else None

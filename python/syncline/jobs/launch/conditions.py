"""Conditions of a script on known values (Bash Reference Manual, section 6.4)."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from syncline.jobs.launch.nodes import text

if TYPE_CHECKING:
    from tree_sitter import Node

    from syncline.jobs.launch.expansions import Expansions

TESTS = frozenset(("test_command", "negated_command"))
"""Nodes that are conditions."""
_BRACKETS = frozenset(("[", "]", "[[", "]]", "((", "))", "(", ")"))


@dataclass(frozen=True, slots=True)
class Conditions:
    """Decides conditions by the values of variables."""

    values: Expansions

    def all(self, conditions: list[Node]) -> bool | None:
        """Whether the last of the conditions holds; None if it is unknown."""
        return self.test(conditions[-1])

    def test(self, node: Node | None) -> bool | None:
        """Whether a condition holds; None if it is unknown."""
        if node is None:
            return None
        match node.type:
            case "test_command" | "parenthesized_expression":
                inside = [each for each in node.children if each.type not in _BRACKETS]
                return self.test(inside[0]) if len(inside) == 1 else None
            case "negated_command":
                holds = self.test(node.children[-1])
                return None if holds is None else not holds
            case "list":
                both = [self.test(node.children[0]), self.test(node.children[-1])]
                return _together(both, wanted=any(each.type == "&&" for each in node.children))
            case "unary_expression":
                return self.unary(node)
            case "binary_expression":
                return self.binary(node)
            case "word" | "string" | "simple_expansion" | "expansion" | "concatenation":
                known = self.values.known(node)
                return None if known is None else bool(known)
            case _:
                return None

    def unary(self, node: Node) -> bool | None:
        """Whether a test of one value holds; None if it is not known."""
        operator, value = text(node.children[0]), node.children[-1]
        if operator == "!":
            holds = self.test(value)
            return None if holds is None else not holds
        known = self.values.known(value)
        if known is None or operator not in ("-n", "-z"):
            return None
        return bool(known) == (operator == "-n")

    def binary(self, node: Node) -> bool | None:
        """Whether a test of two values holds; None if it is not known."""
        left, operator, right = node.children[0], text(node.children[1]), node.children[-1]
        if operator in ("&&", "-a", "||", "-o"):
            return _together([self.test(left), self.test(right)], wanted=operator in ("&&", "-a"))
        a, b = self.values.known(left), self.values.known(right)
        if a is None or b is None:
            return None
        if operator in ("==", "="):
            return fnmatchcase(a, b)
        if operator == "!=":
            return not fnmatchcase(a, b)
        numbers = {"-eq": "==", "-ne": "!=", "-gt": ">", "-ge": ">=", "-lt": "<", "-le": "<="}
        if operator in numbers or operator in numbers.values():
            try:
                x, y = int(a), int(b)
            except ValueError:
                return None
            sign = (x > y) - (x < y)
            return {
                "==": sign == 0,
                "!=": sign != 0,
                ">": sign > 0,
                ">=": sign >= 0,
                "<": sign < 0,
                "<=": sign <= 0,
            }[numbers.get(operator, operator)]
        return None


def _together(holds: list[bool | None], *, wanted: bool) -> bool | None:
    """Whether all of the conditions hold, if that is ``wanted``, else whether one does; None if it is unknown."""
    if (not wanted) in holds:
        return not wanted
    return None if None in holds else wanted

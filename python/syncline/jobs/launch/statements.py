"""Statements of a script: assignments, commands, functions, conditions, sourced files."""

from __future__ import annotations

import re
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.jobs.launch.commands import Command, Script, batch_options, options
from syncline.jobs.launch.conditions import TESTS, Conditions
from syncline.jobs.launch.expansions import Array, Expansions
from syncline.jobs.launch.nodes import Source, assignments, clauses, text
from syncline.jobs.launch.values import Break, Part, Value, joined, split, splitting, text_of, unknown_of, word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node, Parser

    from syncline.jobs.launch.words import Word

MAX_STEPS = 100_000
"""Most statements that are followed."""
MAX_SOURCED = 20
"""Most files that a script sources, one from the other."""


class ExitError(Exception):
    """The script ends."""


class Statements:
    """Follows statements."""

    def __init__(self, parser: Parser, found: Script) -> None:
        self.parser = parser
        self.found = found
        self.values = Expansions()
        self.conditions = Conditions(self.values)
        self.functions: dict[str, Node] = {}
        self.certain = True
        self.steps = 0
        self.depth = 0

    def file(self, path: str, content: str) -> None:
        """Follows a whole file."""
        batch_options(path, content, self.found)
        before = self.values.source
        self.values.source = Source(Text(path, content.split("\n")), content.encode())
        root = self.parser.parse(self.values.source.content).root_node
        if root.has_error and root.type == "ERROR":
            raise_errors(
                error(
                    Code.BAD_SYNTAX,
                    "not a shell script",
                    mark=Mark(self.values.source.text, 1, 0, 0),
                    help="give the script that starts the training, or the arguments themselves after `--`",
                )
            )
        self.run(root.children)
        self.values.source = before

    def run(self, nodes: Iterable[Node]) -> None:
        """Follows statements, one after the other."""
        for node in nodes:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise_errors(
                    error(Code.BAD_SYNTAX, f"more than {MAX_STEPS} statements", mark=self.values.source.mark(node))
                )
            self.statement(node)

    def statement(self, node: Node) -> None:
        """Follows one statement."""
        match node.type:
            case "variable_assignment":
                self.assign(node)
            case "variable_assignments" | "declaration_command":
                self.run(each for each in node.children if each.type == "variable_assignment")
            case "command":
                self.command(node)
            case "if_statement":
                self.branches(node, list(clauses(node)))
            case "case_statement":
                self.case(node)
            case "list":
                self.both(node)
            case "function_definition":
                self.functions[text(node.child_by_field_name("name"))] = node
            case "while_statement" if self.conditions.test(node.child_by_field_name("condition")) is False:
                pass
            case "for_statement" | "c_style_for_statement" | "while_statement":
                self.maybe(node, "a loop", [node.child_by_field_name("body")])
            case "redirected_statement":
                body = node.child_by_field_name("body")
                if not self.here(body, node):
                    self.run([] if body is None else [body])
            case "pipeline" | "compound_statement" | "do_group" | "subshell" | "negated_command" | "else_clause":
                self.run(node.children)
            case "ERROR":
                self.found.unread.append(("not understood as shell", self.values.source.mark(node)))

    def assign(self, node: Node) -> None:
        """Gives a variable its value."""
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if target is None:
            return
        adds = any(each.type == "+=" for each in node.children)
        name = text(target)
        if target.type == "subscript":
            name = text(target.child_by_field_name("name"))
            self.values.variables[name] = [self.values.unknown(node, f"`{name}` is set element by element")]
            return
        if value is None:
            made: Array = [()]
        elif value.type == "array":
            made = [
                element
                for each in value.children
                if each.type not in ("(", ")", "comment")
                for element in split(self.values.expand(each))
            ]
            self.values.variables[name] = [*self.values.variables.get(name, []), *made] if adds else made
            return
        else:
            made = [joined(self.values.expand(value))]
        if adds:
            old = self.values.variables.get(name, [()])
            made = [(*old[0], *made[0]), *old[1:]]
        self.values.variables[name] = made

    def command(self, node: Node) -> None:
        """Notes a command, or follows what the shell itself does."""
        values = _unfolded(list(split(self.words(node))))
        found = tuple(word(each) for each in values)
        if not found:
            return
        name = found[0].text
        if name == "exit" and self.certain:
            raise ExitError
        if name in (".", "source") and len(found) > 1:
            self.follow(found[1])
        elif name in _STARTERS and not found[-1].unknown and self.place(found[-1]).is_file():
            self.found.batch |= options(found)
            self.follow(found[-1])
        elif name in self.functions:
            self.call(name, values[1:])
        elif name == "shift":
            self.values.variables["@"] = self.values.variables.get("@", [])[1:]
        elif name == "export":
            return
        else:
            self.found.commands.append(Command(found, self.values.source.mark(node), self.certain))

    def words(self, node: Node) -> list[Part | Break]:
        """The parts of a command's words."""
        said: list[Part | Break] = []
        for each in node.children:
            if each.type == "variable_assignment":
                continue
            inside = each.children[0] if each.type == "command_name" and each.children else each
            if inside.type not in _REDIRECTIONS:
                said += [*self.values.expand(inside), Break()]
        return said

    def here(self, body: Node | None, node: Node) -> bool:
        """Follows the lines that a statement gives to a shell or to the batch system (``sbatch <<EOF``), if it does."""
        found = next((each for each in node.children if each.type == "heredoc_redirect"), None)
        inside = None if found is None else next((each for each in found.children if each.type == "heredoc_body"), None)
        if body is None or body.type != "command" or inside is None or self.depth >= MAX_SOURCED:
            return False
        words = tuple(word(each) for each in split(self.words(body)))
        if not words or words[0].text not in _STARTERS or any(not each.text.startswith("-") for each in words[1:]):
            return False
        self.found.batch |= options(words)
        # What the shell would fill in has the same value where the lines are followed.
        lines = text(inside).replace("\\$", "$")
        self.depth += 1
        self.file(self.values.source.text.file, "\n" * inside.start_point[0] + lines)
        self.depth -= 1
        return True

    def follow(self, path: Word) -> None:
        """Follows a sourced file."""
        place = self.place(path)
        if path.unknown or self.depth >= MAX_SOURCED or not place.is_file():
            why = path.unknown or "there is no such file"
            self.found.unread.append((f"sourced file `{path.text}`: {why}", path.mark))
            return
        self.depth += 1
        self.file(place.as_posix(), read_file(place.as_posix()))
        self.depth -= 1

    def place(self, path: Word) -> Path:
        """The place of a file that the script names."""
        return Path(self.values.source.text.file).parent / path.text

    def call(self, name: str, arguments: list[Value]) -> None:
        """Follows a function."""
        if self.depth >= MAX_SOURCED:
            return
        kept = {each: value for each, value in self.values.variables.items() if each.isdigit() or each == "@"}
        for number in range(1, 10):
            self.values.variables.pop(str(number), None)
        for number, value in enumerate(arguments, start=1):
            self.values.variables[str(number)] = [value]
        self.values.variables["@"] = list(arguments)
        self.depth += 1
        body = self.functions[name].child_by_field_name("body")
        self.run([body] if body else [])
        self.depth -= 1
        for number in range(1, 10):
            self.values.variables.pop(str(number), None)
        self.values.variables |= kept

    def branches(self, node: Node, clauses: list[tuple[list[Node], list[Node]]]) -> None:
        """Follows the first branch whose condition is true; all of them, as uncertain, from an unknown one on."""
        for index, (conditions, body) in enumerate(clauses):
            holds = self.conditions.all(conditions) if conditions else True
            if holds is None:
                said = " ".join(text(each) for each in conditions)
                self.maybe(node, f"the condition `{said[:60]}`", [each for _, rest in clauses[index:] for each in rest])
                return
            if holds:
                self.run(body)
                return

    def maybe(self, node: Node, on: str, bodies: Iterable[Node | None]) -> None:
        """Notes the commands of statements that may not run, and what they set as unknown."""
        line = node.start_point[0] + 1
        why = f"it depends on {on} in line {line}"
        nodes = [each for each in bodies if each is not None]
        before, certain = {name: list(value) for name, value in self.values.variables.items()}, self.certain
        self.certain = False
        with suppress(ExitError):
            self.run(nodes)
        self.certain = certain
        after, self.values.variables = self.values.variables, before
        for body in nodes:
            for each in assignments(body):
                name = text(each.child_by_field_name("name")).partition("[")[0]
                value = each.child_by_field_name("value")
                if value is not None and value.type == "array" and any(c.type == "+=" for c in each.children):
                    # What is added may be absent: keep the rest, and name what is not certain.
                    known = len(before.get(name, []))
                    added = [
                        tuple(Part(part.text, part.mark, unknown=why) for part in element)
                        for element in after.get(name, [])[known:]
                    ]
                    before[name] = [*before.get(name, []), *added]
                else:
                    before[name] = [self.values.unknown(each, why)]

    def both(self, node: Node) -> None:
        """Follows ``a && b`` and ``a || b``."""
        left, right = node.children[0], node.children[-1]
        holds = self.conditions.test(left) if left.type in TESTS else None
        wanted = any(each.type == "&&" for each in node.children)
        if left.type not in TESTS:
            self.run([left])
            # A command may fail, and is meant not to.
            if wanted:
                self.run([right])
            else:
                self.maybe(node, f"whether `{text(left)[:60]}` fails", [right])
            return
        if holds is None:
            self.maybe(node, f"the condition `{text(left)[:60]}`", [right])
        elif holds == wanted:
            self.run([right])

    def case(self, node: Node) -> None:
        """Follows the first pattern that matches."""
        value = tuple(each for each in self.values.expand(node.child_by_field_name("value")) if isinstance(each, Part))
        items = [each for each in node.children if each.type == "case_item"]
        if unknown_of(value) and not self.values.unset(value):
            self.maybe(node, f"`{text(node.child_by_field_name('value'))}`", items)
            return
        for item in items:
            patterns, body, inside = [], [], True
            for each in item.children:
                if inside and each.type == ")":
                    inside = False
                elif inside and each.type != "|":
                    patterns.append(text(each).strip("'\""))
                elif not inside and each.type not in (";;", ";&", ";;&"):
                    body.append(each)
            if any(fnmatchcase(text_of(value), pattern) for pattern in patterns):
                self.run(body)
                return


_SHELLS = frozenset(("sh", "bash", "/bin/bash", "/bin/sh"))
_STARTERS = ("sbatch", "bash", "sh", "exec")
_REDIRECTIONS = frozenset(("file_redirect", "herestring_redirect", "heredoc_redirect"))


def _unfolded(values: list[Value]) -> list[Value]:
    """The words of a command, with those of the line that it gives to a shell by ``-c``."""
    found: list[Value] = []
    shell = False
    for before, value in zip([(), *values], values, strict=False):
        if shell and text_of(before) in ("-c", "-lc"):
            quotes = (Part(re.sub(r"['\"]", "", each.text), each.mark, unknown=each.unknown) for each in value)
            found += split(splitting(tuple(quotes), splits=True))
        else:
            found.append(value)
        shell = shell or text_of(value) in _SHELLS
    return found

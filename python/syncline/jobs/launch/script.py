"""Which commands a shell script runs, without running any.

Variables, arrays, defaults, arithmetic, conditions on known values and sourced files are followed, as bash follows
them. What only the machine knows (files, dates, other programs) is unknown, and so is what depends on it.
Source of the rules: the Bash Reference Manual, sections 3.5 (expansions) and 6.4 (conditions).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from syncline.codes import Code
from syncline.extras import install
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.input.source import read_file
from syncline.jobs.launch.values import Break, Part, Value, split, splitting, text_of, unknown_of, word
from syncline.jobs.launch.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tree_sitter import Node, Parser

MAX_STEPS = 100_000
"""Most statements that are followed."""
MAX_SOURCED = 20
"""Most files that a script sources, one from the other."""
_EXPANDED = re.compile(r"\\([\"$`\\])")
_ESCAPED = re.compile(r"\\(.)", re.S)
_LITERAL = frozenset(
    ("word", "number", "extglob_pattern", "regex", "file_descriptor", "test_operator", "brace_expression")
)
Array: TypeAlias = list[Value]


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a script runs."""

    words: tuple[Word, ...]
    mark: Mark
    certain: bool
    """Whether it runs whatever is unknown."""


@dataclass(slots=True)
class Script:
    """What a script does."""

    commands: list[Command] = field(default_factory=list)
    batch: dict[str, Word] = field(default_factory=dict)
    """Options of ``#SBATCH`` lines by their names."""
    unread: list[tuple[str, Mark]] = field(default_factory=list)
    """Parts that are not followed: what they are, and where."""


class _ExitError(Exception):
    """The script ends."""


def read_script(path: str, environment: Mapping[str, str]) -> Script:
    """Follows the script of a path with these environment variables.

    :raises SynclineError: the file cannot be read, is no shell script, or the parser is not installed.
    """
    found = Script()
    reader = _Reader(_parser(), found)
    text = read_file(path)
    _batch(path, text, found)
    given = dict(environment)
    for name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"):
        if "nodes" in found.batch:
            given.setdefault(name, found.batch["nodes"].text)
    for name, value in given.items():
        option = f"{name}={value}"
        reader.variables[name] = [(Part(value, Mark(Text("--env", [option]), 1, len(name) + 2, len(value))),)]
    with suppress(_ExitError):
        reader.file(path, text)
    return found


def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise_errors(
            error(
                Code.MISSING_PACKAGE,
                "shell scripts are read with packages that are not installed: tree-sitter, tree-sitter-bash",
                help=f"{install('scripts')}, or give the arguments themselves after `--`",
            )
        )
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _options(said: tuple[Word, ...]) -> dict[str, Word]:
    """Options of a command by their names, such as ``nodes``."""
    found = {}
    for name, following in pairwise(said):
        stem, equals, value = name.text.partition("=")
        if stem.startswith("-"):
            given = Word(value, name.mark) if equals else following
            found[_SHORT.get(stem, stem.lstrip("-"))] = given
    return found


_BATCH = re.compile(r"^#SBATCH\s+(.*)$")
_SHORT = {"-N": "nodes", "-n": "ntasks", "-G": "gpus"}


def _batch(path: str, text: str, found: Script) -> None:
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        match = _BATCH.match(line.strip())
        if match is None:
            continue
        tokens = re.split(r"[\s=]+", match[1].partition("#")[0].strip())
        for name, value in zip(tokens, [*tokens[1:], ""], strict=True):
            if name.startswith("-") and value and not value.startswith("-"):
                found.batch.setdefault(
                    _SHORT.get(name, name.lstrip("-")), Word(value, Mark(Text(path, lines), number, 1, 0))
                )


class _Reader:
    """Follows statements."""

    def __init__(self, parser: Parser, found: Script) -> None:
        self.parser = parser
        self.found = found
        self.variables: dict[str, Array] = {}
        self.functions: dict[str, Node] = {}
        self.certain = True
        self.steps = 0
        self.depth = 0
        self.text = Text("", ())
        self.source = b""

    def file(self, path: str, content: str) -> None:
        """Follows a whole file."""
        _batch(path, content, self.found)
        before = self.text, self.source
        self.text, self.source = Text(path, content.split("\n")), content.encode()
        root = self.parser.parse(self.source).root_node
        if root.has_error and root.type == "ERROR":
            raise_errors(
                error(
                    Code.BAD_SYNTAX,
                    "not a shell script",
                    mark=Mark(self.text, 1, 0, 0),
                    help="give the script that starts the training, or the arguments themselves after `--`",
                )
            )
        self.run(root.children)
        self.text, self.source = before

    def mark(self, node: Node) -> Mark:
        """The place of a node."""
        (row, column), (end, last) = node.start_point, node.end_point
        return Mark(self.text, row + 1, column + 1, last - column if end == row else 0)

    def run(self, nodes: Iterable[Node]) -> None:
        """Follows statements, one after the other."""
        for node in nodes:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise_errors(error(Code.BAD_SYNTAX, f"more than {MAX_STEPS} statements", mark=self.mark(node)))
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
                self.branches(node, list(_clauses(node)))
            case "case_statement":
                self.case(node)
            case "list":
                self.both(node)
            case "function_definition":
                self.functions[_text(node.child_by_field_name("name"))] = node
            case "while_statement" if self.test(node.child_by_field_name("condition")) is False:
                pass
            case "for_statement" | "c_style_for_statement" | "while_statement":
                self.maybe(node, "a loop", [node.child_by_field_name("body")])
            case "redirected_statement":
                self.run(each for each in [node.child_by_field_name("body")] if each is not None)
            case "pipeline" | "compound_statement" | "do_group" | "subshell" | "negated_command" | "else_clause":
                self.run(node.children)
            case "ERROR":
                self.found.unread.append(("not understood as shell", self.mark(node)))

    # Assignments

    def assign(self, node: Node) -> None:
        """Gives a variable its value."""
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if target is None:
            return
        adds = any(each.type == "+=" for each in node.children)
        name = _text(target)
        if target.type == "subscript":
            name = _text(target.child_by_field_name("name"))
            self.variables[name] = [self.unknown(node, f"`{name}` is set element by element")]
            return
        if value is None:
            made: Array = [()]
        elif value.type == "array":
            made = [
                element
                for each in value.children
                if each.type not in ("(", ")", "comment")
                for element in split(self.expand(each))
            ]
            self.variables[name] = [*self.variables.get(name, []), *made] if adds else made
            return
        else:
            made = [tuple(each for each in self.expand(value) if isinstance(each, Part))]
        if adds:
            old = self.variables.get(name, [()])
            made = [(*old[0], *made[0]), *old[1:]]
        self.variables[name] = made

    def unknown(self, node: Node, why: str) -> Value:
        """A value that is not known."""
        return (Part(_text(node)[:60], self.mark(node), unknown=why),)

    # Commands

    def command(self, node: Node) -> None:
        """Notes a command, or follows what the shell itself does."""
        said: list[Part | Break] = []
        for each in node.children:
            if each.type == "variable_assignment":
                continue
            inside = each.children[0] if each.type == "command_name" and each.children else each
            if inside.type not in _REDIRECTIONS:
                said += [*self.expand(inside), Break()]
        values = _unfolded(list(split(said)))
        found = tuple(word(each) for each in values)
        if not found:
            return
        name = found[0].text
        if name == "exit" and self.certain:
            raise _ExitError
        if name in (".", "source") and len(found) > 1:
            self.follow(found[1])
        elif name in _STARTERS and not found[-1].unknown and self.place(found[-1]).is_file():
            self.found.batch |= _options(found)
            self.follow(found[-1])
        elif name in self.functions:
            self.call(name, values[1:])
        elif name == "shift":
            self.variables["@"] = self.variables.get("@", [])[1:]
        elif name == "export":
            return
        else:
            self.found.commands.append(Command(found, self.mark(node), self.certain))

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
        return Path(self.text.file).parent / path.text

    def call(self, name: str, arguments: list[Value]) -> None:
        """Follows a function."""
        if self.depth >= MAX_SOURCED:
            return
        kept = {each: value for each, value in self.variables.items() if each.isdigit() or each == "@"}
        for number in range(1, 10):
            self.variables.pop(str(number), None)
        for number, value in enumerate(arguments, start=1):
            self.variables[str(number)] = [value]
        self.variables["@"] = list(arguments)
        self.depth += 1
        body = self.functions[name].child_by_field_name("body")
        self.run([body] if body else [])
        self.depth -= 1
        for number in range(1, 10):
            self.variables.pop(str(number), None)
        self.variables |= kept

    # Conditions

    def branches(self, node: Node, clauses: list[tuple[list[Node], list[Node]]]) -> None:
        """Follows the first branch whose condition is true; all of them, as uncertain, from an unknown one on."""
        for index, (conditions, body) in enumerate(clauses):
            holds = self.all(conditions) if conditions else True
            if holds is None:
                said = " ".join(_text(each) for each in conditions)
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
        before, certain = {name: list(value) for name, value in self.variables.items()}, self.certain
        self.certain = False
        with suppress(_ExitError):
            self.run(nodes)
        self.certain = certain
        after, self.variables = self.variables, before
        for body in nodes:
            for each in _assignments(body):
                name = _text(each.child_by_field_name("name")).partition("[")[0]
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
                    before[name] = [self.unknown(each, why)]

    def both(self, node: Node) -> None:
        """Follows ``a && b`` and ``a || b``."""
        left, right = node.children[0], node.children[-1]
        holds = self.test(left) if left.type in _TESTS else None
        if left.type not in _TESTS:
            self.run([left, right])
            return
        wanted = any(each.type == "&&" for each in node.children)
        if holds is None:
            self.maybe(node, f"the condition `{_text(left)[:60]}`", [right])
        elif holds == wanted:
            self.run([right])

    def case(self, node: Node) -> None:
        """Follows the first pattern that matches."""
        value = tuple(each for each in self.expand(node.child_by_field_name("value")) if isinstance(each, Part))
        items = [each for each in node.children if each.type == "case_item"]
        if unknown_of(value) and not self.unset(value):
            self.maybe(node, f"`{_text(node.child_by_field_name('value'))}`", items)
            return
        for item in items:
            patterns, body, inside = [], [], True
            for each in item.children:
                if inside and each.type == ")":
                    inside = False
                elif inside and each.type != "|":
                    patterns.append(_text(each).strip("'\""))
                elif not inside and each.type not in (";;", ";&", ";;&"):
                    body.append(each)
            if any(fnmatchcase(text_of(value), pattern) for pattern in patterns):
                self.run(body)
                return

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
                text = self.known(node)
                return None if text is None else bool(text)
            case _:
                return None

    def unary(self, node: Node) -> bool | None:
        """Whether a test of one value holds; None if it is not known."""
        operator, value = _text(node.children[0]), node.children[-1]
        if operator == "!":
            holds = self.test(value)
            return None if holds is None else not holds
        text = self.known(value)
        if text is None or operator not in ("-n", "-z"):
            return None
        return bool(text) == (operator == "-n")

    def binary(self, node: Node) -> bool | None:
        """Whether a test of two values holds; None if it is not known."""
        left, operator, right = node.children[0], _text(node.children[1]), node.children[-1]
        if operator in ("&&", "-a", "||", "-o"):
            return _together([self.test(left), self.test(right)], wanted=operator in ("&&", "-a"))
        a, b = self.known(left), self.known(right)
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

    def known(self, node: Node) -> str | None:
        """The text of a value in a condition, where an unset variable is empty; None if it is unknown."""
        value = tuple(each for each in self.expand(node) if isinstance(each, Part))
        kept = tuple(each for each in value if not _is_unset(each))
        return None if unknown_of(kept) else text_of(kept)

    def unset(self, value: Value) -> bool:
        """Whether all that is unknown of a value are unset variables."""
        return all(_is_unset(each) for each in value if each.unknown)

    # Expansions

    def expand(self, node: Node | None, *, quoted: bool = False) -> list[Part | Break]:
        """The parts that a word makes."""
        if node is None:
            return []
        kind = node.type
        if kind in _LITERAL:
            return [Part(_ESCAPED.sub(r"\1", _text(node)), self.mark(node))]
        if kind == "string":
            return self.string(node)
        if kind == "raw_string":
            return [Part(_text(node)[1:-1], self.mark(node))]
        if kind == "ansi_c_string":
            return [Part(_text(node)[2:-1], self.mark(node))]
        if kind in ("concatenation", "command_name"):
            return [part for each in node.children for part in self.expand(each, quoted=quoted)]
        if kind == "simple_expansion":
            return self.variable(node, _text(node)[1:], quoted=quoted)
        if kind == "expansion":
            return self.expansion(node, quoted=quoted)
        if kind == "arithmetic_expansion":
            inside = [each for each in node.children if each.is_named]
            number = self.number(inside[-1]) if inside else None
            if number is None:
                return list(self.unknown(node, f"`{_text(node)}` has unknown terms"))
            return [Part(str(number), self.mark(node))]
        if kind == "command_substitution":
            if _text(node).strip("`$() ") == "pwd":
                return [Part(".", self.mark(node))]
            return list(self.unknown(node, "it is the output of a command"))
        return list(self.unknown(node, "this form is not followed"))

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
        return found or [Part("", self.mark(node))]

    def plain(self, node: Node, start: int, end: int) -> list[Part]:
        """Literal text of the source."""
        if start >= end:
            return []
        before = self.source[:start]
        line = before.count(b"\n") + 1
        column = start - before.rfind(b"\n")
        text = _EXPANDED.sub(r"\1", self.source[start:end].decode("utf-8", "replace"))
        return [Part(text, Mark(self.text, line, column, 0))]

    def variable(self, node: Node, name: str, *, quoted: bool) -> list[Part | Break]:
        """The value of a variable."""
        if name == "#":
            return [Part(str(len(self.variables.get("@", []))), self.mark(node))]
        if name in ("@", "*"):
            return self.elements(self.variables.get("@", []), quoted=quoted)
        if name in self.variables:
            array = self.variables[name]
            return list(splitting(array[0], splits=not quoted)) if array else []
        return [self.missing(node, name)]

    def missing(self, node: Node, name: str) -> Part:
        """What a variable stands for that has no value."""
        if name.isdigit():
            return Part("", self.mark(node), splits=True, unknown=f"{_UNSET}`${name}` is an argument of the script")
        return Part("", self.mark(node), splits=True, unknown=f"{_UNSET}the script does not set `{name}`")

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
            name = _text(first.child_by_field_name("name"))
            index = _text(first.child_by_field_name("index"))
            array = self.variables.get(name)
            if array is None:
                return [self.missing(node, name)] if index not in ("@", "*") else []
            if index in ("@", "*"):
                return self.elements(array, quoted=quoted)
            if index.isdigit() and int(index) < len(array):
                return list(splitting(array[int(index)], splits=not quoted))
            return list(self.unknown(node, f"`{_text(node)}` is not followed"))
        name = _text(first)
        if first.type not in ("variable_name", "special_variable_name", "word", "number") or not name:
            return list(self.unknown(node, f"`{_text(node)}` is not followed"))
        operator = _text(inside[1]) if len(inside) > 1 else ""
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
                return list(self.unknown(node, f"`{_text(node)}` is not followed"))

    def number(self, node: Node) -> int | None:
        """The value of an arithmetic expression; None if it is unknown."""
        match node.type:
            case "number":
                return _int(_text(node))
            case "parenthesized_expression":
                inside = [each for each in node.children if each.is_named]
                return self.number(inside[0]) if len(inside) == 1 else None
            case "unary_expression":
                value = self.number(node.children[-1])
                sign = {"-": -1, "+": 1}.get(_text(node.children[0]))
                return None if value is None or sign is None else sign * value
            case "binary_expression":
                a, b = self.number(node.children[0]), self.number(node.children[-1])
                return None if a is None or b is None else _arithmetic(_text(node.children[1]), a, b)
            case "variable_name" | "word":
                value_of = self.variables.get(_text(node))
                return None if not value_of or unknown_of(value_of[0]) else _int(text_of(value_of[0]))
            case "simple_expansion" | "expansion" | "string" | "concatenation":
                text = self.known(node)
                return None if text is None else _int(text)
            case _:
                return None


_UNSET = "\0"
"""Begins the reason of a variable that is not set."""
_SHELLS = frozenset(("sh", "bash", "/bin/bash", "/bin/sh"))
_STARTERS = ("sbatch", "bash", "sh", "exec")
_TESTS = frozenset(("test_command", "negated_command"))
_BRACKETS = frozenset(("[", "]", "[[", "]]", "((", "))", "(", ")"))
_REDIRECTIONS = frozenset(("file_redirect", "herestring_redirect", "heredoc_redirect"))


def reason(unknown: str) -> str:
    """Why something is unknown, for people."""
    return unknown.removeprefix(_UNSET)


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


def _together(holds: list[bool | None], *, wanted: bool) -> bool | None:
    """Whether all of the conditions hold, if that is ``wanted``, else whether one does; None if it is unknown."""
    if (not wanted) in holds:
        return not wanted
    return None if None in holds else wanted


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


def _text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def _clauses(node: Node) -> Iterator[tuple[list[Node], list[Node]]]:
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


def _assignments(node: Node) -> Iterator[Node]:
    if node.type == "variable_assignment":
        yield node
        return
    for each in node.children:
        yield from _assignments(each)

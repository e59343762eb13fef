"""The training program that a script starts, and on how many accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors
from syncline.jobs.launch.words import Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from syncline.jobs.launch.commands import Command, Script

_NODES = ("--nnodes", "--nodes", "-N", "--num_nodes", "--num-nodes")
_EACH = (
    "--nproc_per_node",
    "--nproc-per-node",
    "--ntasks-per-node",
    "--gpus-per-node",
    "--num_gpus",
    "--num-gpus",
    "--npernode",
)
_ALL = ("--ntasks", "-n", "-np", "--np", "--gpus")


@dataclass(frozen=True, slots=True)
class Launch:
    """How a training program is started."""

    arguments: tuple[Word, ...]
    """What the program is given."""
    gpus: int | None
    """Accelerators; None if the script does not say how many."""
    said: str
    """What says how many."""
    mark: Mark | None
    """Where it is written."""


def launch(script: Script, path: str, known: Iterable[str]) -> Launch:
    """The training command of a script: the one whose arguments have ``known`` names.

    :raises SynclineError: there is none, or there are several that differ.
    """
    names = frozenset(known)
    found: dict[tuple[str, ...], tuple[Command, tuple[Word, ...]]] = {}
    for command in script.commands:
        said = command.words
        if any(each.text.partition("=")[0] in names for each in said):
            found.setdefault(tuple(each.text for each in said), (command, said))
    whole = Mark(Text(path, ()), 0, 0, 0)
    if not found:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "no command of this script starts a training",
                mark=whole,
                allowed=f"a command with arguments such as {', '.join(sorted(names)[:3])}",
                notes=[f"line {mark.line}: {what}" for what, mark in script.unread],
                help="give the script that does, or the arguments themselves after `--`",
            )
        )
    if len(found) > 1:
        lines = ", ".join(str(command.mark.line) for command, _ in found.values())
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"several commands start a training, in lines {lines}",
                mark=next(iter(found.values()))[0].mark,
                help="give the arguments of one of them after `--`",
            )
        )
    (said,) = (said for _, said in found.values())
    first = next(index for index, each in enumerate(said) if each.text.partition("=")[0] in names)
    # The program stands before the arguments, and what starts it before the program.
    program = max((index for index in range(first) if said[index].text.endswith(".py")), default=None)
    begin = first if program is None else program + 1
    return Launch(said[begin:], *_gpus(said[:begin], script.batch))


def _gpus(words: Sequence[Word], batch: Mapping[str, Word]) -> tuple[int | None, str, Mark | None]:
    """The number of accelerators that launch options give, the names of these options, and their place."""
    options: dict[str, Word] = {}
    for index, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if not name.startswith("-"):
            continue
        if equals:
            options[name] = Word(value, word.mark)
        elif index + 1 < len(words) and not words[index + 1].unknown:
            options[name] = Word(words[index + 1].text, word.mark)
    for name, word in batch.items():
        options.setdefault(f"--{name}", word)
    if "--gres" in options and options["--gres"].text.startswith("gpu"):
        gres = options["--gres"]
        options.setdefault("--gpus-per-node", Word(gres.text.rpartition(":")[2], gres.mark))
    nodes, each = _first(options, _NODES), _first(options, _EACH)
    if each is not None:
        # A launcher without a number of servers runs on one.
        name, count, mark = each
        said = f"{name} {count}" + (f", {nodes[0]} {nodes[1]}" if nodes else "")
        return count * (nodes[1] if nodes else 1), said, mark
    whole = _first(options, _ALL)
    return (None, "", None) if whole is None else (whole[1], f"{whole[0]} {whole[1]}", whole[2])


def _first(options: Mapping[str, Word], names: Iterable[str]) -> tuple[str, int, Mark] | None:
    for name in names:
        value = options[name].text if name in options else ""
        if value.isdigit() and 0 < int(value) < 1 << 20:
            return name, int(value), options[name].mark
    return None

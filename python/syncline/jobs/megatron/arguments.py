"""Arguments of Megatron-LM: how many values each has, and whether time and memory depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

from syncline.codes import Code
from syncline.input.base import Strict
from syncline.input.check import Whole, check
from syncline.input.problem import error, nearest
from syncline.input.source import from_file
from syncline.jobs.launch.expansions import reason
from syncline.jobs.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from syncline.errors import Diagnostic
    from syncline.input.node import Mark
    from syncline.jobs.launch.words import Word

FILE = "megatron-arguments.yaml"


class Known(Strict):
    """The arguments that are known, without their dashes."""

    flags: list[str]
    """Those without a value."""
    several: list[str]
    """Those with several values."""
    one: list[str]
    """Those with one."""
    legacy: list[str]
    """Those that only versions before Megatron Core have."""
    without_effect: list[str]
    """Those on which time and memory do not depend."""
    not_modelled: list[str]
    """Those on which they depend in ways that estimates do not have."""
    refused: dict[str, list[str]]
    """Those of jobs that cannot be estimated, by what these are."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of Megatron-LM."""

    known: Known

    @cached_property
    def values(self) -> Mapping[str, int | None]:
        """The number of values of each argument; None for several."""
        known = self.known
        return {
            **dict.fromkeys(known.flags, 0),
            **dict.fromkeys(known.several, None),
            **dict.fromkeys(known.one, 1),
        }

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """Why an argument is refused."""
        return {name: why for why, names in self.known.refused.items() for name in names}

    @cached_property
    def without_effect(self) -> frozenset[str]:
        """Arguments on which time and memory do not depend."""
        return frozenset(self.known.without_effect)

    @cached_property
    def not_modelled(self) -> frozenset[str]:
        """Arguments on which they depend in ways that estimates do not have."""
        return frozenset(self.known.not_modelled)

    @cached_property
    def mapped(self) -> frozenset[str]:
        """All others."""
        return frozenset(self.values) - self.without_effect - self.not_modelled - frozenset(self.refused)


@cache
def arguments() -> Arguments:
    """The arguments of Megatron-LM, by the package's file."""
    path = files("syncline") / "data" / FILE
    return Arguments(check(from_file(str(path)), Known, Whole("the file of arguments")))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command line."""

    found: Mapping[str, Setting]
    """Settings by the names of arguments."""
    ignored: Sequence[Setting]
    """Those that the user leaves out."""
    repeated: Sequence[Setting]
    """Those that come again later."""
    problems: Sequence[Diagnostic]


def parse(words: Sequence[Word], ignored: Iterable[str] = ()) -> Parsed:
    """The settings of a command line, and all problems.

    The last one of an argument that is repeated counts, as in Python's ``argparse``.
    """
    left_out = {each.lstrip("-") for each in ignored}
    known = arguments()
    found: dict[str, Setting] = {}
    skipped: list[Setting] = []
    repeated: list[Setting] = []
    problems: list[Diagnostic] = []
    at = 0
    while at < len(words):
        word = words[at]
        stem, equals, value = word.text.partition("=")
        if not _is_name(word):
            problems.append(_stray(word))
            at += 1
            continue
        name = stem[2:]
        given = [_at(word, value)] if equals else []
        following = at + 1
        while following < len(words) and not equals and not _is_name(words[following]):
            given.append(words[following])
            following += 1
        if name in left_out:
            skipped.append(_setting(stem, given, word.mark))
        elif name not in known.values:
            problems.append(_unknown(stem, word.mark))
        else:
            count = known.values[name]
            # Values that the shell has split by mistake do no harm where none has an effect.
            if count is not None and len(given) > count and name not in known.without_effect:
                problems += [_stray(each, after=stem) for each in given[count:] if not each.unknown]
                given = given[:count]
            if count == 1 and not given:
                message = f"`{stem}` has no value"
                problems.append(error(Code.BAD_VALUE, message, mark=word.mark, key=stem, help=f"write {stem} VALUE"))
            else:
                if name in found:
                    repeated.append(found.pop(name))
                found[name] = _setting(stem, given, word.mark, several=count is None or len(given) > 1)
        at = following
    return Parsed(found, skipped, repeated, problems)


def _is_name(word: Word) -> bool:
    return word.text.startswith("--") and len(word.text) > 2


def _at(word: Word, value: str) -> Word:
    from syncline.jobs.launch.words import Word

    return Word(value, word.mark, word.unknown)


def _setting(stem: str, given: Sequence[Word], mark: Mark, *, several: bool = False) -> Setting:
    unknown = next((each.unknown for each in given if each.unknown), None)
    texts = [each.text for each in given]
    value = texts if several else texts[0] if texts else True
    said = " ".join([stem, *texts])
    return Setting(value, said, mark, None if unknown is None else reason(unknown))


def _unknown(stem: str, mark: Mark) -> Diagnostic:
    known = arguments()
    near = nearest(stem[2:], known.values, likeness=0.7)
    return error(
        Code.UNKNOWN_KEY,
        f"unknown argument of Megatron `{stem}`",
        mark=mark,
        key=stem,
        found=stem,
        nearest=None if near is None else f"--{near}",
        help=None if near else f"if neither time nor memory depends on it, add --ignore {stem[2:]}",
    )


def _stray(word: Word, after: str | None = None) -> Diagnostic:
    where = f" after `{after}`" if after else ""
    return error(
        Code.BAD_VALUE,
        f"`{word.text}`{where} is neither an argument nor the value of one",
        mark=word.mark,
        found=word.text,
        help="remove it, or put the name of its argument before it",
    )

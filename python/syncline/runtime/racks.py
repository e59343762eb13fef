"""Reads the rack of each rank from a list or a file, and checks that racks can be the groups of a plan."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from syncline.codes import Code
from syncline.input.node import Mark, Text
from syncline.input.problem import error, raise_errors, shown
from syncline.input.source import read_file

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from syncline.runtime.settings import Rule

    RackMap: TypeAlias = Sequence[int] | str | Path
    """The rack of each rank, or the name of a file with one line for each rack."""

BY_RACK = "two_level"
"""The plan whose groups are racks if its rule gives no group size."""

LINE = "RANKS, such as 0 1 2 3, or HUBS : RANKS, such as 10.0.0.9 : 0 1"
"""The forms that a line of a file may have."""

_NO_SIZE = re.compile(rf"\s*{BY_RACK}\s*(\([\s,]*\)\s*)?")
_RANK = re.compile(r"[0-9]{1,9}")
_NAMED = 8
"""Maximum number of ranks that an error lists."""


@dataclass(frozen=True)
class Rack:
    """A line of a file of racks."""

    ranks: list[int]
    hubs: list[str]
    """Addresses of the parameter hubs in the rack, if any."""
    mark: Mark | None = field(default=None, compare=False, repr=False)
    """The place of the line in the file."""


def read(file: str | Path) -> list[Rack]:
    """Reads racks from a file with one line for each rack: its ranks, preceded by the addresses of its hubs, if any.

    A colon with spaces around it separates hubs from ranks. ``#`` begins a comment::

        0 1 2 3
        10.0.1.9 : 4 5 6 7

    Raises ``SynclineError`` if a line has another form, or if a rank is in two racks or in none.
    """
    text = Text(str(file), read_file(str(file)).splitlines())
    racks: list[Rack] = []
    place: dict[int, int] = {}
    for number in range(1, len(text.lines) + 1):
        words = list(re.finditer(r"\S+", text.lines[number - 1].partition("#")[0]))
        if not words:
            continue
        rack, marks = _rack(words, text, number)
        for rank, mark in zip(rack.ranks, marks, strict=True):
            if rank in place:
                twice = "named twice" if place[rank] == number else "in two racks"
                first = f"line {place[rank]} names it first"
                raise_errors(
                    error(Code.BAD_VALUE, f"rank {rank} is {twice}", mark=mark, allowed="each rank once", notes=[first])
                )
            place[rank] = number
        racks.append(rack)
    whole = Mark(text, 0, 0, 0)
    if not racks:
        raise_errors(error(Code.BAD_VALUE, "the file has no racks", mark=whole, allowed=f"in each line {LINE}"))
    if max(place) >= len(place):
        help = "ranks are numbered from 0, and each must be in a rack"
        raise_errors(error(Code.BAD_VALUE, _left_out(place, max(place)), mark=whole, help=help))
    return racks


def _rack(words: Sequence[re.Match[str]], text: Text, number: int) -> tuple[Rack, list[Mark]]:
    """Parses a line: returns its rack, and the place of each of its ranks."""
    said = [word[0] for word in words]
    colon = said.index(":") if ":" in said else None
    ranks = words if colon is None else words[colon + 1 :]
    whole = Mark(text, number, words[0].start() + 1, words[-1].end() - words[0].start())
    wrong = next((word for word in ranks if not _RANK.fullmatch(word[0])), None)
    if wrong is not None or not ranks or colon == 0:
        mark = whole if wrong is None else Mark(text, number, wrong.start() + 1, len(wrong[0]))
        found = " ".join(said) if wrong is None else wrong[0]
        raise_errors(error(Code.BAD_VALUE, "this is not a rack", mark=mark, found=shown(found), allowed=LINE))
    marks = [Mark(text, number, word.start() + 1, len(word[0])) for word in ranks]
    return Rack([int(word[0]) for word in ranks], said[: colon or 0], whole), marks


def _left_out(place: Container[int], last: int) -> str:
    """Returns a message that lists the ranks up to ``last`` that are not in ``place``."""
    missing = list(islice((rank for rank in range(last + 1) if rank not in place), _NAMED + 1))
    if len(missing) == 1:
        return f"rank {missing[0]} is in no rack"
    more = " and more" if len(missing) > _NAMED else ""
    return f"ranks {', '.join(map(str, missing[:_NAMED]))}{more} are in no rack"


def places(racks: Sequence[Rack]) -> list[int]:
    """Returns the rack of each rank."""
    place = {rank: number for number, rack in enumerate(racks) for rank in rack.ranks}
    return [place[rank] for rank in sorted(place)]


def of_ranks(racks: RackMap, world: int) -> list[int]:
    """Returns the rack of each of ``world`` ranks.

    Raises ``SynclineError`` if ``racks`` does not have exactly these ranks.
    """
    if isinstance(racks, (str, Path)):
        found, mark = places(read(racks)), Mark(Text(str(racks), ()), 0, 0, 0)
    else:
        found, mark = _listed(racks), None
    if len(found) != world:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "the racks do not match the job's ranks",
                mark=mark,
                key="racks",
                found=f"{len(found)} ranks",
                allowed=f"each of {world} ranks once",
                notes=[_left_out(range(len(found)), world - 1)] if len(found) < world else [],
            )
        )
    return found


def _listed(racks: Any) -> list[int]:
    """Checks and returns the racks of ranks that are given as a list."""
    if not isinstance(racks, Iterable) or isinstance(racks, (Mapping, Set, bytes, bytearray)):
        _no_racks(shown(racks))
    found = []
    for rank, rack in enumerate(racks):
        try:
            found.append(operator.index(rack))
        except TypeError:
            _no_racks(f"{shown(rack)} for rank {rank}")
        if not 0 <= found[-1] < 1 << 32:
            _no_racks(f"{shown(rack)} for rank {rank}")
    return found


def _no_racks(found: str) -> NoReturn:
    raise_errors(
        error(
            Code.BAD_VALUE,
            "this is not a list of racks",
            key="racks",
            found=found,
            allowed="the number of each rank's rack, such as [0, 0, 1, 1]",
            help="or give the name of a file that lists the ranks of one rack in each line",
        )
    )


def by_rack(rule: Rule) -> bool:
    """Whether the groups of a rule's plan are racks, because the rule gives no group size."""
    return isinstance(rule.algorithm, str) and _NO_SIZE.fullmatch(rule.algorithm) is not None


def group_size(of: Sequence[int]) -> int | None:
    """Returns the number of ranks in a rack, given the rack of each rank, if racks can be the groups of a plan.

    All racks must have that size, except that one may be smaller; otherwise returns ``None``.
    """
    sizes = sorted(Counter(of).values(), reverse=True)
    return sizes[0] if len(set(sizes[:-1])) <= 1 else None


def check(rules: Iterable[Rule], of: Sequence[int]) -> None:
    """Raises ``SynclineError`` if a rule uses racks as groups and they differ in size; one rack may be smaller."""
    if group_size(of) is None and any(map(by_rack, rules)):
        sizes = sorted(Counter(of).values(), reverse=True)
        raise_errors(
            error(
                Code.BAD_VALUE,
                "racks that differ in size cannot be the groups of a two-level plan",
                key="racks",
                found=f"racks of {', '.join(map(str, sizes))} ranks",
                allowed=f"racks of one size, except for one smaller rack; {BY_RACK}(group=N); or another plan",
            )
        )

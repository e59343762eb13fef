"""Which rack each rank is in, as a list or a file says, and what follows from it for plans."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from syncline.runtime.memory import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.runtime.settings import Rule

    RackMap: TypeAlias = Sequence[int] | str | Path
    """The rack of each rank, or a file that says so."""

BY_RACK = "two_level"
"""The plan whose groups are racks, where its rule names no size of groups."""


@dataclass(frozen=True)
class Rack:
    """A line of a file of racks."""

    ranks: list[int]
    hubs: list[str]
    """Addresses of parameter hubs in the rack, where there are any."""


def read(file: str | Path) -> list[Rack]:
    """Racks of a file, a line for each: its ranks, and before them the addresses of its hubs, if it has some.

    A colon between blanks ends the hubs, and ``#`` begins a comment::

        0 1 2 3
        10.0.1.9 : 4 5 6 7

    Raises ``SynclineError`` where a line is something else, or a rank is in two racks or none.
    """
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise refusal("the racks cannot be read", f"{file}: {error}", "RANKS or HUBS : RANKS in each line") from error
    racks: list[Rack] = []
    place: dict[int, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        head, colon, tail = f" {text}".partition(" : ")
        rack = Rack(_ranks(tail if colon else head), head.split() if colon else [])
        if not rack.ranks or (colon and not rack.hubs):
            found = f"{file}, line {number}: {text}"
            raise refusal("this is no rack", found, "RANKS, such as 0 1 2 3, or HUBS : RANKS, such as 10.0.0.9 : 0 1")
        for rank in rack.ranks:
            if rank in place:
                found = f"{file}, lines {place[rank]} and {number}"
                raise refusal(f"rank {rank} is in two racks", found, "each rank once")
            place[rank] = number
        racks.append(rack)
    if not place or sorted(place) != list(range(len(place))):
        raise refusal("racks have ranks 0 and up, each in one", f"{file}: {sorted(place)}", "no rank is left out")
    return racks


def _ranks(text: str) -> list[int]:
    """The numbers of a line, or none where something else stands there."""
    words = text.split()
    return [int(word) for word in words] if all(word.isascii() and word.isdecimal() for word in words) else []


def places(racks: Sequence[Rack]) -> list[int]:
    """The rack of each rank, from all racks."""
    place = {rank: number for number, rack in enumerate(racks) for rank in rack.ranks}
    return [place[rank] for rank in sorted(place)]


def of_ranks(racks: RackMap, world: int) -> list[int]:
    """The rack of each of ``world`` ranks.

    Raises ``SynclineError`` where others are given.
    """
    if isinstance(racks, (str, Path)):
        found, where = places(read(racks)), f"{racks}: "
    else:
        found, where = list(racks), ""
    if len(found) != world:
        raise refusal("racks are not those of the job", f"{where}{len(found)} ranks", f"each of {world} ranks once")
    return found


def order(of: Sequence[int]) -> list[int]:
    """Ranks with those of a rack side by side, large racks first, from the rack of each rank."""
    sizes = Counter(of)
    return sorted(range(len(of)), key=lambda rank: (-sizes[of[rank]], of[rank]))


def grouped(rules: Iterable[Rule], of: Sequence[int]) -> list[Rule]:
    """Rules whose two-level plans have racks as groups, unless they say otherwise.

    Raises ``SynclineError`` where racks cannot be groups: all are as large, but for one that may be smaller.
    """
    sizes = sorted(Counter(of).values(), reverse=True)

    def named(rule: Rule) -> Rule:
        if rule.algorithm != BY_RACK:
            return rule
        if len(set(sizes[:-1])) > 1:
            raise refusal(
                "racks that differ in size cannot be the groups of a two-level plan",
                f"racks of {', '.join(map(str, sizes))} ranks",
                f"racks of one size, but for a smaller one; {BY_RACK}(group=N); or another plan",
            )
        return replace(rule, algorithm=f"{BY_RACK}(group={sizes[0]})")

    return [named(rule) for rule in rules]

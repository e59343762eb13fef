"""Files of groups: YAML with the hosts of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from syncline.codes import Code
from syncline.files import write_whole
from syncline.input.base import Strict
from syncline.input.check import Whole, check, in_order
from syncline.input.dump import dump
from syncline.input.problem import cannot_write, error, nearest, raise_errors
from syncline.input.source import from_file
from syncline.schemas import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.grouping.grouping import Grouping
    from syncline.input.source import Source

_Host = Annotated[str, Field(min_length=1)]


class GroupsFile(Strict):
    """A file of groups. Only ``groups`` is required, so that files can be written by hand."""

    schema_: Annotated[Literal["syncline-groups/1"], Field(alias="schema")] = GROUPS
    """Version of the schema."""
    source: str = ""
    """The file of the measurements."""
    method: str = ""
    """How the groups were found."""
    seed: int = 0
    """Seed of the search."""
    score: float | None = None
    """Probability that a pair in one group is nearer than a pair of different groups."""
    p_value: float | None = None
    """Probability of that score if groups meant nothing."""
    agreement: float | None = None
    """Adjusted Rand index with Ward's method."""
    groups: Annotated[list[Annotated[list[_Host], Field(min_length=1)]], Field(min_length=1)]
    """Names of the hosts of each group."""


def save(found: Grouping, path: str) -> None:
    """Writes groups to a file.

    :raises SynclineError: the file cannot be written.
    """
    content = {
        "schema": GROUPS,
        "source": found.source,
        "method": found.method,
        "seed": found.seed,
        "score": found.score,
        "p_value": found.p_value,
        "agreement": found.agreement,
        "groups": [[found.hosts[host] for host in group] for group in found.members],
    }
    try:
        write_whole(path, dump(content))
    except OSError as problem:
        raise_errors(cannot_write(path, problem))


def read(path: str, hosts: Iterable[str] | None = None, *, equal: bool = False) -> list[list[str]]:
    """Reads the hosts of each group from a file.

    ``hosts`` are those that the groups must consist of; without them, any hosts may be in groups. ``equal`` requires
    groups of one size.

    :raises SynclineError: the file cannot be read or is malformed, a host is in two groups, unknown or missing, or
        groups have different sizes although ``equal`` is set.
    """
    source = from_file(path)
    groups = check(source, GroupsFile, Whole("the file of groups")).groups
    known = None if hosts is None else list(hosts)
    if known is not None:
        _refuse_others(source, groups, known)
    problems = []
    place: dict[str, int] = {}
    for at, group in enumerate(groups):
        for position, host in enumerate(group):
            mark = source.mark(("groups", at, position))
            if host in place:
                where = f"group {place[host]} has it as well" if place[host] != at else f"group {at} names it twice"
                problems.append(
                    error(Code.BAD_DISTANCES, "a host is in groups twice", mark=mark, found=host, notes=[where])
                )
            elif known is not None and host not in known:
                near = nearest(host, known)
                problems.append(error(Code.BAD_DISTANCES, "unknown host", mark=mark, found=host, nearest=near))
            place.setdefault(host, at)
    whole = source.mark(("groups",), key=True)
    if missing := [host for host in known or () if host not in place]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        problems.append(
            error(
                Code.BAD_DISTANCES,
                "a host is in no group",
                mark=whole,
                found=f"{missing[0]}{more}",
                help="add it to a group",
            )
        )
    sizes = sorted({len(group) for group in groups})
    if equal and len(sizes) > 1:
        problems.append(
            error(
                Code.BAD_DISTANCES,
                "groups have different sizes",
                mark=whole,
                found=f"{sizes[0]} to {sizes[-1]} hosts",
                allowed="groups of one size",
                help="`syncline group --groups K --balance 0` makes groups of one size if K divides the hosts",
            )
        )
    if problems:
        raise_errors(*in_order(problems))
    return groups


def _refuse_others(source: Source, groups: Sequence[Sequence[str]], known: Sequence[str]) -> None:
    """One error for a file of other hosts, in place of one for each of them."""
    named = list(dict.fromkeys(host for group in groups for host in group))
    if len(named) < 2 or not known or not set(named).isdisjoint(known):
        return
    raise_errors(
        error(
            Code.BAD_DISTANCES,
            "the groups are of other hosts",
            mark=source.mark(("groups",), key=True),
            found=_few(named),
            allowed=_few(known),
            help="give the measurements that the groups were found from, or find groups with `syncline group`",
        )
    )


def _few(hosts: Sequence[str]) -> str:
    """The first hosts, and how many there are."""
    if len(hosts) <= _SHOWN:
        return ", ".join(hosts)
    return f"{', '.join(hosts[:_SHOWN])} and {len(hosts) - _SHOWN} more"


_SHOWN = 4
"""The most hosts that an error lists."""

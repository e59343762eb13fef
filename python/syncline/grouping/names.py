"""Names of hosts that fit into a picture or a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 16
"""The most letters of a name."""


def short(names: Sequence[str]) -> list[str]:
    """Short names of hosts, in the same order. No two are equal if no two names are.

    If some name is too long, all lose the domain that they share, and the parts before it that they share. Names
    that are still too long lose their beginnings, since names tend to differ in their last letters, or else their ends.
    If both make names equal, hosts have their numbers in the order of the file, such as ``#17``.
    """
    found = list(names)
    if max(map(len, found), default=0) > LONGEST and len(found) > 1:
        found = [".".join(parts) for parts in _without_shared([name.split(".") for name in found])]
    for cut in (_end, _beginning):
        shown = [name if len(name) <= LONGEST else cut(name) for name in found]
        if len(set(shown)) == len(set(names)):
            return shown
    return [f"#{number}" for number in range(len(names))]


def _end(name: str) -> str:
    return f"…{name[1 - LONGEST :]}"


def _beginning(name: str) -> str:
    return f"{name[: LONGEST - 1]}…"


def _without_shared(parts: list[list[str]]) -> list[list[str]]:
    """Lists without the elements that all begin or end with; one element of each stays."""
    for _ in range(2):
        room = min(map(len, parts)) - 1
        shared = next((at for at, same in enumerate(zip(*parts, strict=False)) if len(set(same)) > 1), room)
        parts = [each[min(shared, room) :][::-1] for each in parts]
    return parts

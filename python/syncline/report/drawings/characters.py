"""Draws fabrics with line characters: a picture for each kind of dimension, and lists of neighbours for graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.quantity import counted, rate, time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHOWN = 8
"""Maximum number of members of a dimension that are all drawn."""


def members(count: int, shown: int = SHOWN) -> list[str]:
    """Labels of the members that are drawn: ``0 1 2 … 63``."""
    if count <= shown:
        return [str(index) for index in range(count)]
    return [*(str(index) for index in range(shown - 2)), "…", str(count - 1)]


def ring(count: int, *, one_way: bool) -> list[str]:
    """A row of members, and a line from the last back to the first."""
    row = ("──▶" if one_way else "───").join(members(count))
    if count < 3:
        return [f"{row}──▶0" if one_way and count == 2 else row]
    inside = len(row) - 2
    return [row, f"{'▲' if one_way else '│'}{' ' * inside}│", f"└{'─' * inside}┘"]


def fully_connected(count: int) -> list[str]:
    """A row of members above one wide line."""
    names = members(count)
    row = "   ".join(names)
    return ["───".join(names)] if count < 3 else [row, f"{'═' * len(row)}  every pair is joined"]


def switch(count: int, switches: int) -> list[str]:
    """Members under a switch."""
    names = members(count)
    label = "switch" if switches == 1 else f"{switches} switches, each joined to all"
    row, line = "", ""
    for index, name in enumerate(names):
        corner = "│" if count == 1 else "┌" if index == 0 else "┐" if index == len(names) - 1 else "┬"
        gap = 0 if index == 0 else 3
        row, line = row + " " * gap + name, line + "─" * (len(row) + gap - len(line)) + corner
    return [label, line, row]


def dimension(dim: dict[str, Any]) -> list[str]:
    """The picture of one dimension."""
    match dim["kind"]:
        case "ring":
            return ring(dim["size"], one_way=dim["one_way"])
        case "fully_connected":
            return fully_connected(dim["size"])
        case _:
            return switch(dim["size"], dim["count"])


def describe(dim: dict[str, Any]) -> str:
    """Describes in words how the members of a dimension are joined."""
    size, count = dim["size"], dim["count"]
    match dim["kind"]:
        case "ring":
            ways = "one way" if dim["one_way"] else "both ways"
            what = f"{counted(count, 'ring')} of {size}, {ways}"
        case "fully_connected":
            what = f"all {size} joined" + (f" by {count} links a pair" if count > 1 else "")
        case _:
            by = ", chosen by the pair" if count > 1 and dim["spread"] == "pair" else ""
            what = f"{size} on {'a switch' if count == 1 else f'{count} switches'}{by}"
    return what


def graph(links: Sequence[dict[str, Any]], total: int) -> Iterator[str]:
    """The neighbours of each vertex; a link in both directions is drawn once, at the vertex listed first."""
    seen: set[tuple[str, str]] = set()
    both = {(link["from"], link["to"]) for link in links}
    rows: dict[str, list[str]] = {}
    for link in links:
        ends = (link["from"], link["to"])
        if ends[::-1] in seen:
            continue
        seen.add(ends)
        arrow = "───" if ends[::-1] in both else "──▶"
        rows.setdefault(ends[0], []).append(
            f"{arrow} {ends[1]}  {rate(link['rate_bytes_per_s'])}, {time(link['latency_s'])}"
        )
    for vertex, targets in rows.items():
        for index, target in enumerate(targets):
            last = index == len(targets) - 1
            if index == 0:
                yield f"{vertex} {'─' if last else '┬'}{target}"
            else:
                yield f"{' ' * len(vertex)} {'└' if last else '├'}{target}"
    if total > len(links):
        yield f"… and {total - len(links)} more directed links"

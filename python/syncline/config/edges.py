"""Resolves fabrics given link by link: turns names of vertices into numbers, and reads files of links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.config.built import Ecmp
from syncline.config.edges_csv import read
from syncline.config.fabric import FileFabric, GraphFabric, Link
from syncline.input import limits
from syncline.input.check import Whole, check, in_order
from syncline.input.node import Path, dotted
from syncline.input.problem import error, nearest, raise_errors
from syncline.input.source import Source, from_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.config.origin import Origins
    from syncline.errors import Diagnostic


def graph(
    fabric: GraphFabric, origins: Origins, source: Source, at: Path, paths: tuple[Source, Path] | None = None
) -> dict[str, Any]:
    """The resolved form of a fabric whose values are at ``at`` in ``source``, and its routing at ``paths`` if given."""
    npus, switches = _vertices(fabric.npus, "npu"), _vertices(fabric.switches, "switch")
    numbers = {name: number for number, name in enumerate([*npus, *switches])}
    problems: list[Diagnostic] = []

    def number(vertex: str | int, path: Path, source: Source = source) -> int:
        found = numbers.get(vertex) if isinstance(vertex, str) else vertex
        if found is not None and found < len(npus) + len(switches):
            return found
        listed = len(numbers) <= 12
        near = nearest(str(vertex), numbers) if len(numbers) < 10_000 else None
        names = ", ".join(numbers) if listed else f"{next(iter(numbers))} to {next(reversed(numbers))}"
        problems.append(
            error(
                Code.BAD_FABRIC,
                "no such vertex",
                mark=source.mark(path),
                key=dotted(path),
                found=str(vertex),
                allowed=f"{names}, or a number below {len(npus) + len(switches)}",
                nearest=near,
                help=None if near else "list your own names under `npus` and `switches`",
            )
        )
        return 0

    links: list[dict[str, Any]] = []
    first: dict[tuple[Any, ...], int] = {}
    for index, link in enumerate(fabric.links):
        path = (*at, "links", index)
        known = len(problems)
        ends = number(link.from_, (*path, "from")), number(link.to, (*path, "to"))
        if ends[0] == ends[1] and len(problems) == known:
            to = (*path, "to")
            problems.append(
                error(
                    Code.BAD_FABRIC,
                    "a link joins a vertex with itself",
                    mark=source.mark(to),
                    key=dotted(to),
                    found=str(link.to),
                    allowed="a vertex other than that of `from`",
                )
            )
        # A link that repeats an earlier one is far more often a mistake than a second cable; `count` gives those.
        same = (*(sorted(ends) if link.duplex else ends), link.duplex, *_speed(link))
        if first.setdefault(same, index) != index and len(problems) == known:
            problems.append(_again(source, path, (*at, "links", first[same])))
        cables = link.count if len(links) <= 2 * limits.MAX_EDGES else 1
        for start, end in ((ends, ends[::-1]) if link.duplex else (ends,)) * cables:
            for prefix in (("fabric", "links"), ("fabric", "graph", "links")):
                origins.move((*prefix, len(links)), path, source)
            links.append({"from": start, "to": end, "rate": link.rate, "latency": link.latency})
    if len(links) > 2 * limits.MAX_EDGES:
        links_at = (*at, "links")
        problems.append(
            error(
                Code.BAD_FABRIC,
                "a fabric has too many links",
                mark=source.mark(links_at, key=True),
                key=dotted(links_at),
                found=f"{len(links)} directed links, parallel ones included",
                allowed=f"at most {2 * limits.MAX_EDGES}",
            )
        )
    routing: Any = fabric.routing
    route_source, route_at = paths or (source, (*at, "routing"))
    if isinstance(fabric.routing, list):
        routing = {
            "explicit": [
                [number(vertex, (*route_at, row, column), route_source) for column, vertex in enumerate(path)]
                for row, path in enumerate(fabric.routing)
            ]
        }
    elif fabric.routing != "shortest":
        routing = {"ecmp": {"seed": fabric.routing.seed if isinstance(fabric.routing, Ecmp) else None}}
    for key in ("npus", "switches"):
        origins.move(("fabric", "graph", key), (*at, key), source)
    for resolved in (("fabric", "graph", "routing"), ("fabric", "graph", "routing", "explicit")):
        origins.move(resolved, route_at, route_source)
    if problems:
        raise_errors(*in_order(problems))
    made: dict[str, Any] = {"npus": len(npus), "switches": len(switches), "links": links, "routing": routing}
    if isinstance(fabric.npus, list) or isinstance(fabric.switches, list):
        made["names"] = [*npus, *switches]
    if not fabric.forward:
        made["ends_only"] = True
    return made


def _speed(link: Link) -> tuple[int, int]:
    """Rate and latency as numbers, so that 1GB/s equals 8Gb/s."""
    return _core.parse_quantity("rate", link.rate), _core.parse_quantity("time", link.latency)


def _again(source: Source, path: Path, before: Path) -> Diagnostic:
    """The error for a link that is given twice."""
    earlier = source.mark(before)
    line = f"line {earlier.line}" if earlier is not None and earlier.line else dotted(before)
    return error(
        Code.BAD_FABRIC,
        "a link is given twice",
        mark=source.mark(path),
        key=dotted(path),
        notes=[f"the first is in {line}"],
        help="remove it, or give one link with `count: 2` for two parallel cables",
    )


def _vertices(given: int | Sequence[str], word: str) -> Sequence[str]:
    return [f"{word}{index}" for index in range(given)] if isinstance(given, int) else given


def read_edges(fabric: FileFabric, origins: Origins) -> dict[str, Any]:
    """The resolved form of a fabric that is in a separate file."""
    path = origins.source.relative(fabric.file)
    if path.lower().endswith((".yaml", ".yml", ".json")):
        for key in ("npus", "switches"):
            if getattr(fabric, key) is not None:
                at = ("fabric", key)
                mark = origins.source.mark(at, key=True)
                raise_errors(error(Code.BAD_VALUE, f"a YAML file gives its own `{key}`", mark=mark, key=dotted(at)))
        source = from_file(path)
    else:
        source = read(path, fabric)
    paths = None
    routing = origins.source.root.at(("fabric", "routing"))
    if routing is not None and isinstance(source.root.value, dict):
        # The scenario's routing replaces the file's.
        source.root.value["routing"] = routing
        paths = origins.source, ("fabric", "routing")
    return graph(check(source, GraphFabric, Whole("the file")), origins, source, (), paths)

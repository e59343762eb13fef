"""Fabrics given link by link: names of vertices into numbers, files of links into fabrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.config.check import check, in_order
from syncline.config.edges_csv import read
from syncline.config.fabric import FileFabric, GraphFabric
from syncline.config.node import Path, dotted
from syncline.config.problem import error, nearest, refuse
from syncline.config.source import Source, from_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.config.origin import Origins
    from syncline.errors import Diagnostic


def graph(
    fabric: GraphFabric, origins: Origins, source: Source, at: Path, paths: tuple[Source, Path] | None = None
) -> dict[str, Any]:
    """The resolved form of a fabric whose values stand at ``at`` in ``source``; its routing may stand at ``paths``."""
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
                "SL0201",
                "no such vertex",
                mark=source.mark(path),
                key=dotted(path),
                found=str(vertex),
                allowed=f"{names}, or a number below {len(npus) + len(switches)}",
                nearest=near,
                help=None if near else "names of your own are listed under `npus` and `switches`",
            )
        )
        return 0

    links: list[dict[str, Any]] = []
    for index, link in enumerate(fabric.links):
        path = (*at, "links", index)
        known = len(problems)
        ends = number(link.from_, (*path, "from")), number(link.to, (*path, "to"))
        if ends[0] == ends[1] and len(problems) == known:
            to = (*path, "to")
            problems.append(
                error(
                    "SL0201",
                    "a link joins a vertex with itself",
                    mark=source.mark(to),
                    key=dotted(to),
                    found=str(link.to),
                    allowed="another vertex than `from` names",
                )
            )
        for start, end in (ends, ends[::-1]) if link.duplex else (ends,):
            for prefix in (("fabric", "links"), ("fabric", "graph", "links")):
                origins.move((*prefix, len(links)), path, source)
            links.append({"from": start, "to": end, "rate": link.rate, "latency": link.latency})
    routing: Any = "shortest"
    route_source, route_at = paths or (source, (*at, "routing"))
    if isinstance(fabric.routing, list):
        routing = {
            "explicit": [
                [number(vertex, (*route_at, row, column), route_source) for column, vertex in enumerate(path)]
                for row, path in enumerate(fabric.routing)
            ]
        }
    for key in ("npus", "switches"):
        origins.move(("fabric", "graph", key), (*at, key), source)
    for resolved in (("fabric", "graph", "routing"), ("fabric", "graph", "routing", "explicit")):
        origins.move(resolved, route_at, route_source)
    if problems:
        refuse(*in_order(problems))
    return {"npus": len(npus), "switches": len(switches), "links": links, "routing": routing}


def _vertices(given: int | Sequence[str], word: str) -> Sequence[str]:
    return [f"{word}{index}" for index in range(given)] if isinstance(given, int) else given


def read_edges(fabric: FileFabric, origins: Origins) -> dict[str, Any]:
    """The resolved form of a fabric that stands in a file of its own."""
    path = origins.source.relative(fabric.file)
    if path.lower().endswith((".yaml", ".yml", ".json")):
        for key in ("npus", "switches"):
            if getattr(fabric, key) is not None:
                at = ("fabric", key)
                mark = origins.source.mark(at, key=True)
                refuse(error("SL0102", "a YAML file names its vertices itself", mark=mark, key=dotted(at)))
        source = from_file(path)
    else:
        source = read(path, fabric)
    paths = None
    routing = origins.source.root.at(("fabric", "routing"))
    if routing is not None and isinstance(source.root.value, dict):
        # The scenario's routes take the place of the file's.
        source.root.value["routing"] = routing
        paths = origins.source, ("fabric", "routing")
    return graph(check(source, GraphFabric, whole="the file"), origins, source, (), paths)

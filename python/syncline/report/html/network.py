"""Charts of the use of the network: by dimension, over time, and by link."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from syncline.quantity import counted, listed, npu_name, percent, time
from syncline.report.drawings.characters import describe
from syncline.report.html.chart import Chart, rounded
from syncline.report.html.source import rows_of
from syncline.report.subject import known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.report.html.source import Source, Table

DRAWN_NPUS = 256
"""Maximum number of NPUs of a fabric that is drawn whole. Of a larger one, one group of each dimension is drawn."""

DRAWN_DIMS = 3
"""Maximum number of dimensions of a fabric that is drawn whole: paper has two, and a third can be drawn diagonally."""

DRAWN_EDGES = 4_000
"""Maximum number of pairs of neighbours in a fabric that is drawn whole."""

DRAWN_GROUP = 64
"""Maximum number of NPUs of a group that is drawn."""

STRIP = 160
"""Maximum number of places in the strip of a dimension's links."""


def dimensions(source: Source) -> Chart | None:
    """Utilisation of each dimension over the whole run."""
    dims = source.summary.dims
    if not dims:
        return None
    busy = [(dim.busiest_link_busy, dim.busiest_link) for dim in dims if dim.busiest_link_busy is not None]
    busiest = max(busy, key=lambda each: each[0], default=None)
    used = max(dims, key=lambda dim: dim.utilization)
    return Chart(
        "dimensions",
        "How much of the network is used",
        f"{used.name} is used most: {percent(used.utilization)} of what its links could carry in the whole run."
        + (
            f" The busiest link{known(source.summary)}, {busiest[1]}, sends {percent(busiest[0])} of the time."
            if busiest
            else ""
        ),
        "Utilisation is bytes carried over the bytes that all links of the dimension could have carried: in the whole"
        " run, and in the time in which the dimension had something to send. A message counts on each link that it"
        " takes. A dimension that is far from full while busy loses time to latency and dependencies, not to its rate."
        + (
            " The network model lets messages pass links inside the network at the same time, so these links have no"
            " busy time."
            if len(busy) < len(dims)
            else ""
        ),
        {
            "name": [dim.name for dim in dims],
            "bytes": [dim.carried_bytes for dim in dims],
            "whole": [dim.utilization for dim in dims],
            "busy": [dim.utilization_while_busy for dim in dims],
            "busiest": [dim.busiest_link_busy for dim in dims],
            "link": [dim.busiest_link for dim in dims],
        },
    )


def activity(source: Source) -> Chart | None:
    """Utilisation of compute and of each dimension over time; of each tier of links if the run has a table of tiers."""
    table = source.table("activity", "dimension", *SLICES, "kind")
    if table is None:
        return None
    tiers = source.table("tiers", "tier", "way", *SLICES, "links", "full_links")
    place = {dim.name: number for number, dim in enumerate(source.summary.dims)}
    lanes = []
    # A dimension may be called `compute`, too.
    computes = [row for row, kind in enumerate(table["kind"]) if kind == "compute"]
    if computes:
        lanes.append(_lane("compute", table, computes))
    if not tiers:
        of_dims = rows_of(table["dimension"], [row for row, kind in enumerate(table["kind"]) if kind == "links"])
        for name, rows in of_dims.items():
            lanes.append(_lane(name, table, rows, dimension=place[name]) if name in place else _lane(name, table, rows))
    finding = _fullest(table)
    if tiers:
        of_tiers = rows_of([_way(*each) for each in zip(tiers["tier"], tiers["way"], strict=True)])
        names = list(dict.fromkeys(tiers["tier"]))
        for name, rows in of_tiers.items():
            lanes.append(_lane(name, tiers, rows, dimension=names.index(tiers["tier"][rows[0]])))
        finding = _full(tiers, of_tiers)
    end = max(table["end_s"])
    what = "tier of links" if tiers else "dimension"
    return Chart(
        "activity",
        "Compute and network over time" if computes else "The network over time",
        f"Shown: the first {time(end)} of the run. {finding}",
        f"Filled: bytes carried over the capacity of all links of the {what}, in each slice of time"
        + ("; for compute, the mean share of ranks whose compute is busy" if computes else "")
        + f". Line: the busiest link of the {what}. A {what} whose busiest link is far above its mean is loaded"
        " unevenly."
        + (
            " Up is away from NPUs, down towards them. A link is full if it sends for 99 % of a slice." if tiers else ""
        ),
        {"lanes": lanes},
    )


SLICES = ("start_s", "end_s", "utilization", "busiest_utilization")
"""Columns of a slice of time."""


def _way(tier: str, way: str) -> str:
    """A tier in one direction, in words."""
    return f"{tier} {way}".rstrip()


def _links(tiers: Table, row: int, count: int = 2) -> str:
    """The links of a row's tier, in words: ``leaf-spine links up``."""
    return f"{tiers['tier'][row]} link{'' if count == 1 else 's'} {tiers['way'][row]}".rstrip()


def _lane(name: str, table: Table, rows: list[int], **more: int) -> dict[str, Any]:
    """A lane of slices. ``dimension`` is the number by which the script colours the lane; compute has none."""
    keys = ("start", "end", "mean", "busiest")
    columns = {key: rounded([table[column][row] for row in rows]) for key, column in zip(keys, SLICES, strict=True)}
    return {"name": name, **more, **columns}


def _fullest(table: Table) -> str:
    """Names the dimension and time of the highest utilisation."""
    most = max(range(len(table["utilization"])), key=_but_compute(table))
    return (
        f"The network is used most at {time(table['start_s'][most])}: {table['dimension'][most]} carries"
        f" {percent(table['utilization'][most])} of what its links can carry."
    )


def _full(tiers: Table, lanes: dict[str, list[int]]) -> str:
    """Names the tier that is full longest, and when; if no link is ever full, the time of the highest utilisation."""
    stretches = [stretch for rows in lanes.values() for stretch in _stretches(tiers, rows)]
    if not stretches:
        most = max(range(len(tiers["tier"])), key=lambda row: (tiers["utilization"][row], -row))
        return (
            f"No link is ever full. The network is used most at {time(tiers['start_s'][most])}: the"
            f" {_links(tiers, most)} carry {percent(tiers['utilization'][most])} of what they can carry."
        )
    # Weigh the length of a stretch by the fraction of the tier's links that are full.
    worst = max(stretches, key=lambda rows: sum(_weight(tiers, row) for row in rows))
    first, last = worst[0], worst[-1]
    full = [tiers["full_links"][row] for row in worst]
    number, links = (f"{min(full)}" if min(full) == max(full) else f"{min(full)} to {max(full)}"), tiers["links"][first]
    name = _links(tiers, first, links)
    when = f"from {time(tiers['start_s'][first])} to {time(tiers['end_s'][last])}"
    mean = sum(tiers["utilization"][row] * _length(tiers, row) for row in worst) / sum(
        _length(tiers, row) for row in worst
    )
    who = f"All {links} {name} are" if min(full) == links else f"{number} of the {links} {name} are"
    return (
        f"{f'The {name} is' if links == 1 else who} full {when}: the tier carries {percent(mean)} of what it can carry."
    )


def _stretches(tiers: Table, rows: list[int]) -> list[list[int]]:
    """Stretches of consecutive slices in which some link of a tier is full."""
    found: list[list[int]] = []
    for before, row in zip([None, *rows], rows, strict=False):
        if not tiers["full_links"][row]:
            continue
        if before is not None and tiers["full_links"][before]:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _length(tiers: Table, row: int) -> float:
    return float(tiers["end_s"][row] - tiers["start_s"][row])


def _weight(tiers: Table, row: int) -> float:
    """Fraction of the tier's links that are full, times the length of the slice."""
    return float(tiers["full_links"][row] / tiers["links"][row]) * _length(tiers, row)


def _but_compute(table: Table) -> Any:
    return lambda row: (table["kind"][row] != "compute", table["utilization"][row], -row)


def fabric(source: Source) -> Chart | None:
    """The fabric coloured by load, and strips of all links. Of a large fabric, one group of each dimension is drawn."""
    table = source.table("links", "from", "to", "dimension", "rate_bytes_per_s", "carried_bytes")
    total = source.summary.total_time_s
    if table is None or not total:
        return None
    load = [
        carried / (rate * total) if rate else 0.0
        for carried, rate in zip(table["carried_bytes"], table["rate_bytes_per_s"], strict=True)
    ]
    sizes = _sizes(source)
    dims = list(sizes or dict.fromkeys(table["dimension"]))
    members = table.get("links") or [1] * len(load)
    drawn, notes = _drawn(source, table, load, dims, sizes)
    pictured = {edge[2] for edge in drawn}
    most = max(range(len(load)), key=lambda row: (load[row], -row))
    tiered = not sizes and "tier" in table
    sorts = [_way(*each) for each in zip(table["tier"], table["way"], strict=True)] if tiered else table["dimension"]
    strips = _strips(table, load, members, sorts)
    sort = "tier" if tiered else "dimension"
    return Chart(
        "fabric",
        "The fabric, coloured by load",
        f"{counted(source.summary.npus, 'NPU')}, {counted(sum(members), 'directed link')}. The most loaded link is"
        f" {table['from'][most]} to {table['to'][most]} ({sorts[most]}): {percent(load[most])} of what it"
        f" could carry in the run. {_evenness(strips, sort)}",
        "The load of a link is the bytes that passed it over the bytes that it could have carried in the whole run."
        " Lines are links, round dots NPUs, squares switches (equal ones drawn as one). Parallel links between the same"
        " two vertices are one line, with their mean load. A line that leaves the drawing comes back on the other side."
        f" A strip shows all links of a {sort}, from the least loaded to the most loaded; if it has one colour, the"
        f" links of the {sort} are used evenly.",
        {
            "dims": dims,
            "sizes": list(sizes.values()),
            "groups": bool(notes),
            # Text in place of a dimension that is not drawn.
            "words": ["" if at in pictured or not notes else _words(dim) for at, dim in enumerate(_dims(source))],
            "npus": {vertex: npu for edge in drawn for vertex in edge[:2] if (npu := source.npu(vertex)) is not None},
            "edges": drawn,
            "strips": strips,
        },
        notes,
    )


def _dims(source: Source) -> list[dict[str, Any]]:
    """The fabric's dimensions, lowest first; empty if it has none, or they are unknown."""
    found: list[dict[str, Any]] = source.scenario.get("fabric", {}).get("dims", [])
    return found


def _sizes(source: Source) -> dict[str, int]:
    """Sizes of the fabric's dimensions."""
    return {str(dim["name"]): int(dim["size"]) for dim in _dims(source)}


def _words(dim: dict[str, Any]) -> str:
    """Describes a dimension in words."""
    how = {"one_way": dim.get("direction", "both") != "both", "spread": dim.get("spread", "lane")}
    return describe({"kind": dim["shape"], "size": dim["size"], "count": dim.get("count", 1), **how})


Edge = tuple[str, str, int, float, int]
"""From, to, number of the dimension, mean load, number of links."""


def _drawn(
    source: Source, table: Table, load: list[float], dims: list[str], sizes: dict[str, int]
) -> tuple[list[Edge], tuple[str, ...]]:
    """The edges that are drawn, and notes about what is left out."""
    npus = source.summary.npus
    if npus <= DRAWN_NPUS and sum(size > 1 for size in sizes.values()) <= DRAWN_DIMS:
        links = list(zip(table["from"], table["to"], table["dimension"], load, strict=True))
        edges = _edges(source, links, dims)
        if len(edges) <= DRAWN_EDGES:
            return edges, ()
    drawn: list[Link] = []
    stride = 1
    for name, size in sizes.items():
        if size <= DRAWN_GROUP:
            group = [npu_name(member * stride) for member in range(size)]
            drawn += _unfolded(source, _within(source, table, load, name, group), name, group)
        stride *= size
    if not drawn:
        return [], ("The fabric has too many links for a drawing; the strips hold all of them.",)
    large = [name for name, size in sizes.items() if size > DRAWN_GROUP]
    but = f", except in {listed(large)}, where these are more than {DRAWN_GROUP}" if large else ""
    what = f"only those that share a dimension with NPU 0 are drawn, dimension by dimension{but}"
    return _edges(source, drawn, dims), (f"Of {npus} NPUs, {what}; the strips hold all links.",)


Link = tuple[str, str, str, float]
"""From, to, name of the dimension, load."""


def _within(source: Source, table: Table, load: list[float], name: str, group: list[str]) -> list[Link]:
    """The links of a dimension within a group: between two of its NPUs, or between one of them and a switch."""
    members = set(group)
    ends = zip(table["from"], table["to"], table["dimension"], load, strict=True)
    return [
        (start, end, dimension, share)
        for start, end, dimension, share in ends
        if dimension == name
        and (start in members or end in members)
        and all(each in members or source.npu(each) is None for each in (start, end))
    ]


def _unfolded(source: Source, links: list[Link], name: str, group: list[str]) -> list[Link]:
    """The links of a whole group. For a large fabric the table has only those of NPU 0; the others are copies."""
    place = {npu: at for at, npu in enumerate(group)}
    # A link belongs to the NPU that it leaves; a link from a switch belongs to the NPU that it reaches.
    if {place.get(start, place.get(end)) for start, end, *_ in links} != {0}:
        return links
    # Coordinates move as in crates/units/src/turn.rs: by exclusive or for halving-doubling, else by rotation.
    phases = source.table("phases", "dimension", "algorithm") or {"dimension": [], "algorithm": []}
    xor = (name, "halving_doubling") in zip(phases["dimension"], phases["algorithm"], strict=True)

    def moved(vertex: str, by: int) -> str:
        if vertex not in place:
            return vertex
        return group[place[vertex] ^ by if xor else (place[vertex] + by) % len(group)]

    every = range(len(group))
    return [(moved(start, by), moved(end, by), name, load) for by in every for start, end, _, load in links]


def _edges(source: Source, links: Sequence[Link], dims: list[str]) -> list[Edge]:
    """Merges links with the same ends into one edge, and switches with the same neighbours into one vertex."""
    number = {name: index for index, name in enumerate(dims)}
    merged = _merged(source, links)
    found: dict[tuple[str, str, int], list[float]] = {}
    for start, end, dimension, load in links:
        key = (merged.get(start, start), merged.get(end, end), number[dimension])
        found.setdefault(key, []).append(load)
    return [(*key, float(f"{sum(each) / len(each):.4g}"), len(each)) for key, each in found.items()]


def _merged(source: Source, links: Sequence[Link]) -> dict[str, str]:
    """A common name for switches that have the same neighbours. NPUs are never merged."""
    around: dict[str, list[tuple[str, str]]] = {}
    for start, end, dimension, _ in links:
        if source.npu(start) is None:
            around.setdefault(start, []).append((end, dimension))
    same: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for switch, neighbours in around.items():
        same.setdefault(tuple(sorted(neighbours)), []).append(switch)
    named = {}
    for group in same.values():
        if len(group) > 1 and (name := _common(group)):
            named.update(dict.fromkeys(group, name))
    return named


def _common(names: list[str]) -> str:
    """``spines 0-3`` for names that differ only in consecutive numbers; otherwise empty."""
    parts = [part for name in names if (part := re.fullmatch(r"(.*?)( ?)(\d{1,9})", name))]
    numbers = sorted(int(part[3]) for part in parts)
    if len(parts) < len(names) or numbers != [*range(numbers[0], numbers[-1] + 1)]:
        return ""
    words = {(part[1], part[2]) for part in parts}
    if len(words) > 1:
        return ""
    ((word, space),) = words
    plural = ("es" if word.lower().endswith("switch") else "s") if space else ""
    return f"{word}{plural}{space}{numbers[0]}-{numbers[-1]}"


def _strips(table: Table, load: list[float], members: list[int], sorts: list[str]) -> list[dict[str, Any]]:
    """A strip for each dimension, or each direction of a tier: its links from the least loaded to the most loaded."""
    strips = []
    for name, mine in rows_of(sorts).items():
        rows = sorted(mine, key=load.__getitem__)
        count = sum(members[row] for row in rows)
        # Each place shows the link at that position when all links are sorted by load.
        places: list[float] = []
        passed, at = 0, 0
        width = min(STRIP, count)
        for place in range(width):
            wanted = (place + 0.5) * count / width
            while passed + members[rows[at]] < wanted:
                passed += members[rows[at]]
                at += 1
            places.append(load[rows[at]])
        mean = sum(load[row] * members[row] for row in rows) / count
        low, high = rows[0], rows[-1]
        strips.append(
            {
                "name": name,
                "links": count,
                "places": rounded(places),
                "least": load[low],
                "mean": mean,
                "most": load[high],
                "most_link": f"{table['from'][high]} to {table['to'][high]}",
            }
        )
    return strips


def _evenness(strips: list[dict[str, Any]], sort: str) -> str:
    """Says whether the links of each dimension or tier carry about the same load."""
    worst = max(strips, key=lambda strip: strip["most"] / strip["mean"] if strip["mean"] else 0.0)
    spread = worst["most"] / worst["mean"] if worst["mean"] else 1.0
    if spread < 1.05:
        return f"All links of a {sort} carry about the same."
    return f"{worst['name']} is loaded unevenly: its most loaded link carries {spread:.3g} times the mean."

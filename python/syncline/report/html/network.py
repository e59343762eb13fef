"""How much the network is used: dimensions, over time, and link by link."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from syncline.report.drawing import describe
from syncline.report.html.chart import Chart, rounded
from syncline.report.html.source import rows_of
from syncline.report.quantity import counted, listed, percent, time
from syncline.report.subject import known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.report.html.source import Source, Table

DRAWN_NPUS = 256
"""Fabrics of more NPUs are drawn by one group of each dimension."""

DRAWN_DIMS = 3
"""Fabrics of more dimensions too: paper has two, and a third can be drawn aslant."""

DRAWN_EDGES = 4_000
"""Fabrics of more pairs of neighbours too."""

DRAWN_GROUP = 64
"""Groups of more NPUs are not drawn."""

STRIP = 160
"""Places in the strip of a dimension's links."""


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
        "Utilisation is bytes carried over what all links of the dimension could have carried: in the whole run, and"
        " in the time in which the dimension had something to send. A message counts on each link that it"
        " takes. A dimension that is far from full while busy loses"
        " time to latency and dependencies, not to its rate."
        + (
            " The network model lets messages pass links inside the network side by side, so these have no busy time."
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
    """Utilisation of compute and of each dimension over time; of tiers of links where the fabric is one dimension."""
    table = source.table("activity", "dimension", "start_s", "end_s", "utilization", "busiest_utilization")
    if table is None:
        return None
    tiers = source.table("tiers", "tier", "way", *SLICES, "links", "full_links")
    place = {dim.name: number for number, dim in enumerate(source.summary.dims)}
    lanes = []
    for name, rows in rows_of(table["dimension"]).items():
        if name == "compute":
            lanes.append(_lane(name, table, rows))
        elif not tiers:
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
        "Compute and network over time"
        if any(lane["name"] == "compute" for lane in lanes)
        else "The network over time",
        f"Shown: the first {time(end)} of the run. {finding}",
        f"Filled: bytes carried over the capacity of all links of the {what}, in each slice of time"
        + ("; for compute, the mean share of ranks whose compute is busy" if lanes[0]["name"] == "compute" else "")
        + f". Line: the busiest link of the {what}. A {what} whose busiest link is far above its mean is loaded"
        " unevenly."
        + (
            " Up is away from NPUs, down towards them. A link is full where it sends for 99 % of a slice."
            if tiers
            else ""
        ),
        {"lanes": lanes},
    )


SLICES = ("start_s", "end_s", "utilization", "busiest_utilization")
"""What is known of a slice of time."""


def _way(tier: str, way: str) -> str:
    """A tier one way, in words."""
    return f"{tier} {way}".rstrip()


def _links(tiers: Table, row: int, count: int = 2) -> str:
    """The links of a row's tier: ``leaf-spine links up``."""
    return f"{tiers['tier'][row]} link{'' if count == 1 else 's'} {tiers['way'][row]}".rstrip()


def _lane(name: str, table: Table, rows: list[int], **more: int) -> dict[str, Any]:
    """A lane of slices; ``dimension`` is the number by which the script colours it, which compute has not."""
    keys = ("start", "end", "mean", "busiest")
    columns = {key: rounded([table[column][row] for row in rows]) for key, column in zip(keys, SLICES, strict=True)}
    return {"name": name, **more, **columns}


def _fullest(table: Table) -> str:
    """When which dimension is used most."""
    most = max(range(len(table["utilization"])), key=_but_compute(table))
    return (
        f"The network's fullest moment is at {time(table['start_s'][most])}: {table['dimension'][most]} carries"
        f" {percent(table['utilization'][most])} of what its links can."
    )


def _full(tiers: Table, lanes: dict[str, list[int]]) -> str:
    """Which tier is full from when to when; where none is, when one is fullest."""
    stretches = [stretch for rows in lanes.values() for stretch in _stretches(tiers, rows)]
    if not stretches:
        most = max(range(len(tiers["tier"])), key=lambda row: (tiers["utilization"][row], -row))
        return (
            f"No link is full at any time. The fullest moment is at {time(tiers['start_s'][most])}: the"
            f" {_links(tiers, most)} carry {percent(tiers['utilization'][most])} of what they can."
        )
    # The longest time that the most of a tier's links are full: a tier with one full link of many is told last.
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
    return f"{f'The {name} is' if links == 1 else who} full {when}: the tier carries {percent(mean)} of what it can."


def _stretches(tiers: Table, rows: list[int]) -> list[list[int]]:
    """Slices that follow each other in which some link of a tier is full."""
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
    """How much of its tier is full for how long."""
    return float(tiers["full_links"][row] / tiers["links"][row]) * _length(tiers, row)


def _but_compute(table: Table) -> Any:
    return lambda row: (table["dimension"][row] != "compute", table["utilization"][row], -row)


def fabric(source: Source) -> Chart | None:
    """The fabric by load: whole where it is small, else a group of each dimension; strips of all links."""
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
        "The load of a link is bytes that passed it over what it could have carried in the whole run. Lines are"
        " links, round dots NPUs, squares switches (equal ones drawn as one); parallel links between the same two are"
        " one line, their mean; a line that leaves the drawing comes back on the other side. Strips: all links of a"
        f" {sort} from the least loaded to the most loaded; a strip of one colour is a {sort} whose links are"
        " used evenly.",
        {
            "dims": dims,
            "sizes": list(sizes.values()),
            "groups": bool(notes),
            # What stands where a dimension is not drawn.
            "words": ["" if at in pictured or not notes else _words(dim) for at, dim in enumerate(_dims(source))],
            "npus": {vertex: npu for edge in drawn for vertex in edge[:2] if (npu := source.npu(vertex)) is not None},
            "edges": drawn,
            "strips": strips,
        },
        notes,
    )


def _dims(source: Source) -> list[dict[str, Any]]:
    """The fabric's dimensions, lowest first; none where it has no dimensions, or they are not known."""
    found: list[dict[str, Any]] = source.scenario.get("fabric", {}).get("dims", [])
    return found


def _sizes(source: Source) -> dict[str, int]:
    """Sizes of the fabric's dimensions."""
    return {str(dim["name"]): int(dim["size"]) for dim in _dims(source)}


def _words(dim: dict[str, Any]) -> str:
    """What a dimension joins, in words."""
    how = {"one_way": dim.get("direction", "both") != "both", "spread": dim.get("spread", "lane")}
    return describe({"kind": dim["shape"], "size": dim["size"], "count": dim.get("count", 1), **how})


Edge = tuple[str, str, int, float, int]
"""From, to, dimension, mean load, links."""


def _drawn(
    source: Source, table: Table, load: list[float], dims: list[str], sizes: dict[str, int]
) -> tuple[list[Edge], tuple[str, ...]]:
    """The edges that are drawn, and what is left out."""
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
            group = [f"NPU {member * stride}" for member in range(size)]
            drawn += _unfolded(source, _within(source, table, load, name, group), name, group)
        stride *= size
    if not drawn:
        return [], ("The fabric has too many links for a drawing; the strips hold all of them.",)
    large = [name for name, size in sizes.items() if size > DRAWN_GROUP]
    but = f", but for {listed(large)}, where these are more than {DRAWN_GROUP}" if large else ""
    what = f"those that share a dimension with NPU 0 are drawn, dimension by dimension{but}"
    return _edges(source, drawn, dims), (f"Of {npus} NPUs, {what}; the strips hold all links.",)


Link = tuple[str, str, str, float]
"""From, to, name of the dimension, load."""


def _within(source: Source, table: Table, load: list[float], name: str, group: list[str]) -> list[Link]:
    """The links of a dimension from one of a group to another, and between one and a switch."""
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
    """The links of a whole group. Of large fabrics the table has those of NPU 0 alone, which stand for the others'."""
    place = {npu: at for at, npu in enumerate(group)}
    # A link is that of the NPU which it leaves, or, coming from a switch, of the one which it reaches.
    if {place.get(start, place.get(end)) for start, end, *_ in links} != {0}:
        return links
    # As crates/units/src/turn.rs moves coordinates: halving-doubling by exclusive or, all else round the dimension.
    phases = source.table("phases", "dimension", "algorithm") or {"dimension": [], "algorithm": []}
    xor = (name, "halving_doubling") in zip(phases["dimension"], phases["algorithm"], strict=True)

    def moved(vertex: str, by: int) -> str:
        if vertex not in place:
            return vertex
        return group[place[vertex] ^ by if xor else (place[vertex] + by) % len(group)]

    every = range(len(group))
    return [(moved(start, by), moved(end, by), name, load) for by in every for start, end, _, load in links]


def _edges(source: Source, links: Sequence[Link], dims: list[str]) -> list[Edge]:
    """Links with the same ends as one edge; switches that join the same NPUs in the same way are one vertex."""
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
    """The links of each sort, which is a dimension or a tier one way, from the least loaded to the most loaded."""
    strips = []
    for name, mine in rows_of(sorts).items():
        rows = sorted(mine, key=load.__getitem__)
        count = sum(members[row] for row in rows)
        # Each place shows the link that stands there when all are put in a row by load.
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
    """Whether the links of each dimension or tier carry about the same."""
    worst = max(strips, key=lambda strip: strip["most"] / strip["mean"] if strip["mean"] else 0.0)
    spread = worst["most"] / worst["mean"] if worst["mean"] else 1.0
    if spread < 1.05:
        return f"All links of a {sort} carry about the same."
    return f"{worst['name']} is loaded unevenly: its most loaded link carries {spread:.3g} times the mean."

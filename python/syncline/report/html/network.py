"""How much the network is used: dimensions, over time, and link by link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.report.html.chart import Chart, rounded
from syncline.report.quantity import counted, percent, time

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
    busiest = max(dims, key=lambda dim: dim.busiest_link_busy)
    used = max(dims, key=lambda dim: dim.utilization)
    return Chart(
        "dimensions",
        "How much of the network is used",
        f"{used.name} is used most: {percent(used.utilization)} of what its links could carry in the whole run. The"
        f" busiest link, {busiest.busiest_link}, sends {percent(busiest.busiest_link_busy)} of the time.",
        "Utilisation is bytes sent over what all links of the dimension could have carried: in the whole run, and in"
        " the time in which the dimension had something to send. A dimension that is far from full while busy loses"
        " time to latency and dependencies, not to its rate.",
        {
            "name": [dim.name for dim in dims],
            "bytes": [dim.bytes for dim in dims],
            "whole": [dim.utilization for dim in dims],
            "busy": [dim.utilization_while_busy for dim in dims],
            "busiest": [dim.busiest_link_busy for dim in dims],
            "link": [dim.busiest_link for dim in dims],
        },
    )


def activity(source: Source) -> Chart | None:
    """Utilisation of compute and of each dimension over time."""
    table = source.table("activity", "dimension", "start_s", "end_s", "utilization", "busiest_utilization")
    if table is None:
        return None
    lanes: dict[str, list[int]] = {}
    for index, name in enumerate(table["dimension"]):
        lanes.setdefault(name, []).append(index)
    most = max(range(len(table["utilization"])), key=_but_compute(table))
    end = max(table["end_s"])
    return Chart(
        "activity",
        "Compute and network over time",
        f"Shown: the first {time(end)} of the run. The network's fullest moment is at {time(table['start_s'][most])}:"
        f" {table['dimension'][most]} carries {percent(table['utilization'][most])} of what its links can.",
        "Filled: bytes sent over the capacity of all links of the dimension, in each slice of time; for compute, the"
        " mean share of ranks whose compute is busy. Line: the busiest link of the dimension. A dimension whose"
        " busiest link is far above its mean is loaded unevenly.",
        {
            "lanes": [
                {
                    "name": name,
                    "start": rounded([table["start_s"][row] for row in rows]),
                    "end": rounded([table["end_s"][row] for row in rows]),
                    "mean": rounded([table["utilization"][row] for row in rows]),
                    "busiest": rounded([table["busiest_utilization"][row] for row in rows]),
                }
                for name, rows in lanes.items()
            ]
        },
    )


def _but_compute(table: Table) -> Any:
    return lambda row: (table["dimension"][row] != "compute", table["utilization"][row], -row)


def fabric(source: Source) -> Chart | None:
    """The fabric by load: whole where it is small, else a group of each dimension; strips of all links."""
    table = source.table("links", "from", "to", "dimension", "rate_bytes_per_s", "sent_bytes")
    total = source.summary.total_time_s
    if table is None or not total:
        return None
    load = [
        sent / (rate * total) if rate else 0.0
        for sent, rate in zip(table["sent_bytes"], table["rate_bytes_per_s"], strict=True)
    ]
    sizes = _sizes(source)
    dims = list(sizes or dict.fromkeys(table["dimension"]))
    members = table.get("links") or [1] * len(load)
    drawn, notes = _drawn(table, load, dims, source.summary.npus, sizes)
    most = max(range(len(load)), key=lambda row: (load[row], -row))
    strips = _strips(table, load, members, dims)
    return Chart(
        "fabric",
        "The fabric, coloured by load",
        f"{counted(source.summary.npus, 'NPU')}, {counted(sum(members), 'directed link')}. The most loaded link is"
        f" {table['from'][most]} to {table['to'][most]} ({table['dimension'][most]}): {percent(load[most])} of what it"
        f" could carry in the run. {_evenness(strips)}",
        "The load of a link is bytes that passed it over what it could have carried in the whole run. Lines are"
        " links, round dots NPUs, squares switches (alike ones together); parallel links between the same two are"
        " one line, their mean; a line that leaves the drawing comes back on the other side. Strips: all links of a"
        " dimension from the least loaded to the most loaded; a strip of one colour is a dimension whose links are"
        " used evenly.",
        {
            "dims": dims,
            "sizes": list(sizes.values()),
            "groups": bool(notes),
            "edges": drawn,
            "strips": strips,
        },
        notes,
    )


def _sizes(source: Source) -> dict[str, int]:
    """Sizes of the fabric's dimensions, lowest first; none where it has no dimensions, or they are not known."""
    dims = source.scenario.get("fabric", {}).get("dims", [])
    return {str(dim["name"]): int(dim["size"]) for dim in dims}


Edge = tuple[str, str, int, float, int]
"""From, to, dimension, mean load, links."""


def _drawn(
    table: Table, load: list[float], dims: list[str], npus: int, sizes: dict[str, int]
) -> tuple[list[Edge], tuple[str, ...]]:
    """The edges that are drawn, and what is left out."""
    if npus <= DRAWN_NPUS and sum(size > 1 for size in sizes.values()) <= DRAWN_DIMS:
        edges = _edges(table, load, dims, range(len(load)))
        if len(edges) <= DRAWN_EDGES:
            return edges, ()
    groups: dict[str, set[str]] = {}
    stride = 1
    for name, size in sizes.items():
        groups[name] = {f"NPU {member * stride}" for member in range(size)} if size <= DRAWN_GROUP else set()
        stride *= size
    if not any(groups.values()):
        return [], ("The fabric has too many links for a drawing; the strips hold all of them.",)
    ends = zip(table["from"], table["to"], (groups.get(name, set()) for name in table["dimension"]), strict=True)
    rows = [
        row
        for row, (start, end, group) in enumerate(ends)
        # From one to another, or between one and a switch.
        if (start in group or end in group)
        and all(each in group or not each.startswith("NPU") for each in (start, end))
    ]
    what = "those that share a dimension with NPU 0 are drawn, dimension by dimension"
    return _edges(table, load, dims, rows), (f"Of {npus} NPUs, {what}; the strips hold all links.",)


def _edges(table: Table, load: list[float], dims: list[str], rows: Sequence[int]) -> list[Edge]:
    """Links with the same ends as one edge; switches that join the same NPUs in the same way are one vertex."""
    number = {name: index for index, name in enumerate(dims)}
    alike = _alike(table, rows)
    found: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        start, end = str(table["from"][row]), str(table["to"][row])
        key = (alike.get(start, start), alike.get(end, end), number[table["dimension"][row]])
        found.setdefault(key, []).append(load[row])
    return [(*key, float(f"{sum(each) / len(each):.4g}"), len(each)) for key, each in found.items()]


def _alike(table: Table, rows: Sequence[int]) -> dict[str, str]:
    """A common name for switches that have the same neighbours."""
    around: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        start = table["from"][row]
        if not start.startswith("NPU"):
            around.setdefault(start, []).append((table["to"][row], table["dimension"][row]))
    same: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for switch, neighbours in around.items():
        same.setdefault(tuple(sorted(neighbours)), []).append(switch)
    named = {}
    for group in same.values():
        numbers = sorted(int(switch.removeprefix("switch ")) for switch in group)
        # Only where the numbers follow each other does a name from the first to the last say which they are.
        if len(group) > 1 and numbers[-1] - numbers[0] == len(group) - 1:
            named.update(dict.fromkeys(group, f"switches {numbers[0]}-{numbers[-1]}"))
    return named


def _strips(table: Table, load: list[float], members: list[int], dims: list[str]) -> list[dict[str, Any]]:
    strips = []
    for name, mine in _by_dimension(table, dims).items():
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


def _by_dimension(table: Table, dims: list[str]) -> dict[str, list[int]]:
    """The rows of each dimension that has links."""
    rows: dict[str, list[int]] = {name: [] for name in dims}
    for row, name in enumerate(table["dimension"]):
        rows[name].append(row)
    return {name: mine for name, mine in rows.items() if mine}


def _evenness(strips: list[dict[str, Any]]) -> str:
    """Whether the links of each dimension carry about the same."""
    worst = max(strips, key=lambda strip: strip["most"] / strip["mean"] if strip["mean"] else 0.0)
    spread = worst["most"] / worst["mean"] if worst["mean"] else 1.0
    if spread < 1.05:
        return "All links of a dimension carry about the same."
    return f"{worst['name']} is loaded unevenly: its most loaded link carries {spread:.3g} times the mean."

"""Charts of packets: losses and queues over time, and round-trip times of connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.quantity import counted, listed, percent, scaled, size, time
from syncline.report.html.chart import Chart, rounded
from syncline.report.html.source import rows_of

if TYPE_CHECKING:
    from syncline.report.html.source import Source, Table

KINDS = ("timeouts", "retransmissions", "dropped", "marked", "pauses")
"""Events that are counted in slices of time, worst first."""

LITTLE = 0.1
"""A dimension counts as nearly idle if its busiest link carries less than this fraction of its capacity."""

MUCH = 0.25
"""A slice of time is named if it has at least this fraction of all counted events."""


def losses(source: Source) -> Chart | None:
    """Utilisation over time of each dimension in which packets were lost, marked or paused, and when that happened."""
    table = source.table("queues", "dimension", "start_s", "end_s", *KINDS)
    if table is None:
        return None
    dims = [_lossy(source, table, name, rows) for name, rows in rows_of(table["dimension"]).items()]
    # Worst first: the first dimension is shown by default.
    found = sorted((dim for dim in dims if dim["counts"]), key=_badness, reverse=True)
    if not found:
        return None
    watched = max((dim["utilization"]["end"][-1] for dim in found if dim["utilization"]["end"]), default=0.0)
    whole = max(table["end_s"])
    notes = (
        (f"Utilisation is known only for the first {time(watched)}: the first two iterations.",)
        if 0 < watched < 0.999 * whole
        else ()
    )
    return Chart(
        "losses",
        "Losses over time" if _lost(found) else "Congestion over time",
        _loss_finding(source, found),
        "Filled: bytes carried over the capacity of all links of the dimension; dotted: its busiest link. Below, in"
        " each slice of time: retransmission time-outs (RTO), during which a connection is idle until its timer"
        " expires; segments that were retransmitted; packets that were dropped because a queue was full, or early;"
        " packets that a queue marked (ECN), which makes senders slow down; and pauses of a port (priority flow"
        " control). Time-outs and segments belong to the highest dimension on the path of their connection. Where"
        " utilisation falls while connections time out, the network waits for timers, not for links.",
        {"dims": found},
        notes,
    )


def _place(source: Source, name: str) -> dict[str, int]:
    """The number by which the script colours a dimension, the same as in other charts; empty for other names."""
    return {dim.name: {"dimension": number} for number, dim in enumerate(source.summary.dims)}.get(name, {})


def _lossy(source: Source, table: Table, name: str, rows: list[int]) -> dict[str, Any]:
    """Utilisation and counts of events of a dimension over time; kinds of events that never occur are left out."""
    columns = {"start": "start_s", "end": "end_s", "mean": "utilization", "busiest": "busiest_utilization"}
    used = source.table("activity", "dimension", *columns.values(), "kind") or {}
    links = zip(used.get("dimension", ()), used.get("kind", ()), strict=True)
    mine = [row for row, each in enumerate(links) if each == (name, "links")]
    counts = {kind: [table[kind][row] for row in rows] for kind in KINDS}
    return {
        "name": name,
        **_place(source, name),
        "utilization": {key: rounded([used[column][row] for row in mine]) for key, column in columns.items()},
        "start": rounded([table["start_s"][row] for row in rows]),
        "end": rounded([table["end_s"][row] for row in rows]),
        "counts": {kind: values for kind, values in counts.items() if any(values)},
    }


def _badness(dim: dict[str, Any]) -> tuple[int, ...]:
    return tuple(sum(dim["counts"].get(kind, ())) for kind in KINDS)


def _lost(dims: list[dict[str, Any]]) -> bool:
    return any(kind in dim["counts"] for dim in dims for kind in KINDS[:3])


_WORDS = {
    "timeouts": ("time-out", ""),
    "retransmissions": ("segment", " sent again"),
    "dropped": ("packet", " dropped"),
    "marked": ("packet", " marked"),
    "pauses": ("pause", ""),
}
"""The noun for each kind of event, and the words after it."""


def _loss_finding(source: Source, dims: list[dict[str, Any]]) -> str:
    worst, *others = dims
    counts = worst["counts"]
    said = listed(
        [counted(sum(counts[kind]), word) + behind for kind, (word, behind) in _WORDS.items() if kind in counts]
    )
    where = f"In dimension {worst['name']}: " if len(source.summary.dims) > 1 else ""
    there = [at for at in range(len(worst["start"])) if any(values[at] for values in counts.values())]
    when = f"from {time(worst['start'][there[0]])} to {time(worst['end'][there[-1]])}"
    text = f"{'' if _lost(dims) else 'Nothing is lost. '}{where}{said}, {when}."
    kind, values = next(iter(counts.items()))
    most = max(there, key=lambda at: (values[at], -at))
    share = values[most] / sum(values)
    if MUCH <= share < 1:
        word, behind = _WORDS[kind]
        when = f"from {time(worst['start'][most])} to {time(worst['end'][most])}"
        text += f" {percent(share)} of the {word}s{behind} are {when}."
    still = _still(worst["utilization"])
    if "timeouts" in counts and still >= LITTLE and not source.summary.compute_s:
        text += (
            f" For {percent(still)} of the time, no link there carries more than a tenth of its capacity in a slice."
        )
    if others:
        text += f" Also in dimension {listed([dim['name'] for dim in others])}."
    return text


def _still(used: dict[str, list[float]]) -> float:
    """Share of the time in which the dimension is nearly idle (:data:`LITTLE`)."""
    slices = list(zip(used["start"], used["end"], used["busiest"], strict=True))
    whole = sum(end - start for start, end, _ in slices)
    return sum(end - start for start, end, busiest in slices if busiest < LITTLE) / whole if whole else 0.0


def queues(source: Source) -> Chart | None:
    """Mean and longest queue of the switches of each dimension over time."""
    table = source.table("queues", "dimension", "start_s", "end_s", "mean_queue_bytes", "longest_queue_bytes")
    if table is None or not any(table["longest_queue_bytes"]):
        return None
    ports = _ports(source)
    lanes = []
    for name, rows in rows_of(table["dimension"]).items():
        if not any(table["longest_queue_bytes"][row] for row in rows):
            continue
        limits = [port["limit"] for port in ports if port["dimension"] == name and port["limit"]]
        lanes.append(
            {
                "name": name,
                **_place(source, name),
                "start": rounded([table["start_s"][row] for row in rows]),
                "end": rounded([table["end_s"][row] for row in rows]),
                "mean": rounded([table["mean_queue_bytes"][row] for row in rows]),
                "longest": [table["longest_queue_bytes"][row] for row in rows],
                **({"limit": max(limits)} if limits else {}),
            }
        )
    return Chart(
        "queues",
        "Queues of switches over time",
        _queue_finding(table, ports),
        "Filled: the mean queue of the ports of all switches in the dimension, in each slice of time. Line: the longest"
        " queue that a packet met at one of them. Dashed: the most that a port's queue may hold, if ports have equal"
        " parts of their switch's buffer; a packet that does not fit is dropped. If the longest queue is far above the"
        " mean, many hosts send to a few ports (incast). Queues in hosts are not included.",
        {"lanes": lanes},
    )


def _ports(source: Source) -> list[dict[str, Any]]:
    """The ports of switches: where they lead, their dimension, longest and mean queue, and limit."""
    table = source.table("ports", "link", "from", "to", "longest_queue_bytes", "mean_queue_bytes")
    links = source.table("links", "link", "dimension")
    if table is None or links is None:
        return []
    dimension = dict(zip(links["link"], links["dimension"], strict=True))
    limits = table.get("limit_bytes") or [None] * len(table["link"])
    return [
        {
            "name": f"{start} to {end}",
            "dimension": dimension.get(link, ""),
            "longest": longest,
            "mean": mean,
            "limit": limit,
        }
        for link, start, end, longest, mean, limit in zip(
            *(table[key] for key in ("link", "from", "to", "longest_queue_bytes", "mean_queue_bytes")),
            limits,
            strict=True,
        )
        if source.npu(start) is None
    ]


def _queue_finding(table: Table, ports: list[dict[str, Any]]) -> str:
    longest = table["longest_queue_bytes"]
    row = max(range(len(longest)), key=lambda row: (longest[row], -row))
    when = f"from {time(table['start_s'][row])} to {time(table['end_s'][row])}"
    worst = max(ports, key=lambda port: port["longest"], default=None)
    if worst is None:
        return f"The longest queue of a switch holds {scaled(longest[row], 'B')}, {when} in {table['dimension'][row]}."
    limit = worst["limit"]
    of = f" ({percent(min(worst['longest'] / limit, 1.0))} of the {size(limit)} that it may hold)" if limit else ""
    return (
        f"The longest queue is at the port from {worst['name']} ({worst['dimension']}): {scaled(worst['longest'], 'B')}"
        f"{of}, {when}. Over the whole run it holds {scaled(worst['mean'], 'B')} on average."
    )


def round_trips(source: Source) -> Chart | None:
    """Percentiles of round-trip times over connections (dlrm2020 Fig. 9), for all and by dimension."""
    table = source.table("flows", "from", "to", "rtt_s", "dimension")
    packets = source.summary.packets
    if table is None or packets is None or not any(table["rtt_s"]):
        return None
    rows = [row for row, trip in enumerate(table["rtt_s"]) if trip > 0]
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(table["dimension"][row], []).append(table["rtt_s"][row])
    several = [dim.name for dim in source.summary.dims if dim.name in groups] if len(groups) > 1 else []
    slowest = max(rows, key=lambda row: (table["rtt_s"][row], -row))
    unknown = len(table["rtt_s"]) - len(rows)
    notes = (f"No round trip was measured for {counted(unknown, 'connection')}.",) if unknown else ()
    least, most = min(table["rtt_s"][row] for row in rows), table["rtt_s"][slowest]
    if most < 1.05 * least:
        finding = f"All of {counted(len(rows), 'connection')} have round trips of about {time(packets.rtt_p50_s)}."
    else:
        finding = (
            f"Half of {counted(len(rows), 'connection')} have round trips of at most {time(packets.rtt_p50_s)}, 99 % of"
            f" at most {time(packets.rtt_p99_s)}; the mean is {time(packets.rtt_mean_s)}. The slowest, from"
            f" {table['from'][slowest]} to {table['to'][slowest]}, has {time(most)}."
        )
    return Chart(
        "round_trips",
        "Round-trip times of connections",
        finding,
        "The round-trip time of a connection is the mean of its samples, taken every millisecond of simulated time. The"
        " curve has all connections, sorted from the shortest to the longest round trip, so that 99 % of them lie below"
        " its value at 99 %. A round trip consists of the latency of the links and the time in queues. Mean, p50 and"
        " p99 are defined as in dlrm2020, Fig. 8 to 10."
        + (" The curve of a dimension has the connections whose highest dimension it is." if several else ""),
        {
            "curves": [
                *(
                    {
                        "name": name,
                        **_place(source, name),
                        "count": len(groups[name]),
                        "values": rounded(_percentiles(groups[name])),
                    }
                    for name in several
                ),
                {
                    "name": "all connections",
                    "count": len(rows),
                    "values": rounded(_percentiles([table["rtt_s"][row] for row in rows])),
                },
            ],
            "mean": packets.rtt_mean_s,
            "p50": packets.rtt_p50_s,
            "p99": packets.rtt_p99_s,
        },
        notes,
    )


def _percentiles(values: list[float]) -> list[float]:
    """The 1st to the 100th percentile by the nearest-rank method, as in the summary."""
    row = sorted(values)
    return [row[-(-len(row) * percentile // 100) - 1] for percentile in range(1, 101)]

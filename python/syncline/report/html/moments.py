"""Charts over time: the overlap of compute and communication on traced ranks, and the critical path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.quantity import counted, percent, time
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from syncline.report.html.source import Source

SEGMENTS = 6_000
"""Maximum number of segments of the critical path that a report holds."""


def timeline(source: Source) -> Chart | None:
    """Compute, communication and dimensions of the traced ranks side by side."""
    outline = source.outline
    if outline is None or not outline["rank"]:
        return None
    summary = source.summary
    starts = outline["start_ps"]
    ends = [start + duration for start, duration in zip(starts, outline["duration_ps"], strict=True)]
    until = max(ends)
    # A chart cannot show more than nine digits, and more would double the size of the file.
    unit = 10 ** max(len(str(until)) - 9, 0)
    begins = [start // unit for start in starts]
    notes = []
    if outline["pause_ps"]:
        notes.append(f"Pauses of a dimension shorter than {time(outline['pause_ps'] * 1e-12)} are not shown.")
    left_out = outline["blocks_left_out"] + outline["spans_left_out"]
    if left_out:
        cut = f"Cut at {time(until * 1e-12)} of {time(summary.total_time_s)}"
        notes.append(f"{cut}: {left_out} later blocks are left out.")
    ranks = outline["ranks"]
    who = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
    overlap = ""
    if summary.communication_s and summary.compute_s:
        hidden = max(summary.communication_s - summary.exposed_communication_s, 0.0) / summary.communication_s
        overlap = f" Compute continues for {'all' if hidden == 1 else percent(hidden)} of the time with communication."
    return Chart(
        "timeline",
        "Overlap of compute and communication" if summary.compute_s else "Timeline",
        f"The timeline of {who}.{overlap}",
        "Each track shows one use of the rank's time. Communication: whole collectives, from issue to result. Compute"
        " is idle while it waits for the network (exposed communication), for a message that another rank has not sent"
        " yet (bubble), for a collective that another rank has not begun yet (skew), or, after its own last task, for"
        " the ranks that still work. Below, a track for each dimension of the network shows when this rank moves chunks"
        " in it; chunks of one collective that overlap or touch are one block."
        " Zoom with the buttons, with + and - when the chart has the focus, or with Ctrl and the mouse wheel; drag"
        " or use the arrow keys to move. The file trace.pftrace in the results folder has every chunk, for"
        " ui.perfetto.dev.",
        {
            "ranks": ranks,
            "tracks": outline["tracks"],
            "labels": outline["labels"],
            "rank": outline["rank"] if len(ranks) > 1 else [],
            "track": outline["track"],
            "unit_ps": unit,
            "step": [begin - before for begin, before in zip(begins, [0, *begins[:-1]], strict=True)],
            "duration": [end // unit - begin for end, begin in zip(ends, begins, strict=True)],
            "label": outline["label"],
            "bytes": outline["bytes"],
        },
        tuple(notes),
    )


def critical_path(source: Source) -> Chart | None:
    """The critical path: the chain of work and waiting that determines the length of the run."""
    columns = ("start_s", "end_s", "rank", "kind", "layer", "part", "what", "dimension", "tier")
    table = source.table("critical_path", *columns)
    if table is None:
        return None
    sums: dict[tuple[str, str], float] = {}
    rows = zip(*(table[column] for column in columns), strict=True)
    for start, end, _, kind, layer, _, what, dimension, tier in rows:
        place = tier or dimension
        where = " ".join(each for each in (layer or what, f"in {place}" if place else "") if each)
        sums[kind, where] = sums.get((kind, where), 0.0) + end - start
    order = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    (kind, where), longest = order[0]
    parts = source.summary.critical_path
    shares = ", ".join(f"{part.name} {percent(part.per_mille / 1000)}" for part in parts)
    count = len(table["start_s"])
    kept = slice(0, SEGMENTS)
    notes = (f"The first {SEGMENTS} of {count} segments are drawn; the sums hold all.",) if count > SEGMENTS else ()
    data: dict[str, Any] = {column: table[column][kept] for column in columns[2:]}
    return Chart(
        "critical_path",
        "The critical path",
        f"This chain of {counted(count, 'segment')} is as long as the run{f': {shares}' if parts else ''}. The largest"
        f" part is {kind} of {where or 'the job'} ({time(longest)}). The run gets shorter only if something on this"
        " path gets faster.",
        "The path goes back from the last event, each time to the event that the current one waited for last. It"
        " changes rank where a rank waits for another; where a message queues at a port, it continues with the message"
        " that the port was sending. Messages of one phase of a collective are added up. For jobs of many iterations it"
        " shows the first ones. Compute that several ranks do one after the other is drawn as compute; in the shares,"
        " all of it beyond one rank's compute is bubble or skew.",
        {
            **data,
            "start": rounded(table["start_s"][kept]),
            "end": rounded(table["end_s"][kept]),
            "sums": [[kind, where, seconds] for (kind, where), seconds in order[:200]],
        },
        notes,
    )

"""Collectives against the bound of their plans, and what their phases wait for (astra2020 Fig. 12b and 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.quantity import digits, percent, rate, time
from syncline.report.delays import NEEDED, by_phase
from syncline.report.equal_rows import group_equal, group_label
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from syncline.report.html.source import Source

SHOWN = 20
"""Maximum number of collectives that are drawn."""

LAYERS = 100
"""Maximum number of layers whose phases can be chosen."""


def collectives(source: Source) -> Chart | None:
    """The longest collectives, and lower bounds on their times, which follow from their plans."""
    table = source.table("collectives", "layer", "part", "bound_s", "bus_bytes_per_s", "size_bytes")
    if table is None:
        return None
    same: dict[tuple[Any, ...], list[int]] = {}
    keys = ("layer", "part", "kind", "size_bytes", "group_ranks")
    for index, key in enumerate(zip(*(table[key] for key in keys), strict=True)):
        same.setdefault(key, []).append(index)

    def mean(column: str, rows: list[int]) -> float:
        return float(sum(table[column][row] for row in rows) / len(rows))

    # Equal blocks of a model are one bar.
    groups = group_equal(
        ((key, rows, mean("duration_s", rows)) for key, rows in same.items()),
        lambda each: each[0][0],
        lambda each: (each[2], mean("bound_s", each[1])),
        lambda each: each[0][1:],
    )
    found = []
    for group in groups:
        _, *rest = group[0][0]
        rows = [row for _, own, _ in group for row in own]
        label = group_label([_label(key[0], key[2]) for key, _, _ in group])
        found.append(((label, *rest), rows, mean("duration_s", rows)))
    found.sort(key=lambda each: -each[2])
    shown = found[:SHOWN]
    (label, *_), rows, duration = shown[0]
    bound = mean("bound_s", rows)
    notes = (f"The {SHOWN} longest kinds of {len(found)} are drawn.",) if len(found) > SHOWN else ()
    near = ""
    if bound:
        near = (
            ", as fast as its plan allows"
            if duration < 1.005 * bound
            else f", {digits(duration / bound)} times its bound"
        )
    return Chart(
        "collectives",
        "Collectives against their bounds",
        f"The longest, {label}, takes {time(duration)}{near}, and reaches a bus bandwidth of"
        f" {rate(mean('bus_bytes_per_s', rows))}.",
        "A bar is a collective, from its first issue to its last result. The line across it is its bound, a lower"
        " bound on the time of its plan: the time for the bytes that must pass some links at the rate of these links,"
        " or the time of its longest chain of messages. Time beyond the bound is latency, waits for other messages,"
        " and sharing the network with other collectives. Equal collectives of several iterations, groups or blocks"
        " share one bar, their mean. Bus bandwidth is defined as in nccl-tests, so that it can be compared with the"
        " rate of links.",
        {
            "label": [key[0] for key, _, _ in shown],
            "part": [key[1] for key, _, _ in shown],
            "bytes": [key[3] for key, _, _ in shown],
            "ranks": [key[4] for key, _, _ in shown],
            "count": [len(rows) for _, rows, _ in shown],
            "duration": rounded([duration for _, _, duration in shown]),
            "bound": rounded([mean("bound_s", rows) for _, rows, _ in shown]),
            "bus": rounded([mean("bus_bytes_per_s", rows) for _, rows, _ in shown]),
        },
        notes,
    )


def _label(layer: str, kind: str) -> str:
    """Label of a collective: its layer and kind. A layer of a workload of collectives already begins with the kind."""
    return layer if layer.startswith(kind) else f"{layer} {kind}".strip()


def phases(source: Source) -> Chart | None:
    """Mean delays in each phase, for all collectives and by layer."""
    each, sets = (source.table(name, *columns) for name, columns in NEEDED.items())
    if each is None or sets is None:
        return None
    names, sums = by_phase(each, sets)
    time_of: dict[str, float] = {}
    for layer, duration in zip(sets["layer"], sets["duration_s"], strict=True):
        time_of[layer] = time_of.get(layer, 0.0) + duration
    chosen = sorted((layer for layer in time_of if layer), key=lambda layer: -time_of[layer])
    views = ["", *chosen[:LAYERS]] if len(chosen) > 1 else [""]
    rows = {view: {index: rounded(list(total.means)) for index, total in sums[view].items()} for view in views}
    largest = max(rows[""].items(), key=lambda item: sum(item[1]))
    queue, network, reduction = largest[1]
    what = max((queue, "waiting in queues"), (network, "the network"), (reduction, "reduction"))[1]
    notes = (f"The {LAYERS} layers with most communication can be chosen.",) if len(chosen) > LAYERS else ()
    return Chart(
        "phases",
        "Delays in the phases of collectives",
        f"The slowest step is {names[largest[0]]}: {time(sum(largest[1]))} on average, of which"
        f" {percent((queue or 0) / (sum(largest[1]) or 1))} is queueing. The largest part is {what}.",
        "Every collective is cut into chunks. Each chunk waits in the ready queue (P0) until it may start, and then"
        " goes through the phases, one for each step of the hierarchical plan. Queue delay is the mean time that a"
        " chunk queues in that phase. Network delay is the mean time of one message from send to arrival. Reduction is"
        " the mean time to combine a message with local data.",
        {
            "names": names,
            "views": views,
            "rows": [[[index, *row] for index, row in sorted(rows[view].items())] for view in views],
        },
        notes,
    )

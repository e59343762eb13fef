"""The chart of links that delay messages, and of the layers that they delay, under the network model ``flow``."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING

from syncline.quantity import counted, percent, time
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.report.html.source import Source, Table

LINKS = 16
"""Maximum number of links that are drawn."""
CAUSES = 8
"""Maximum number of pairs of layer and collective with a part of their own; the others share one part."""
OTHERS = "others"


def contention(source: Source) -> Chart | None:
    """Delays by the link that was the bottleneck, and by the layer and collective that were delayed, longest first."""
    table = source.table("contention", "from", "to", "links", "layer", "kind", "messages", "sent_bytes", "waiting_s")
    if table is None or not any(table["waiting_s"]):
        return None
    by_link, by_cause = _sums(table, lambda row: _link(table, row)), _sums(table, lambda row: _cause(table, row))
    links, causes = list(by_link)[:LINKS], list(by_cause)[:CAUSES]
    if len(by_cause) > CAUSES:
        causes.append(OTHERS)
    waits = {cause: [0.0] * len(links) for cause in causes}
    messages, sent, alike = [0] * len(links), [0] * len(links), [1] * len(links)
    place = {link: at for at, link in enumerate(links)}
    for row, waited in enumerate(table["waiting_s"]):
        if (at := place.get(_link(table, row))) is None:
            continue
        cause = _cause(table, row)
        waits[cause if cause in waits else OTHERS][at] += waited
        messages[at] += table["messages"][row]
        sent[at] += table["sent_bytes"][row]
        alike[at] = table["links"][row]
    worst = links[0]
    most = max(list(by_cause)[:CAUSES], key=lambda cause: waits[cause][0])
    total = sum(map(mul, table["links"], table["waiting_s"]))
    part = percent(alike[0] * by_link[worst] / total)
    the_most = ", the most of any layer" if len(by_cause) > 1 else ""
    which = f"The link from {worst} delays"
    if alike[0] > 1:
        which = f"The link from {worst} and {counted(alike[0] - 1, 'link')} like it each delay"
    left = len(by_link) - len(links)
    return Chart(
        "contention",
        "Which links delay which layers",
        f"{which} messages by a total of {time(by_link[worst])}: {part} of all delays."
        f" {percent(waits[most][0] / by_link[worst])} of that are those of {most}{the_most}.",
        "A bar is a link that was the bottleneck of messages: the first link on their path with the smallest fair"
        " share. Its length is the delay of these messages against being alone on the network, summed over messages,"
        " so it may be longer than the run. Its parts are the layers and collectives that the messages belong to. Only"
        " one of several equal links is drawn.",
        {
            "link": links,
            "alike": alike,
            "messages": messages,
            "bytes": sent,
            "causes": [{"name": cause, "waiting": rounded(values)} for cause, values in waits.items()],
        },
        (f"{counted(left, 'link')} more with shorter delays are not drawn.",) if left > 0 else (),
    )


def _link(table: Table, row: int) -> str:
    return f"{table['from'][row]} to {table['to'][row]}"


def _cause(table: Table, row: int) -> str:
    layer, kind = table["layer"][row], table["kind"][row].replace("_", "-")
    return f"{layer}, {kind}" if layer else kind


def _sums(table: Table, name: Callable[[int], str]) -> dict[str, float]:
    """Sums of delays by ``name`` of the row, longest first."""
    sums: dict[str, float] = {}
    for row, waited in enumerate(table["waiting_s"]):
        sums[name(row)] = sums.get(name(row), 0.0) + waited
    return dict(sorted(sums.items(), key=lambda item: -item[1]))

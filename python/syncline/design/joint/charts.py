"""Charts of a search for strategy and topology, for its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.design.joint.traffic import Traffic, traffic_of
from syncline.input.units import bytes_per_s
from syncline.quantity import counted, digits, listed, money, npu_number, percent, size, time
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from syncline.design.joint.answer import Found

CELLS = 128
"""Maximum number of rows of the map of traffic; with more servers, a cell is the sum of a block of servers."""
MATCHED = "transfers between the two"
OTHER = "leftover interfaces"


def all_of(found: Found) -> list[Chart]:
    """Every chart, the most important first."""
    return [networks(found), topology(found), traffic_map(found), progress(found)]


def networks(found: Found) -> Chart:
    """Step times on all networks."""
    spec, answer = found.request.spec, found.answer
    total_rate = spec.degree * bytes_per_s(spec.link)
    gain = found.start_s / answer.step_s
    finding = f"On the direct links, a step takes {time(answer.step_s)} and the links cost {money(found.usd)}."
    for each in found.others:
        ratio = each.answer.step_s / answer.step_s
        price = "" if each.baseline.usd is None else f" for {money(each.baseline.usd)}"
        title = each.baseline.title
        finding += f" {title[0].upper()}{title[1:]}: {time(each.answer.step_s)} ({digits(ratio)}x){price}."
    if gain > 1:
        plain = "Plain data parallelism" if answer.data_parallel_fits else "The first strategy that fits into memory"
        finding += f" {plain} takes {digits(gain)}x as long on its own best direct links."
    return Chart(
        "design_networks",
        "The networks side by side",
        finding,
        "A strategy is searched for on each network, and each network gets the best of all that were found; nothing is"
        " searched on circuits that change during the step. Data parallelism splits every operator among all"
        " servers, except embedding tables; the first strategy is the one from which the search starts if that does not"
        " fit into memory. The tooltip and the table give the rate and the price of each network, and"
        " the product of step time and price, relative to the direct links: below 1x, a dollar buys more steps.",
        {
            "network": ["direct links", *(each.baseline.title for each in found.others)],
            "rate": [total_rate, *(each.baseline.rate / 8 for each in found.others)],
            "usd": [_rounded(usd) for usd in (found.usd, *(each.baseline.usd for each in found.others))],
            "step": rounded([answer.step_s, *(each.answer.step_s for each in found.others)]),
            "first": found.start_name,
            "first_step": [_rounded(each.start_s) for each in (answer, *(each.answer for each in found.others))],
        },
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded([value])[0]


def topology(found: Found) -> Chart:
    """The links between servers."""
    spec, made = found.request.spec, found.topology
    links = made.links
    purposes = _purposes(found)
    names = list(dict.fromkeys(purposes.values()))
    busy = _busy(found)
    finding = (
        f"{counted(spec.servers, 'server')} with {counted(spec.degree, 'interface')} each; a message takes at most"
        f" {counted(made.diameter, 'link')}. Links were chosen for: {listed(names)}."
    )
    if busy:
        highest = max(busy.values())
        mean = sum(busy.values()) / len(busy)
        finding += f" In the simulated step, links are busy for {percent(mean)} on average, at most {percent(highest)}."
    return Chart(
        "design_topology",
        "The topology",
        finding,
        "Servers stand on a circle; each line is a link, which carries data in one direction. A ring of stride p joins"
        " server i to server i + p, modulo the number of servers, and carries a part of each all-reduce. Transfers"
        " between servers that are not joined are forwarded on the way. The choice shows the links of one purpose, or"
        " all of them by the share of the simulated step in which they are busy.",
        {
            "servers": spec.servers,
            "rate": bytes_per_s(spec.link),
            "purposes": names,
            "from": [source for source, _, _ in links],
            "to": [target for _, target, _ in links],
            "count": [count for *_, count in links],
            "purpose": [names.index(purposes[source, target]) for source, target, _ in links],
            "busy": rounded([busy.get((source, target), 0.0) for source, target, _ in links]) if busy else [],
        },
    )


def _purposes(found: Found) -> dict[tuple[int, int], str]:
    """What each link was chosen for: all-reduces first, and the first of several."""
    servers, made = found.request.spec.servers, found.topology
    matched = {(a, b) for pair in made.matched for a, b in (pair, pair[::-1])}
    purposes: dict[tuple[int, int], str] = {}
    for group in made.groups:
        rings = group.pattern == "rings"
        for stride, links in zip(group.strides, group.links, strict=True):
            name = f"ring of stride {stride}" if rings else f"trees of stride {stride}"
            if len(group.members) < servers:
                name = "rings of smaller groups" if rings else "trees of smaller groups"
            for link in links:
                purposes.setdefault(link, name)
    for source, target, _ in made.links:
        purposes.setdefault((source, target), MATCHED if (source, target) in matched else OTHER)
    return purposes


def _busy(found: Found) -> dict[tuple[int, int], float]:
    """The share of the simulated step in which each link is busy, by its ends; empty without a simulation."""
    if found.result is None:
        return {}
    table = found.result.table("links")
    ends = (map(npu_number, table[side]) for side in ("from", "to"))
    links = zip(*ends, table["utilization"], strict=True)
    return {(a, b): share or 0.0 for a, b, share in links if a is not None and b is not None}


def traffic_map(found: Found) -> Chart:
    """Bytes from server to server."""
    sent = traffic_of(found)
    moved = sum(map(sum, sent.transfers))
    reduced = sum(map(sum, sent.all_reduces))
    total = moved + reduced
    pairs = [(row, column) for row in range(sent.servers) for column in range(sent.servers) if sent.total(row, column)]
    finding = f"In a step, servers send each other {size(total)}"
    if total:
        finding += f", {percent(reduced / total)} of it for all-reduces"
    finding += f"; {len(pairs):,} of {sent.servers * (sent.servers - 1):,} pairs of servers exchange data."
    if pairs:
        most = max(pairs, key=lambda pair: (sent.total(*pair), (-pair[0], -pair[1])))
        finding += f" The largest flow is server {most[0]} to {most[1]} with {size(sent.total(*most))}."
    block, cells = blocks(sent)
    notes = (f"A cell is the sum of {block} x {block} servers.",) if block > 1 else ()
    return Chart(
        "design_traffic",
        "Traffic between servers",
        finding,
        "Rows send and columns receive, on a logarithmic scale. Traffic counts from the first sender to the last"
        " receiver, whatever the route. Diagonals are rings of all-reduces, whose place depends on the topology; rows,"
        " columns and single cells are activations and their gradients, whose place depends on the strategy alone.",
        {"servers": sent.servers, "block": block, **cells},
        notes,
    )


def blocks(sent: Traffic) -> tuple[int, dict[str, list[int]]]:
    """Number of servers in a cell of the map, and all cells that are not empty."""
    block = -(-sent.servers // CELLS)
    sums: dict[tuple[int, int], list[int]] = {}
    for place, matrix in enumerate((sent.all_reduces, sent.transfers)):
        for sender, row in enumerate(matrix):
            for receiver, amount in enumerate(row):
                if amount:
                    sums.setdefault((sender // block, receiver // block), [0, 0])[place] += amount
    order = sorted(sums)
    return block, {
        "row": [row for row, _ in order],
        "column": [column for _, column in order],
        "all_reduces": [sums[cell][0] for cell in order],
        "transfers": [sums[cell][1] for cell in order],
    }


def progress(found: Found) -> Chart:
    """The best step so far."""
    spec = found.request.spec
    searched = [
        ("direct links", found.answer),
        *((each.baseline.title, each.answer) for each in found.others if each.answer.trace),
    ]
    chains = spec.search.chains if spec.search.method == "chains" else 1
    until = max([*(number for _, answer in searched for number, _ in answer.trace), found.answer.proposals // chains])
    searches: list[dict[str, Any]] = [
        {
            "network": title,
            "proposal": [number for number, _ in answer.trace],
            "step": rounded([seconds for _, seconds in answer.trace]),
            "until": until,
        }
        for title, answer in searched
    ]
    first, last = found.answer.trace[0][1], found.answer.step_s
    better = f", {digits(first / last)}x as long as the result" if first > last else ""
    when = found.answer.trace[-1][0]
    return Chart(
        "design_progress",
        "Progress of the search",
        f"The search made {found.answer.proposals:,} proposals on the direct links, accepted {found.answer.accepted:,}"
        f" and tried {counted(found.answer.topologies, 'topology')}. The first strategy took {time(first)}{better}; the"
        f" last improvement came after {counted(when, 'proposal')}.",
        "Each line is the best step so far on one network, over all chains. If the end is long and flat, more proposals"
        " would change little; if there are improvements near the end, try more of them (search.proposals).",
        {"searches": searches},
    )

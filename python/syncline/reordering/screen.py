"""Prints an order of hosts on a terminal, and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.quantity import counted, digits, percent, size, time
from syncline.terminal.prose import lines
from syncline.terminal.table import of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.reordering.difference import Difference, Exchange
    from syncline.reordering.reorder import Reordered

MAX_EXCHANGES = 10
"""Most exchanges that are listed."""
MAX_HOSTS = 64
"""Most hosts that are listed."""


def screen(found: Reordered, difference: Difference, width: int, *, explain: bool, listed: bool) -> RenderableType:
    """The screen for a terminal of ``width`` columns. ``listed`` asks for the hosts, and ``explain`` for exchanges."""
    return Group(*_parts(found, difference, width, explain=explain, listed=listed))


def as_dict(found: Reordered, difference: Difference) -> dict[str, Any]:
    """What ``--json`` prints."""

    def exchange(each: Exchange) -> dict[str, Any]:
        return {"hosts": list(each.hosts), "time_s": each.time_s}

    return {
        "hosts": list(found.hosts),
        "before": list(found.before),
        "algorithm": found.algorithm,
        "bytes": found.bytes,
        "cost_s": found.cost_s,
        "cost_before_s": found.cost_before_s,
        "bound_s": found.bound_s,
        "filled_pairs": found.filled,
        "stopped_by_limit": found.stopped,
        "seed": found.seed,
        "far_s": difference.far_s,
        "far_pairs": difference.far_pairs,
        "exchanges": difference.exchanges,
        "far_before": difference.far_before,
        "far_after": difference.far_after,
        "longest_before": exchange(difference.longest_before),
        "longest_after": exchange(difference.longest_after),
        "dropped": [exchange(each) for each in difference.dropped],
        "added": [exchange(each) for each in difference.added],
    }


def _parts(
    found: Reordered, difference: Difference, width: int, *, explain: bool, listed: bool
) -> Iterator[RenderableType]:
    ranks = len(found.hosts)
    yield Text.assemble(
        (found.algorithm, "bold"), (f"  all-reduce of {size(found.bytes)} on {counted(ranks, 'host')}", "dim")
    )
    yield ""
    yield Text(lines(_verdict(found), width), "bold")
    yield ""
    table = of_numbers("", "before", "now")
    table.add_row("cost by the model", time(found.cost_before_s), time(found.cost_s))
    if difference.far_s is not None:
        far = f"of {counted(difference.exchanges, 'exchange')}"
        table.add_row("exchanges of far hosts", str(difference.far_before), f"{difference.far_after} {far}")
    table.add_row(
        "longest hop of all bytes", time(difference.longest_before.time_s), time(difference.longest_after.time_s)
    )
    yield table
    yield ""
    for sentence in _notes(found, difference):
        yield Text(lines(sentence, width), "dim")
    if explain:
        yield from exchange_tables(difference)
    if listed:
        yield from hosts_by_rank(found.hosts, width)


def _verdict(found: Reordered) -> str:
    if found.cost_s >= found.cost_before_s:
        better = "The present order is the best that was found"
    else:
        better = f"The new order costs {digits(found.cost_before_s / found.cost_s)}x less than the present one"
    if found.gap <= 1e-6:
        return f"{better}; no order costs less."
    if math.isinf(found.gap):
        return f"{better}."
    return f"{better}, and at most {percent(found.gap)} more than the best possible."


def _notes(found: Reordered, difference: Difference) -> Iterator[str]:
    yield of_far_hosts(difference)
    yield from filled_note(len(found.hosts), found.filled)
    yield from stopped_note(stopped=found.stopped)


def of_far_hosts(difference: Difference) -> str:
    """Says which hosts are far from each other."""
    if difference.far_s is None:
        return (
            "No two hosts are clearly farther from each other than others, so the order of ranks matters little here."
        )
    return (
        f"Hosts are far from each other from {time(difference.far_s)} one way, "
        f"as {percent(difference.far_pairs)} of all pairs are."
    )


def filled_note(hosts: int, filled: int) -> Iterator[str]:
    """Says how distances were inferred, if some were."""
    if filled:
        yield (
            f"{filled} of {hosts * (hosts - 1) // 2} pairs were not measured. Such a pair counts as long as the "
            "longest hop of a chain of measured pairs that joins its hosts: of the chain whose longest hop is shortest."
        )


def stopped_note(*, stopped: bool) -> Iterator[str]:
    """Says that a search was ended, if it was."""
    if stopped:
        yield "The time limit ended the search: another run may find another order."


def hosts_by_rank(hosts: Sequence[str], width: int) -> Iterator[RenderableType]:
    """Lists the hosts in their order."""
    yield ""
    yield Text("Hosts by rank", "dim")
    more = f" and {len(hosts) - MAX_HOSTS} more; `--write hosts=FILE` writes all" if len(hosts) > MAX_HOSTS else ""
    yield Text(lines(" ".join(hosts[:MAX_HOSTS]) + more, width))


def exchange_tables(difference: Difference) -> Iterator[RenderableType]:
    """Lists the exchanges of one order only."""
    yield from _exchanges("Exchanges only in the old order", difference.dropped)
    yield from _exchanges("Exchanges only in the new order", difference.added)


def _exchanges(title: str, exchanges: tuple[Exchange, ...]) -> Iterator[RenderableType]:
    yield ""
    if not exchanges:
        yield Text(f"{title}: none", "dim")
        return
    with_bytes = exchanges[0].nbytes is not None
    table = of_numbers(title, "one way", *(["bytes"] if with_bytes else []))
    for each in exchanges[:MAX_EXCHANGES]:
        table.add_row(
            " - ".join(each.hosts), time(each.time_s), *([size(each.nbytes)] if each.nbytes is not None else [])
        )
    if len(exchanges) > MAX_EXCHANGES:
        table.add_row(f"{len(exchanges) - MAX_EXCHANGES} more", *([""] * (1 + with_bytes)))
    yield table

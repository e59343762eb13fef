"""Prints an order of hosts for a job on a terminal, and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.quantity import counted, digits, percent, size, time
from syncline.reordering.screen import exchange_tables, filled_note, hosts_by_rank, of_far_hosts, stopped_note
from syncline.terminal.prose import lines
from syncline.terminal.table import of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.reordering.difference import Difference, Exchange
    from syncline.reordering.jobs import ReorderedJob


def job_screen(
    found: ReorderedJob, difference: Difference, width: int, *, explain: bool, listed: bool
) -> RenderableType:
    """The screen for a terminal of ``width`` columns. ``listed`` asks for the hosts, and ``explain`` for exchanges."""
    return Group(*_parts(found, difference, width, explain=explain, listed=listed))


def job_as_dict(found: ReorderedJob, difference: Difference) -> dict[str, Any]:
    """What ``--json`` prints."""

    def exchange(each: Exchange) -> dict[str, Any]:
        return {"hosts": list(each.hosts), "time_s": each.time_s, "bytes": each.nbytes, "messages": each.messages}

    return {
        "hosts": list(found.hosts),
        "before": list(found.before),
        "job": found.job,
        "network": found.network,
        "ranks_per_host": found.ranks_per_host,
        "step_s": found.step_s,
        "step_before_s": found.step_before_s,
        "bound_s": found.bound_s,
        "exhaustive": found.exhaustive,
        "simulations": found.simulations,
        "starts": dict(found.starts),
        "filled_pairs": found.filled,
        "stopped_by_limit": found.stopped,
        "seed": found.seed,
        "fabric_replaced": found.replaced,
        "far_s": difference.far_s,
        "far_pairs": difference.far_pairs,
        "exchanges": difference.exchanges,
        "far_before": difference.far_before,
        "far_after": difference.far_after,
        "far_messages_before": difference.far_messages_before,
        "far_messages_after": difference.far_messages_after,
        "far_bytes_before": difference.far_bytes_before,
        "far_bytes_after": difference.far_bytes_after,
        "dropped": [exchange(each) for each in difference.dropped],
        "added": [exchange(each) for each in difference.added],
    }


def _parts(
    found: ReorderedJob, difference: Difference, width: int, *, explain: bool, listed: bool
) -> Iterator[RenderableType]:
    hosts = len(found.hosts)
    each = f" with {counted(found.ranks_per_host, 'rank')} each" if found.ranks_per_host > 1 else ""
    yield Text.assemble((found.job, "bold"), (f"  simulated on {counted(hosts, 'host')}{each}", "dim"))
    yield ""
    yield Text(lines(_verdict(found), width), "bold")
    yield ""
    table = of_numbers("", "before", "now")
    table.add_row("step", time(found.step_before_s), time(found.step_s))
    if difference.far_s is not None:
        far = f"of {counted(difference.exchanges, 'exchange')}"
        table.add_row("exchanges of far hosts", str(difference.far_before), f"{difference.far_after} {far}")
        messages = (difference.far_messages_before, difference.far_messages_after)
        table.add_row("messages of far hosts", *(f"{each:,}" for each in messages))
        table.add_row("bytes of far hosts", size(difference.far_bytes_before), size(difference.far_bytes_after))
    yield table
    yield ""
    for sentence in _notes(found, difference):
        yield Text(lines(sentence, width), "dim")
    if explain:
        yield ""
        starts = of_numbers("The search started from", "step")
        for name, step_s in found.starts:
            starts.add_row(name, time(step_s))
        yield starts
        yield from exchange_tables(difference)
    if listed:
        yield from hosts_by_rank(found.hosts, width)


def _verdict(found: ReorderedJob) -> str:
    if found.step_s >= found.step_before_s:
        better = "The present order is the best that was found"
    else:
        better = f"A step takes {percent(1 - found.step_s / found.step_before_s)} less time in the new order"
        if found.step_before_s >= 2 * found.step_s > 0:
            better = f"The new order is {digits(found.step_before_s / found.step_s)}x faster than the present one"
    return f"{better}, and no order is faster." if found.exhaustive else f"{better}."


def _notes(found: ReorderedJob, difference: Difference) -> Iterator[str]:
    orders = "all " if found.exhaustive else ""
    yield f"Simulated {orders}{counted(found.simulations, 'order')} with the network model {found.network}."
    if found.gap > 0 and not math.isinf(found.gap):
        yield (
            "With all hosts as near and as fast as the nearest and fastest two, a step would take "
            f"{time(found.bound_s)}: a loose bound, which this order exceeds by {percent(found.gap)}."
        )
    if found.replaced:
        yield "The measured network replaced the fabric of the scenario."
    yield of_far_hosts(difference)
    yield from filled_note(len(found.hosts), found.filled)
    yield from stopped_note(stopped=found.stopped)

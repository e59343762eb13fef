"""Prints the outcome of a probe."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING

from syncline.probing.estimates import MIN_SAMPLES
from syncline.quantity import counted, duration, listed, percent, rate, time
from syncline.terminal.prose import lines
from syncline.terminal.table import of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from syncline.probing.outcome import Outcome

MAX_LISTED = 6
"""The most failures of one kind that are listed."""
_CLOCKS = {
    "kernel": "the kernel's times of receipt",
    "user": "the program's times of receipt, which include the scheduling of the program",
    "mixed": "the kernel's times of receipt for some pairs, the program's for others",
    "runtime": "the program's times, which include the runtime's work on both ranks",
}


def summary(outcome: Outcome, width: int) -> Iterator[RenderableType]:
    """Yields what was measured: a line, a table, and a paragraph for ``width`` columns that says how sure it is."""
    measured = outcome.measured
    pairs = measured.pairs.values()
    hosts = len(measured.hosts)
    yield (
        f"{counted(hosts, 'host')}, {len(pairs):,} of {counted(hosts * (hosts - 1), 'pair')} in "
        f"{counted(outcome.rounds, 'round')}, {duration(outcome.took_s)}"
    )
    trips = [pair.rtt_s for pair in pairs if pair.rtt_s is not None]
    rates = [pair.rate_bytes_per_s for pair in pairs if pair.rate_bytes_per_s is not None]
    if trips or rates:
        table = of_numbers("", "smallest", "median", "largest")
        for name, values, shown in (("round trip", trips, time), ("rate", rates, rate)):
            if values:
                table.add_row(name, *(shown(each) for each in (min(values), statistics.median(values), max(values))))
        yield table
    yield lines(" ".join([*_about_round_trips(outcome), *_about_rates(rates)]), width)


def _about_round_trips(outcome: Outcome) -> Iterator[str]:
    """Yields sentences about samples and their errors."""
    pairs = outcome.measured.pairs.values()
    echoes = [pair for pair in pairs if pair.samples or pair.lost]
    if not echoes:
        return
    fewest, most = (choose(pair.samples for pair in echoes) for choose in (min, max))
    each = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    yield f"Round trips are 10th percentiles of {each} samples a pair, by {_CLOCKS.get(outcome.clock, outcome.clock)}."
    errors = [pair.rtt_error_s / pair.rtt_s for pair in pairs if pair.rtt_s and pair.rtt_error_s is not None]
    if errors:
        yield (
            f"With 95 % confidence they are within {percent(statistics.median(errors))} (median over pairs; "
            f"{percent(max(errors))} at worst)."
        )
    lost, sent = sum(pair.lost for pair in echoes), sum(pair.lost + pair.samples for pair in echoes)
    further = "".join(
        f", {count:,} {word}"
        for count, word in (
            (sum(pair.duplicates for pair in echoes), "came back twice"),
            (outcome.reordered, "out of order"),
            (outcome.ignored, "foreign packets ignored"),
        )
        if count
    )
    yield f"Of {sent:,} echoes {percent(lost / sent)} were lost{further}."


def _about_rates(rates: Sequence[float]) -> Iterator[str]:
    if rates:
        yield "Rates are those of one connection."


def problems(outcome: Outcome) -> Iterator[str]:
    """Yields the lines that say what failed, and what may be wrong."""
    for host in outcome.hosts[:MAX_LISTED]:
        yield f"host {host.host} failed: {host.why}"
    if len(outcome.hosts) > MAX_LISTED:
        yield f"and {len(outcome.hosts) - MAX_LISTED} further hosts; --json lists all"
    for why, count in Counter(each.why for each in outcome.pairs).most_common(MAX_LISTED):
        found = [f"{each.origin} to {each.target}" for each in outcome.pairs if each.why == why]
        named = listed([*found[:3], *([f"{count - 3} more"] if count > 3 else [])])
        yield f"{counted(count, 'pair')} not measured: {why}: {named}"
    reasons = [*(host.why for host in outcome.hosts), *(pair.why for pair in outcome.pairs)]
    if any("UDP" in why for why in reasons):
        yield "Let UDP pass between the hosts; --port N uses one port alone."
    if outcome.several:
        names = outcome.several[:MAX_LISTED]
        chosen = listed([f"{name} at {outcome.addresses[name]}" for name in names if name in outcome.addresses])
        if chosen:
            yield f"Hosts have several addresses, and were reached like {chosen}; `address=` in --hosts chooses."
    few = sum(0 < pair.samples < MIN_SAMPLES for pair in outcome.measured.pairs.values())
    if few:
        yield f"{counted(few, 'pair')} with fewer than {MIN_SAMPLES} samples: no confidence interval"
    if outcome.limited:
        yield "The budget ended the probe; the file holds what was measured until then."
    if outcome.interrupted:
        yield "Interrupted; the file holds what was measured until then."


def next_steps(path: str) -> Iterator[str]:
    """Yields the lines that say what can be done with the file."""
    yield f"Find hosts that are near each other:  syncline group {path}"
    yield f"Find a cheap order of ranks:          syncline reorder {path}"

"""Prints a file of measurements: what it holds, how sure that is, and a heat map of few hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.grouping.heat_map import CELLS, heat_map, shown
from syncline.grouping.names import short
from syncline.quantity import counted, digits, listed, percent
from syncline.terminal.prose import lines
from syncline.terminal.table import bare, of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.table import Table

    from syncline.distances.summary import By, Range, Summary

MAX_LISTED = 4
"""The most pairs without a measurement that are listed."""
WORDS: dict[By, str] = {"rtt": "round trip", "rate": "rate"}


def screen(
    found: Summary,
    values: Mapping[tuple[int, int], float],
    by: By,
    order: Sequence[int] | None,
    width: int,
    *,
    written: str,
    grouped: bool,
    drawn: bool,
) -> RenderableType:
    """The screen for a terminal of ``width`` columns.

    ``values`` are those of the heat map, and ``order`` is that of its hosts; None if there are too many for one.
    ``written`` says when the file was written, and ``grouped`` whether the order keeps given groups together.
    ``drawn`` says whether a file has the picture.
    """
    return Group(*_parts(found, values, by, order, width, written, grouped=grouped, drawn=drawn))


def _parts(
    found: Summary,
    values: Mapping[tuple[int, int], float],
    by: By,
    order: Sequence[int] | None,
    width: int,
    written: str,
    *,
    grouped: bool,
    drawn: bool,
) -> Iterator[RenderableType]:
    subject = f"{counted(len(found.hosts), 'host')}; file of {written}"
    yield Text.assemble((found.source, "bold"), (f"  {subject}", "dim"))
    yield Text(lines(_coverage(found), width), "bold")
    if found.round_trips is None and found.rates is None:
        if sentences := " ".join(_missing(found)):
            yield Text(lines(sentences, width))
        return
    yield ""
    yield _spreads(found)
    for topic in (_certainty(found), _directions(found), _missing(found)):
        if sentences := " ".join(topic):
            yield Text(lines(sentences, width))
    yield ""
    yield _extremes(found)
    if order is None and not drawn:
        yield ""
        yield Text(f"More than {CELLS} hosts: --svg FILE draws them.", "dim")
    if order is not None:
        yield ""
        names = short([host.name for host in found.hosts])
        ordered = "in the order of groups" if grouped else "ordered by cluster"
        yield from heat_map(values, order, by, width, ordered=ordered, names=names)


def _coverage(found: Summary) -> str:
    """How many pairs were measured, and what of them."""
    what = listed([f"{WORDS[by]}s" for by in WORDS if found.spread(by) is not None]) or "nothing"
    if found.measured == found.possible:
        some = f"All {_pairs(found.possible)} of hosts"
    else:
        share = percent(found.measured / found.possible)
        some = f"{found.measured:,} of {_pairs(found.possible)} of hosts ({share})"
    both = f", {found.both_directions:,} in both directions" if found.measured else ""
    return f"{some} measured{both}: {what}."


def _pairs(count: int) -> str:
    return f"{count:,} pair" if count == 1 else f"{count:,} pairs"


def _spreads(found: Summary) -> Table:
    table = of_numbers("", "pairs", "smallest", "10 %", "median", "90 %", "largest", spare=("10 %", "90 %"))
    table.columns[0].no_wrap = True
    for by, word in WORDS.items():
        if (each := found.spread(by)) is not None:
            numbers = (each.smallest, each.percentile_10, each.median, each.percentile_90, each.largest)
            table.add_row(word, f"{each.pairs:,}", *(shown(number, by) for number in numbers))
    return table


def _certainty(found: Summary) -> Iterator[str]:
    """Yields sentences about samples and their errors."""
    if found.round_trips is not None:
        if found.samples is None:
            yield "The file does not say from how many samples."
        else:
            sure = ""
            if found.relative_error is not None:
                middle, worst = map(percent, found.relative_error)
                sure = f", with 95 % confidence within {middle} (median; {worst} at worst)"
            yield f"Each round trip has {_each(found.samples, 'sample')}{sure}."
        if found.sent:
            yield f"Of {found.sent:,} echoes {percent(found.lost / found.sent)} were lost."
    if found.transfers is not None:
        yield f"Each rate has {_each(found.transfers, 'transfer')}."


def _each(counts: Range, word: str) -> str:
    if counts.fewest == counts.most:
        return f"{counts.most:,} {word}" if counts.most == 1 else f"{counts.most:,} {word}s"
    return f"{counts.fewest:,} to {counts.most:,} {word}s (median {digits(counts.median)})"


def _directions(found: Summary) -> Iterator[str]:
    """Yields sentences about the two directions of pairs."""
    for by, word in WORDS.items():
        each = found.spread(by)
        if each is not None and each.asymmetry is not None:
            unlike = each.asymmetry
            yield (
                f"The {word}s of the two directions differ by {percent(unlike.median)} (median of "
                f"{_pairs(unlike.pairs)}; {percent(unlike.largest)} at most, between "
                f"{listed(unlike.between)}); a pair has the {'larger' if by == 'rtt' else 'lower'} one."
            )


def _missing(found: Summary) -> Iterator[str]:
    """Yields sentences about pairs that were not measured."""
    count = found.possible - found.measured
    if not count:
        return
    names = [" - ".join(pair) for pair in found.missing[:MAX_LISTED]]
    more = [f"{count - len(names):,} more"] if count > len(names) else []
    yield f"{_pairs(count)} without a measurement: {listed([*names, *more])}."
    if found.without_value:
        yield f"The file lists {found.without_value:,} of them, without a value."
    most = min(found.hosts, key=lambda host: host.pairs)
    lacks = len(found.hosts) - 1 - most.pairs
    if count > MAX_LISTED and 2 * lacks >= count:
        yield f"{most.name} is in {lacks:,} of them."


def _extremes(found: Summary) -> Table:
    """The fastest and slowest pairs."""
    table = bare()
    table.add_column("")
    table.add_column("between", overflow="fold")
    table.add_column("measured", justify="right")
    for by, word in WORDS.items():
        if (each := found.spread(by)) is None:
            continue
        fast, slow = (each.lowest, each.highest) if by == "rtt" else (each.highest, each.lowest)
        titles = ("shortest", "longest") if by == "rtt" else ("highest", "lowest")
        # Of few pairs, none is in both lists.
        slow = slow[: max(each.pairs - len(fast), 0)]
        for title, listing in zip(titles, (fast, slow), strict=True):
            for at, (ends, value) in enumerate(listing):
                table.add_row(f"{title} {word}s" if not at else "", " - ".join(ends), shown(value, by))
    return table

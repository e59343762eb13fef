"""Prints an ensemble on a terminal: the spread of its results, and whether they fall into two groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from syncline.ensembles.spread import MIN_COUNT
from syncline.quantity import counted, listed, percent, time
from syncline.terminal import streams
from syncline.terminal.table import of_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from syncline.ensembles.runs import Ensemble
    from syncline.ensembles.spread import Spread


def answer(ensemble: Ensemble) -> RenderableType:
    """The screen for a terminal."""
    return Group(*_parts(ensemble))


def as_text(ensemble: Ensemble, width: int = 80) -> str:
    """The screen as text."""
    return streams.as_text(answer(ensemble), width)


def _parts(ensemble: Ensemble) -> Iterator[RenderableType]:
    seeds = f"seeds {ensemble.seeds[0]} to {ensemble.seeds[-1]}" if ensemble.seeds else "no seed"
    finished = len(ensemble.finished)
    yield Text.assemble((ensemble.name, "bold"), (f"  {counted(len(ensemble.seeds), 'run')}, {seeds}", "dim"))
    if ensemble.interrupted:
        yield Text("Interrupted: unfinished runs are missing.", "bold yellow")
    if cut := len(ensemble.summaries) - finished:
        yield Text(f"{counted(cut, 'run')} reached a limit and {'is' if cut == 1 else 'are'} left out.", "bold yellow")
    if not finished:
        return
    yield ""
    yield Padding(_table(ensemble), (0, 0, 0, 2))
    yield ""
    yield Text(groups(ensemble.spread("total_time_s"), time, finished))
    bounds = Counter(each.bottleneck.name for each in ensemble.finished).most_common()
    said = [f"{name} in {counted(count, 'run')}" for name, count in bounds]
    yield Text(f"Bottleneck: {bounds[0][0]}." if len(bounds) == 1 else f"Bottleneck: {listed(said)}.")


def groups(spread: Spread, shown: Callable[[float], str], runs: int) -> str:
    """Says in a sentence whether outcomes fall into two groups."""
    if spread.groups is None:
        if runs < MIN_COUNT:
            return f"It takes {MIN_COUNT} runs to tell whether outcomes fall into two groups."
        return "Outcomes do not fall into two groups."
    low, high = (
        f"{counted(len(group), 'run')} {_range(group[0], group[-1], shown)}"
        for group in (spread.groups.low, spread.groups.high)
    )
    return f"Outcomes fall into two groups: {low}, and {high}. A median or mean of both describes neither."


def _range(least: float, most: float, shown: Callable[[float], str]) -> str:
    first, last = shown(least), shown(most)
    return f"at {first}" if first == last else f"from {first} to {last}"


def _table(ensemble: Ensemble) -> Table:
    table = of_numbers("", "median", "min", "max", "quartiles")
    answer = ensemble.finished[0]
    steps = answer.compute_s > 0 and not answer.jobs
    rows: list[tuple[str, str, Callable[[float], str]]] = [("step time" if steps else "time", "step_time_s", time)]
    if steps:
        rows.append(("exposed communication", "exposed_fraction", percent))
    if answer.packets is not None:
        rows += [
            ("packets dropped", "packets.dropped", _whole),
            ("segments sent again", "packets.retransmissions", _whole),
            ("time-outs", "packets.timeouts", _whole),
        ]
    for heading, name, shown in rows:
        of = ensemble.spread(name)
        between = f"{shown(of.lower_quartile)} to {shown(of.upper_quartile)}"
        table.add_row(heading, shown(of.median), shown(of.least), shown(of.most), between)
    return table


def _whole(value: float) -> str:
    return f"{value:.0f}"

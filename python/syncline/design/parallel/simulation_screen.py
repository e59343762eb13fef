"""Simulated configurations on a terminal and in pages, beside their estimates, and why the two differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from syncline.design.parallel.screen import axes
from syncline.design.parallel.simulation import WAITS
from syncline.quantity import percent, time
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from syncline.design.parallel.simulation import Simulated, SimulatedJob

HEADS = ("simulated configuration", "estimate", "simulated", "difference")
WHY = (
    "A simulation follows each message between stages, tokens to experts and back, and gradients and parameters,"
    " through the network; what else stays within a layer takes the time of the estimate. Collectives take NCCL's"
    " measured times in both, alone; in a simulation, they also share links. The two differ in how much of that"
    " communication computing hides, which the estimate takes from measured steps, as a constant of the software."
)
"""Why simulated and estimated steps differ."""


def blocks(found: Sequence[Simulated], width: int) -> list[RenderableType]:
    """The parts of the screen: a table, and why the two differ."""
    table = bare()
    for heading in HEADS:
        left = heading == HEADS[0]
        table.add_column(heading, justify="left" if left else "right", no_wrap=not left)
    for cells in rows(found):
        table.add_row(*cells)
    made: list[RenderableType] = [Text(), table]
    if any(each.step_s is not None for each in found):
        made += [Text(), Text(lines(f"{compared(found)} {WHY}", width))]
    for each in found:
        if each.reason is not None:
            made += [Text(), Text(lines(f"{named(each)} is not simulated: {each.reason}.", width))]
    return made


def of_job(found: SimulatedJob, estimate_s: float, width: int) -> list[RenderableType]:
    """The same of the job of a file, whose step was estimated."""
    if found.step_s is None:
        return [Text(), Text(lines(f"The job is not simulated: {found.reason}.", width))]
    difference = found.step_s / estimate_s - 1
    more = "more" if difference > 0 else "less"
    said = (
        f"simulated: {time(found.step_s)}, {percent(abs(difference))} {more} than the estimate. Ranks wait"
        f" {time(found.exposed_s or 0.0)} for the network."
    )
    return [Text(), Text(lines(f"{said} {WHY}", width))]


def named(found: Simulated) -> str:
    """A configuration with its number of accelerators."""
    return f"{axes(found.configuration)} on {found.configuration.accelerators:,}"


def rows(found: Sequence[Simulated]) -> list[tuple[str, str, str, str]]:
    """The rows of the table, as texts."""
    made = []
    for each in found:
        if each.step_s is None or each.difference is None:
            made.append((named(each), time(each.configuration.step_s), "-", "-"))
        else:
            sign = "+" if each.difference > 0 else "-" if each.difference < 0 else ""
            shown = f"{sign}{percent(abs(each.difference))}"
            made.append((named(each), time(each.configuration.step_s), time(each.step_s), shown))
    return made


def compared(found: Sequence[Simulated]) -> str:
    """What the first simulated configuration waits for, by both."""
    first = next(each for each in found if each.step_s is not None)
    waits = sum(first.configuration.parts[name] for name in WAITS)
    experts = first.configuration.parts["expert"] > 0
    what = f"messages, {'tokens, ' if experts else ''}gradients and parameters"
    return (
        f"In {named(first)}, ranks wait {time(waits)} for {what} by the estimate, and"
        f" {time(first.exposed_s or 0.0)} by the simulation."
    )


def as_list(found: Sequence[Simulated]) -> list[dict[str, Any]]:
    """The simulated configurations as plain data."""
    return [
        {
            "job": dict(each.configuration.job),
            "gpus": each.configuration.accelerators,
            "estimated_s": each.configuration.step_s,
            "simulated_s": each.step_s,
            "exposed_s": each.exposed_s,
            "not_simulated": each.reason,
        }
        for each in found
    ]

"""Prints the results of a search on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncline.design.bandwidth.algorithms import described
from syncline.design.bandwidth.schemes import Scheme
from syncline.quantity import counted, digits, listed, money, percent, rate, time
from syncline.report.subject import calibration
from syncline.terminal import streams
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.table import Table

    from syncline.design.bandwidth.search_rates import Allocation, SearchResult

SHAPES = 8
ALGORITHMS = 8
FRONT = 20
"""Maximum number of rows of each table."""
_PREDICTED_WORTH = "predicted\nsteps/s for $1 M"
_GOALS = {
    "time": "the shortest step",
    "performance_per_cost": "the most steps per second and dollar",
    "pareto": "all trade-offs between time and cost",
}


def screen(found: SearchResult, width: int) -> RenderableType:
    """The screen for a terminal of ``width`` columns."""
    return Group(*_parts(found, width))


def as_text(found: SearchResult, width: int = 100) -> str:
    """The screen as text."""
    return streams.as_text(screen(found, width), width)


def _parts(found: SearchResult, width: int) -> Iterator[RenderableType]:
    winner = found.winner
    yield Text.assemble((found.request.name, "bold"), (f"  {_subject(found)}", "dim"))
    yield ""
    yield Text(lines(answer(found), width), "bold")
    yield ""
    yield _allocations([each for each in found.allocations if each.shape == winner.shape], found)
    others = [each for each in found.allocations if each.shape != winner.shape]
    if others:
        yield ""
        yield Text(f"Other shapes, the best rates of each; {counted(len(others), 'shape')} in total", "dim")
        yield _shapes(others[:SHAPES], found)
    if found.front:
        yield ""
        yield Text("Time against cost: the Pareto front", "dim")
        yield _front(found)
    yield ""
    if winner.reached:
        yield Text(lines(f"Limits on the time: {listed([_said(key) for key in winner.reached])}.", width))
    for shape, why in found.skipped[:SHAPES]:
        yield Text(lines(f"Left out: {shape}: {why}", width), "yellow")
    if len(found.skipped) > SHAPES:
        yield Text(f"Left out: {len(found.skipped) - SHAPES} more", "yellow")
    if found.results:
        summary = found.results[0].summary
        yield Text(
            lines(
                f"Models: predicted from bytes and rates, one exchange after the other; simulated with network "
                f"{summary.network_model}, compute {summary.compute_model}; {calibration(summary)}",
                width,
            ),
            "dim",
        )
    for job, fixed in zip(found.request.jobs, found.algorithms, strict=True):
        if algorithms := described(fixed):
            whose = f"Algorithms of {job.name}" if found.request.spec.jobs else "Algorithms"
            more = f"; {len(algorithms) - ALGORITHMS} more in design.json" if len(algorithms) > ALGORITHMS else ""
            yield Text(lines(f"{whose}: {'; '.join(algorithms[:ALGORITHMS])}{more}", width), "dim")
    for note in found.notes:
        yield Text(lines(f"Note: {note}", width), "dim")


def _subject(found: SearchResult) -> str:
    spec = found.request.spec
    budget = [each for each in (spec.budget.rate_per_npu and f"{spec.budget.rate_per_npu} per NPU",) if each]
    budget += [money(spec.budget.usd)] if spec.budget.usd is not None else []
    jobs = f"{counted(len(found.request.jobs), 'job')}, " if spec.jobs else ""
    return f"{jobs}{found.candidate.npus} NPUs, budget {listed(budget)}, for {_GOALS[spec.objective]}"


def answer(found: SearchResult) -> str:
    """The answer in sentences."""
    winner = found.winner
    split = listed([f"{rate(each)} for {name}" for name, each in zip(winner.names, winner.rates, strict=True)])
    text = f"{winner.shape}: {split}."
    even = next(
        (each for each in found.allocations if each.scheme == Scheme.EQUAL and each.shape == winner.shape), None
    )
    if even is None or not even.total_s:
        return text
    spec = found.request.spec
    steps = "A step takes" if not spec.jobs else "The steps take"
    took = winner.found_s
    if even is winner:
        return f"{text} {steps} {time(took)}: equal bandwidths are best."
    ratio = even.found_s / took
    beside = f"{digits(ratio)}x as fast as" if ratio >= 1 else f"{digits(1 / ratio)}x as long as"
    text += f" {steps} {time(took)}, {beside} with equal bandwidths"
    if winner.usd and even.usd:
        ratio *= (even.usd + even.npus_usd) / (winner.usd + winner.npus_usd)
        text += f", with a network for {money(winner.usd)} instead of {money(even.usd)}"
        text += f": {digits(ratio)}x the performance per dollar" + (" of network and NPUs" if winner.npus_usd else "")
    return f"{text}."


def _allocations(allocations: Sequence[Allocation], found: SearchResult) -> Table:
    """The table of schemes, with a column for each."""
    table = bare()
    table.add_column("", no_wrap=True)
    for each in allocations:
        best = each is found.winner
        table.add_column(
            each.scheme, justify="right", header_style="bold" if best else "dim", style="bold" if best else ""
        )

    def row(name: str, cell: Callable[[Allocation], str]) -> None:
        table.add_row(name, *map(cell, allocations))

    for at, name in enumerate(found.winner.names):
        row(name, lambda each, at=at: rate(each.rates[at]))  # type: ignore[misc]
        row("", lambda each, at=at: percent(each.shares[at]))  # type: ignore[misc]
    row("predicted", lambda each: time(each.total_s))
    row("simulated", lambda each: time(each.found_s) if each.simulated else "")
    row("bandwidth used", lambda each: "" if each.used is None else percent(each.used))
    if found.winner.usd is not None:
        row("cost of the network", lambda each: money(each.usd or 0.0))
        row("steps/s for $1 M", lambda each: digits(1e6 * (each.found_per_cost or 0.0)))
    if any(each.broken for each in allocations):
        row("breaks", lambda each: ", ".join(map(_said, each.broken)))
    return table


def _shapes(allocations: Sequence[Allocation], found: SearchResult) -> Table:
    table = bare()
    table.add_column("shape", overflow="fold")
    table.add_column("rates", overflow="fold")
    table.add_column("predicted", justify="right")
    table.add_column("simulated", justify="right")
    priced = found.winner.usd is not None
    if priced:
        table.add_column("cost", justify="right")
        table.add_column(_PREDICTED_WORTH, justify="right")
    for each in allocations:
        cells = [each.shape, ", ".join(rate(one) for one in each.rates), time(each.total_s)]
        cells.append(time(each.found_s) if each.simulated else "")
        if priced:
            cells += [money(each.usd or 0.0), digits(1e6 * (each.per_cost or 0.0))]
        table.add_row(*cells)
    return table


def _front(found: SearchResult) -> Table:
    front = found.front
    table = bare()
    for name in ("cost", "predicted", "simulated", _PREDICTED_WORTH):
        table.add_column(name, justify="right")
    several = len({each.shape for each in front}) > 1
    if several:
        table.add_column("shape", overflow="fold")
    table.add_column("rates", overflow="fold")
    step = max(1, -(-len(front) // FRONT))
    best = found.winner
    for at, each in enumerate(front):
        if at % step and each is not best and not each.simulated:
            continue
        cells = [money(each.usd or 0.0), time(each.total_s), time(each.found_s) if each.simulated else ""]
        cells += [digits(1e6 * (each.per_cost or 0.0)), *([each.shape] if several else [])]
        table.add_row(*cells, ", ".join(rate(one) for one in each.rates), style="bold" if each is best else "")
    return table


def _said(key: str) -> str:
    """The name of a constraint in words."""
    words = {
        "budget.rate_per_npu": "the bandwidth budget",
        "budget.usd": "the dollar budget",
        "order": "the order",
    }
    if key in words:
        return words[key]
    if key.startswith("bandwidth."):
        name, bound = key.removeprefix("bandwidth.").rsplit(".", 1)
        return f"the {bound} of {name}"
    return f"the {key}"

"""What a search by time, dollars or energy prints beside its best configuration: the frontier, and why it wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from syncline.design.parallel.objective import Objective, hours
from syncline.design.parallel.screen import axes
from syncline.estimate.screen import PARTS
from syncline.quantity import digits, listed, money, percent, scaled, time
from syncline.terminal.prose import lines
from syncline.terminal.table import bare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from syncline.design.parallel.objective import Costs
    from syncline.design.parallel.search_configurations import Configuration, Found
    from syncline.design.parallel.sizes import Sweep

NEXT = 3
"""How many configurations the winner is compared with."""
TRILLION = 1e12
_DAY = 86_400
_LEAST = 0.001
"""Parts that differ by less than this part of a step are not named."""


def whole(found: Found, configuration: Configuration, of_step: float) -> float:
    """What training with a trillion tokens takes of something of which a step takes ``of_step``."""
    return of_step * TRILLION / (found.request.global_batch * found.request.sequence)


def energy(joules: float) -> str:
    """An energy, in units of power and hours: ``4.82 MWh``."""
    return scaled(joules / 3600, "Wh")


def blocks(sweep: Sweep, width: int) -> list[RenderableType]:
    """The parts of the screen: frontier, refused numbers, assumptions, comparison with the next configurations."""
    found: list[RenderableType] = [Text(), _table(sweep)]
    for each in sweep.refused:
        found += [Text(), Text(lines(f"{each.gpus:,} accelerators: {each.reason}.", width))]
    star = " No other number is both faster and cheaper than those with a star." if len(sweep.founds) > 1 else ""
    found += [Text(), Text(lines(f"{assumptions(sweep)}{star}", width))]
    if compared := why(sweep):
        found += [Text(), Text(lines(compared, width))]
    return found


def _table(sweep: Sweep) -> RenderableType:
    priced = sweep.costs.usd_per_h is not None
    table = bare(spare=("MFU",))
    headings = [
        "GPUs",
        "best configuration",
        "step",
        "MFU",
        "days",
        *(["dollars"] if priced else ["GPU-hours"]),
        "energy",
        "",
    ]
    for heading in headings:
        table.add_column(
            heading,
            justify="left" if heading in ("best configuration", "") else "right",
            no_wrap=heading != "best configuration",
        )
    frontier = sweep.frontier
    for found in sweep.founds:
        best = found.best[0]
        cells = [
            f"{best.accelerators:,}",
            axes(best),
            time(best.step_s),
            "" if (part := found.mfu(best)) is None else percent(part),
            digits(whole(found, best, best.step_s) / _DAY),
            spent(sweep, found, best),
            energy(whole(found, best, sweep.costs.joules(best))),
            "best" if found is sweep.best else "*" if found in frontier else "",
        ]
        table.add_row(*cells)
    return table


def spent(sweep: Sweep, found: Found, configuration: Configuration) -> str:
    """Dollars of a trillion tokens, or without a price the accelerator-hours."""
    usd = sweep.costs.usd(configuration)
    if usd is None:
        return scaled(whole(found, configuration, hours(configuration)), "h")
    return money(whole(found, configuration, usd))


def assumptions(sweep: Sweep) -> str:
    """What the numbers of a table of costs count."""
    costs = sweep.costs
    price = "" if costs.usd_per_h is None else f" at {money(costs.usd_per_h)} an hour,"
    what = "GPU-hours" if costs.usd_per_h is None else "dollars"
    return (
        f"Days, {what} and energy are those of a trillion tokens:{price} {digits(costs.board_w)} W for an accelerator "
        f"that computes, and {percent(costs.waiting)} of it while it waits. Servers, network and cooling are not "
        "counted."
    )


def why(sweep: Sweep) -> str | None:
    """Why the winner wins: which part of the step differs to the next ones."""
    winner = sweep.best.best[0]
    if not (others := sweep.others(NEXT)):
        return None
    return " ".join(_against(sweep, winner, other) for other in others)


def _against(sweep: Sweep, winner: Configuration, other: Configuration) -> str:
    objective, costs = sweep.objective, sweep.costs
    mine, theirs = costs.parts(winner, objective), costs.parts(other, objective)
    score = costs.score(winner, objective)
    more = {name: (theirs[name] - mine[name]) / score for name in PARTS}
    ordered = sorted(more, key=lambda name: -more[name])
    named = [*(name for name in ordered[:2] if more[name] > _LEAST), *ordered[-1:]]
    parts = [
        f'{percent(abs(more[name]))} {"more" if more[name] > 0 else "less"} for "{PARTS[name]}"'
        for name in dict.fromkeys(named)
        if abs(more[name]) > _LEAST
    ]
    on = "" if other.accelerators == winner.accelerators else f" on {other.accelerators:,}"
    said = f"{axes(other)}{on} {_VERB[objective].format(percent(costs.score(other, objective) / score - 1))}"
    return f"{said}: {listed(parts)}." if parts else f"{said}."


_VERB = {Objective.TIME: "takes {} longer", Objective.DOLLARS: "costs {} more", Objective.ENERGY: "uses {} more energy"}


def as_dict(sweep: Sweep) -> dict[str, Any]:
    """The costs and the frontier as plain data."""
    costs, frontier = sweep.costs, sweep.frontier
    return {
        "best_by": sweep.objective.value,
        "board_w": costs.board_w,
        "waiting": costs.waiting,
        "usd_per_accelerator_hour": costs.usd_per_h,
        "best_gpus": sweep.best.request.gpus,
        "numbers": [_number(costs, each, frontier=each in frontier) for each in sweep.founds],
        "refused": [{"gpus": each.gpus, "reason": each.reason} for each in sweep.refused],
    }


def _number(costs: Costs, found: Found, *, frontier: bool) -> Mapping[str, Any]:
    best = found.best[0]
    return {
        "gpus": found.request.gpus,
        "job": dict(best.job),
        "step_s": best.step_s,
        "mfu": found.mfu(best),
        "accelerator_hours": hours(best),
        "usd": costs.usd(best),
        "joules": costs.joules(best),
        "frontier": frontier,
    }

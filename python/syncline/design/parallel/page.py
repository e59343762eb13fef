"""The winner of a search as one self-contained HTML file: its step in detail, the frontier, the best candidates."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline.design.parallel.objective import Objective, hours
from syncline.design.parallel.screen import axes
from syncline.design.parallel.simulation_screen import WHY
from syncline.design.parallel.sizes_screen import assumptions, energy, spent, whole, why
from syncline.design.parallel.training import training_job
from syncline.estimate.screen import setting
from syncline.jobs import estimate
from syncline.jobs.page import More, changes
from syncline.jobs.page import page as job_page
from syncline.quantity import digits, memory, money, percent, time
from syncline.report.html.chart import Chart, rounded
from syncline.report.html.head import figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.design.parallel.search_configurations import Configuration, Found
    from syncline.design.parallel.simulation import Simulated
    from syncline.design.parallel.sizes import Sweep

LISTED = 20
"""The most configurations in the table."""
_DAY = 86_400
_BEST = {Objective.TIME: "fastest", Objective.DOLLARS: "cheapest", Objective.ENERGY: "most frugal"}


def page(sweep: Sweep, runs: Sequence[Simulated] = ()) -> bytes:
    """The HTML of the page of the best configuration; ``runs`` are configurations that were simulated, too."""
    found = sweep.best
    request = found.request
    job = training_job(request, found.best[0])
    fitting = (
        f"{found.fitting:,} of {found.possible:,} configurations among {request.gpus:,} accelerators fit into"
        f" {memory(found.capacity)}, and were estimated."
    )
    detail = estimate(job)
    switched = changes(
        detail, [(setting(each.key, each.value), each.step_s, each.memory_bytes) for each in found.switches]
    )
    more = More(
        charts=(frontier(sweep, runs),),
        sections=(
            ("candidates", "The best candidates", "".join(_candidates(sweep, runs))),
            *([] if switched is None else [switched]),
        ),
        figures=tuple(_figures(sweep)),
        brand="syncline design parallel",
        assumptions=(fitting, assumptions(sweep), *([WHY] if runs else [])),
    )
    return job_page(detail, more)


def listed(sweep: Sweep) -> list[tuple[Found, Configuration]]:
    """The configurations of all numbers of accelerators, the best first."""
    every = [(found, configuration) for found in sweep.founds for configuration in found.best]
    return sorted(every, key=lambda each: sweep.costs.score(each[1], sweep.objective))


def _figures(sweep: Sweep) -> Iterator[str]:
    found, best = sweep.best, sweep.best.best[0]
    usd = sweep.costs.usd(best)
    if usd is not None:
        yield figure("Dollars", money(whole(found, best, usd)), "for a trillion tokens", "usd", whole(found, best, usd))
    joules = whole(found, best, sweep.costs.joules(best))
    yield figure("Energy", energy(joules), "of the accelerators, for a trillion tokens", "joules", joules)


def frontier(sweep: Sweep, runs: Sequence[Simulated] = ()) -> Chart:
    """Time against dollars, or accelerator-hours, of the best configurations."""
    rows = listed(sweep)
    priced = sweep.costs.usd_per_h is not None
    on = [each.best[0] for each in sweep.frontier]
    best = sweep.best.best[0]
    unit = "dollars" if priced else "GPU-hours"
    counts = len(sweep.founds)
    said = (
        f"Of {counts} numbers of accelerators, {len(on)} are on the frontier: no other one is both faster and cheaper."
        if counts > 1
        else f"All configurations have {best.accelerators:,} accelerators: the fastest one is the cheapest, too."
    )
    return Chart(
        "design_frontier",
        f"Time against {unit}",
        f"{said} The {_BEST[sweep.objective]} one is {axes(best)}"
        + (f" on {best.accelerators:,}." if counts > 1 else "."),
        f"A point is a configuration: days and {unit} of training with a trillion tokens. The dashed line joins the"
        " frontier;"
        " the diamond is the winner. Points of one colour have equal numbers of accelerators, and lie on a line:"
        " what they"
        " cost is proportional to their time.",
        {
            "configuration": [axes(configuration) for _, configuration in rows],
            "gpus": [configuration.accelerators for _, configuration in rows],
            "days": rounded(
                [whole(found, configuration, configuration.step_s) / _DAY for found, configuration in rows]
            ),
            "spent": rounded(
                [
                    whole(found, configuration, sweep.costs.usd(configuration) or hours(configuration))
                    for found, configuration in rows
                ]
            ),
            "unit": unit,
            "joules": rounded(
                [whole(found, configuration, sweep.costs.joules(configuration)) for found, configuration in rows]
            ),
            "simulated": [_simulated(runs, configuration) for _, configuration in rows],
            "step": rounded([configuration.step_s for _, configuration in rows]),
            "frontier": [at for at, (_, configuration) in enumerate(rows) if configuration in on][::-1],
            "best": next(at for at, (_, configuration) in enumerate(rows) if configuration is best),
        },
    )


def _simulated(runs: Sequence[Simulated], configuration: Configuration) -> float | None:
    return next((each.step_s for each in runs if each.configuration is configuration), None)


def _candidates(sweep: Sweep, runs: Sequence[Simulated]) -> Iterator[str]:
    if said := why(sweep):
        yield f'<p class="finding">{escape(said)}</p>'
    unit = "dollars" if sweep.costs.usd_per_h is not None else "GPU-hours"
    more = ("simulated",) if runs else ()
    heads = ("configuration", "accelerators", "micro-batch", "step", *more, "MFU", "memory", "days", unit, "energy")
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    rows = []
    for found, configuration in listed(sweep)[:LISTED]:
        job = configuration.how
        cells = (
            f"{configuration.accelerators:,}",
            f"{job.micro_batch} x {job.micro_batches}",
            time(configuration.step_s),
            *([] if not runs else ["-" if (ran := _simulated(runs, configuration)) is None else time(ran)]),
            "" if (part := found.mfu(configuration)) is None else percent(part),
            memory(configuration.memory_bytes),
            digits(whole(found, configuration, configuration.step_s) / _DAY),
            spent(sweep, found, configuration),
            energy(whole(found, configuration, sweep.costs.joules(configuration))),
        )
        name = escape(axes(configuration))
        rows.append(f'<tr><th scope="row">{name}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>')
    yield f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    yield f'<p class="note">Days, {unit} and energy are those of a trillion tokens.</p>'
    for each in sweep.refused:
        yield f'<p class="note">{each.gpus:,} accelerators: {escape(each.reason)}.</p>'

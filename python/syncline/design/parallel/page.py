"""The winner of a search as one self-contained HTML file: its step in detail, the frontier, the best candidates."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline.design.parallel.objective import Objective, hours
from syncline.design.parallel.screen import axes
from syncline.design.parallel.search_divisions import FRAMEWORK
from syncline.design.parallel.simulation_screen import WHY
from syncline.design.parallel.sizes_screen import assumptions, energy, spent, whole, why
from syncline.estimate.screen import setting
from syncline.jobs import TrainingJob, estimate
from syncline.jobs.page import More, changes
from syncline.jobs.page import page as job_page
from syncline.quantity import digits, memory, money, percent, time
from syncline.report.html.chart import Chart, rounded
from syncline.report.html.head import figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.design.parallel.search_divisions import Division, Found
    from syncline.design.parallel.simulation import Simulated
    from syncline.design.parallel.sizes import Sweep

LISTED = 20
"""The most divisions in the table."""
_DAY = 86_400
_BEST = {Objective.TIME: "fastest", Objective.DOLLARS: "cheapest", Objective.ENERGY: "most frugal"}


def page(sweep: Sweep, runs: Sequence[Simulated] = ()) -> bytes:
    """The HTML of the page of the best division; ``runs`` are divisions that were simulated, too."""
    found = sweep.best
    request = found.request
    job = TrainingJob(request.architecture.source, request.architecture, request.machine, found.best[0].how, FRAMEWORK)
    fitting = (
        f"{found.fitting:,} of {found.possible:,} divisions among {request.gpus:,} accelerators fit into"
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


def listed(sweep: Sweep) -> list[tuple[Found, Division]]:
    """The divisions of all numbers of accelerators, the best first."""
    every = [(found, division) for found in sweep.founds for division in found.best]
    return sorted(every, key=lambda each: sweep.costs.score(each[1], sweep.objective))


def _figures(sweep: Sweep) -> Iterator[str]:
    found, best = sweep.best, sweep.best.best[0]
    usd = sweep.costs.usd(best)
    if usd is not None:
        yield figure("Dollars", money(whole(found, best, usd)), "for a trillion tokens", "usd", whole(found, best, usd))
    joules = whole(found, best, sweep.costs.joules(best))
    yield figure("Energy", energy(joules), "of the accelerators, for a trillion tokens", "joules", joules)


def frontier(sweep: Sweep, runs: Sequence[Simulated] = ()) -> Chart:
    """Time against dollars, or accelerator-hours, of the best divisions."""
    rows = listed(sweep)
    priced = sweep.costs.usd_per_h is not None
    on = [each.best[0] for each in sweep.frontier]
    best = sweep.best.best[0]
    unit = "dollars" if priced else "GPU-hours"
    counts = len(sweep.founds)
    said = (
        f"Of {counts} numbers of accelerators, {len(on)} are on the frontier: no other one is both faster and cheaper."
        if counts > 1
        else f"All divisions have {best.accelerators:,} accelerators, so that the fastest one is the cheapest, too."
    )
    return Chart(
        "design_frontier",
        f"Time against {unit}",
        f"{said} The {_BEST[sweep.objective]} one is {axes(best)}"
        + (f" on {best.accelerators:,}." if counts > 1 else "."),
        f"A point is a division: days and {unit} of training with a trillion tokens. The dashed line joins the"
        " frontier;"
        " the diamond is the winner. Points of one colour have equal numbers of accelerators, and lie on a line:"
        " what they"
        " cost is proportional to their time.",
        {
            "division": [axes(division) for _, division in rows],
            "gpus": [division.accelerators for _, division in rows],
            "days": rounded([whole(found, division, division.step_s) / _DAY for found, division in rows]),
            "spent": rounded(
                [whole(found, division, sweep.costs.usd(division) or hours(division)) for found, division in rows]
            ),
            "unit": unit,
            "joules": rounded([whole(found, division, sweep.costs.joules(division)) for found, division in rows]),
            "simulated": [_simulated(runs, division) for _, division in rows],
            "step": rounded([division.step_s for _, division in rows]),
            "frontier": [at for at, (_, division) in enumerate(rows) if division in on][::-1],
            "best": next(at for at, (_, division) in enumerate(rows) if division is best),
        },
    )


def _simulated(runs: Sequence[Simulated], division: Division) -> float | None:
    return next((each.step_s for each in runs if each.division is division), None)


def _candidates(sweep: Sweep, runs: Sequence[Simulated]) -> Iterator[str]:
    if said := why(sweep):
        yield f'<p class="finding">{escape(said)}</p>'
    unit = "dollars" if sweep.costs.usd_per_h is not None else "GPU-hours"
    more = ("simulated",) if runs else ()
    heads = ("division", "accelerators", "micro-batch", "step", *more, "MFU", "memory", "days", unit, "energy")
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    rows = []
    for found, division in listed(sweep)[:LISTED]:
        job = division.how
        cells = (
            f"{division.accelerators:,}",
            f"{job.micro_batch} x {job.micro_batches}",
            time(division.step_s),
            *([] if not runs else ["-" if (ran := _simulated(runs, division)) is None else time(ran)]),
            "" if (part := found.mfu(division)) is None else percent(part),
            memory(division.memory_bytes),
            digits(whole(found, division, division.step_s) / _DAY),
            spent(sweep, found, division),
            energy(whole(found, division, sweep.costs.joules(division))),
        )
        name = escape(axes(division))
        rows.append(f'<tr><th scope="row">{name}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>')
    yield f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    yield f'<p class="note">Days, {unit} and energy are those of a trillion tokens.</p>'
    for each in sweep.refused:
        yield f'<p class="note">{each.gpus:,} accelerators: {escape(each.reason)}.</p>'

"""The top of the report: the answer in a sentence, the reason, and the key figures. Works without scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from syncline.quantity import money, per_kilowatt, per_million, percent, scaled, time
from syncline.report import subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.run import Run
    from syncline.summary import Summary


def head(result: Run) -> str:
    """Answer, reason, bar and key figures; after a banner if the run was cut short."""
    summary = result.summary
    return "\n".join(
        (
            *_banner(summary),
            '<section id="answer" aria-label="The answer">',
            f'<p class="lead">{_lead(summary)}</p>',
            f'<p class="reason">{escape(summary.reason)}</p>',
            *([f'<p class="reason">{escape(_packets(result))}</p>'] if summary.packets else []),
            *([f'<p class="faults">{escape(subject.overload(summary))}</p>'] if summary.overload else []),
            *([f'<p class="faults">{escape(subject.faults(summary))}</p>'] if summary.faults else []),
            *_bar(summary),
            *_figures(summary),
            "</section>",
        )
    )


def _packets(result: Run) -> str:
    """Counts of lost, repeated and marked packets, and the ports with most of them."""
    return " ".join(filter(None, (subject.packets(result.summary), subject.worst_ports(result))))


def _banner(summary: Summary) -> Iterator[str]:
    if summary.ended != "finished":
        more = "" if summary.iterations else f" {subject.NO_STEP}"
        yield f'<p class="banner" role="alert"><strong>Cut short.</strong> {subject.ENDED[summary.ended]}{more}</p>'


def _lead(summary: Summary) -> str:
    steps = max(summary.iterations, 1)
    each = f"<strong>{time(summary.total_time_s / steps)}</strong>"
    if not summary.iterations:
        what = f"The run was stopped after {each} of simulated time."
    elif summary.jobs:
        slow = (f"{escape(job.name)} {job.slowdown:.3f} times" for job in summary.jobs if job.slowdown is not None)
        said = ", ".join(slow)
        what = f"The jobs take {each}." + (
            f" Compared with each job alone, a step takes: {said} as long." if said else ""
        )
    elif summary.compute_s:
        what = f"A training step takes {each}."
    else:
        what = f"The communication takes {each}."
    if (bound := subject.bottleneck(summary)) is None:
        return what
    before, name, behind = map(escape, bound)
    return f"{what} The bottleneck is {before}<strong>{name}</strong>{behind}."


def step_bar(summary: Summary) -> str:
    """The parts of a step as a bar. The width of a part is its share of the time."""
    total = summary.total_time_s
    words = ", ".join(f"{name} {percent(seconds / total)}" for _, name, seconds in subject.parts(summary))
    spans = (
        f'<span class="{colour}" style="flex-grow:{seconds / total:.6f}"></span>'
        for colour, _, seconds in subject.parts(summary)
    )
    lines = [f'<div class="step" role="img" aria-label="A step is {escape(words)}">', *spans, "</div>"]
    return "\n".join(lines)


def _bar(summary: Summary) -> Iterator[str]:
    """The bar of the step and its legend."""
    total = summary.total_time_s
    if not total or not summary.compute_s:
        return
    steps = max(summary.iterations, 1)
    yield f'{step_bar(summary)}\n<ul class="legend">'
    for colour, name, seconds in subject.parts(summary):
        yield (
            f'<li><i class="{colour}"></i>{escape(name)} <b>{time(seconds / steps)}</b>'
            f" {escape(percent(seconds / total))}</li>"
        )
    yield "</ul>"


def figure(name: str, value: str, more: str, key: str, raw: float) -> str:
    """A key figure, with a note below it."""
    note = f"<dd class='more'>{escape(more)}</dd>" if more else ""
    return f'<div><dt>{name}</dt><dd data-key="{key}" data-value="{raw!r}">{escape(value)}</dd>{note}</div>'


def _cost(summary: Summary) -> Iterator[str]:
    """Figures of cost and power of the fabric, and of performance per dollar and per watt."""
    if summary.cost_usd is None:
        return
    worth = summary.iterations_per_s_per_usd
    more = f"by prices of {summary.prices}" if worth is None else per_million(worth)
    yield figure("Cost of the network", money(summary.cost_usd), more, "cost_usd", summary.cost_usd)
    if summary.power_w is not None:
        per_watt = summary.iterations_per_s_per_w
        more = "" if per_watt is None else per_kilowatt(per_watt)
        yield figure("Power of the network", scaled(summary.power_w, "W"), more, "power_w", summary.power_w)


def _figures(summary: Summary) -> Iterator[str]:
    steps = max(summary.iterations, 1)
    total = summary.total_time_s

    def share(seconds: float) -> str:
        return f"{percent(seconds / total)} of the time" if total else ""

    whole = "Step time" if summary.compute_s else "Time"
    yield '<dl class="figures">'
    yield figure(
        whole if summary.iterations else "Time so far",
        time(total / steps),
        f"{summary.iterations} iterations in {time(total)}" if summary.iterations > 1 else "",
        "total_time_s",
        total,
    )
    if summary.compute_s:
        yield figure(
            "Exposed communication",
            time(summary.exposed_communication_s / steps),
            "compute is idle and waits for it",
            "exposed_communication_s",
            summary.exposed_communication_s,
        )
        yield figure(
            "Communication under way",
            time(summary.communication_s / steps),
            f"{share(summary.communication_s)}, mostly hidden behind compute"
            if summary.exposed_communication_s < summary.communication_s / 2
            else share(summary.communication_s),
            "communication_s",
            summary.communication_s,
        )
    if summary.cost_usd is not None:
        yield from _cost(summary)
    yield figure(
        "Sent", scaled(summary.bytes, "B"), f"by {summary.ranks} ranks, all iterations", "bytes", summary.bytes
    )
    yield "</dl>"

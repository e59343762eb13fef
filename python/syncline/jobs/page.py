"""An estimate as one self-contained HTML file, in the style of a run's ``report.html``."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from syncline import _core
from syncline.estimate.screen import COMMUNICATION, WHY, around, exposed, many, setting
from syncline.jobs.charts import all_charts
from syncline.jobs.charts.step import exposed_by_tier, lines
from syncline.jobs.detail import detail
from syncline.jobs.screen import host_sentence, trust
from syncline.jobs.slowest_stage import slowest_stage
from syncline.quantity import listed, memory, percent, scaled, time
from syncline.report.html.head import figure
from syncline.report.html.page import document, section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.estimate.job import Job
    from syncline.jobs.alternatives import Faster
    from syncline.jobs.detail import Detail
    from syncline.jobs.estimation import Estimate
    from syncline.report.html.chart import Chart

TRILLION = 1e12
_WORDS = {
    "computing": ("compute", "computing"),
    "NVLink": ("exposed", "exposed communication over NVLink"),
    "network": ("skew", "exposed communication over the network"),
    "bubble": ("bubble", "pipeline bubble"),
    "waiting": ("idle", "kernel launches"),
    "host": ("idle", "copies from and to the host"),
}


@dataclass(frozen=True)
class More:
    """What a page shows beside the estimate of its job."""

    charts: Sequence[Chart] = ()
    """Charts before those of the job."""
    sections: Sequence[tuple[str, str, str]] = ()
    """Sections before these charts: an id, a title, and the HTML of its content."""
    figures: Sequence[str] = ()
    """Key figures, as HTML."""
    brand: str = "syncline estimate"
    assumptions: Sequence[str] = field(default=())
    """Sentences about how the numbers were obtained."""


def page(found: Estimate, more: More | None = None, better: Sequence[Faster] = ()) -> bytes:
    """The HTML of the whole page; ``better`` are changes that would make the job faster."""
    more = more or More()
    changed = changes(
        found, [(setting(each.key, each.value), each.estimate.step_s, each.estimate.memory_bytes) for each in better]
    )
    inside = detail(found.job)
    job = all_charts(found, inside)
    charts = [*more.charts, *job]
    before = [*([] if changed is None or found.fits else [changed]), *more.sections]
    after = [*([] if changed is None or not found.fits else [changed])]
    links = [
        *((name, title) for name, title, _ in before),
        *((each.name, each.title) for each in charts),
        *((name, title) for name, title, _ in after),
    ]
    contents = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title in links)
    body = f"""<header class="top">
<div><p class="brand">{escape(more.brand)}</p><h1>{escape(found.job.name)}</h1>
<p class="facts">{escape(facts(found))}</p></div>
<div class="tools" id="tools"></div>
</header>
<main>
{_head(found, inside, more)}
<nav aria-label="Contents"><ol>{contents}<li><a href="#waits">What is exposed, and why</a></li>\
<li><a href="#origin">How the numbers were obtained</a></li></ol></nav>
{_sections(before)}
{"".join(section(chart) for chart in more.charts)}
{section(job[0])}
{_waits(found, inside)}
{"".join(section(chart) for chart in job[1:])}
{_sections(after)}
{_origin(found, inside, more)}
</main>
"""
    return document(f"{found.job.name}: {more.brand}", "report", body, charts)


def _sections(sections: Sequence[tuple[str, str, str]]) -> str:
    return "".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>' for name, title, content in sections
    )


def facts(found: Estimate) -> str:
    """The job in a line."""
    job, on = found.job.job, found.job.machine
    return (
        f"{scaled(found.job.architecture.weights(), '')} parameters on {job.ranks:,} {on.accelerator}, {job.axes},"
        f" {many(job.global_batch, 'sequence')} of {many(job.sequence, 'token')} in micro-batches of {job.micro_batch}"
        f" x {job.micro_batches}, {job.precision}{_schedule(job)}"
    )


def _schedule(job: Job) -> str:
    """The schedule of a pipeline, unless the axes name it."""
    return f", schedule {job.schedule}" if job.pipeline > 1 and job.schedule == "1f1b" else ""


def _head(found: Estimate, inside: Detail, more: More) -> str:
    slowest = slowest_stage(found)
    words = [exposed(found.parts, found.step_s), None if slowest is None else slowest.said]
    fits = (
        f"{'It fits: the' if found.fits else 'The'} fullest accelerator needs {memory(found.memory_bytes)} of"
        f" {memory(found.capacity)}.{host_sentence(found)}"
    )
    bar = around(found.errors, found.step_s)
    return "\n".join(
        (
            *(
                []
                if found.fits
                else ['<p class="banner" role="alert"><strong>Does not fit.</strong> ' + escape(fits) + "</p>"]
            ),
            '<section id="answer" aria-label="The answer">',
            f'<p class="lead">A training step takes <strong>{escape(time(found.step_s))}</strong>{escape(bar)}.</p>',
            f'<p class="reason">{escape(" ".join(filter(None, (*words, fits if found.fits else None))))}</p>',
            *_bar(found, inside),
            *_figures(found, more),
            "</section>",
        )
    )


def _bar(found: Estimate, inside: Detail) -> Iterator[str]:
    sums = dict.fromkeys(_WORDS, 0.0)
    for _, where, seconds in lines(found, inside):
        sums[where] += seconds
    shown = [(where, seconds) for where, seconds in sums.items() if seconds > 0]
    said = ", ".join(f"{_WORDS[where][1]} {percent(seconds / found.step_s)}" for where, seconds in shown)
    yield f'<div class="step" role="img" aria-label="A step is {escape(said)}">'
    for where, seconds in shown:
        yield f'<span class="{_WORDS[where][0]}" style="flex-grow:{seconds / found.step_s:.6f}"></span>'
    yield '</div><ul class="legend">'
    for where, seconds in shown:
        css, words = _WORDS[where]
        yield (
            f'<li><i class="{css}"></i>{escape(words)} <b>{escape(time(seconds))}</b>'
            f" {escape(percent(seconds / found.step_s))}</li>"
        )
    yield "</ul>"


def _figures(found: Estimate, more: More) -> Iterator[str]:
    job = found.job.job
    tokens = job.global_batch * job.sequence
    hours = job.ranks * found.step_s / 3600 * TRILLION / tokens
    errors = found.errors
    peak = "of the peak in bf16" if job.precision not in ("bf16", "fp16") else "of the peak"
    yield '<dl class="figures">'
    bar = (
        "no such step was measured" if errors is None else f"nine of ten of {errors.rows} measured steps are this near"
    )
    around_ = "none" if errors is None else f"± {percent(errors.likely)}"
    yield figure("Error bar", around_, bar, "error", 0.0 if errors is None else errors.likely)
    if (part := found.mfu) is not None:
        yield figure("MFU", percent(part), f"{peak}, without recomputation", "mfu", part)
    yield figure(
        "Tokens a second",
        f"{found.tokens_per_s:,.0f}",
        f"of each accelerator; {scaled(found.tokens_per_s * job.ranks, '')} of all",
        "tokens_per_s",
        found.tokens_per_s,
    )
    yield figure(
        "A trillion tokens",
        scaled(hours, "GPU-h"),
        f"{hours / job.ranks / 24:.3g} days",
        "accelerator_hours",
        hours,
    )
    yield figure(
        "Memory",
        memory(found.memory_bytes),
        f"{percent(found.memory_bytes / found.capacity)} of an accelerator's",
        "memory_bytes",
        found.memory_bytes,
    )
    yield from more.figures
    yield "</dl>"


def _waits(found: Estimate, inside: Detail) -> str:
    rows = []
    for part, by_tier in exposed_by_tier(found, inside).items():
        whole = {
            tier: sum(each.seconds for each in inside.communication if (each.part, each.tier) == (part, tier))
            for tier in by_tier
        }
        for tier, seconds in by_tier.items():
            calls = [each for each in inside.communication if (each.part, each.tier) == (part, tier)]
            what = listed(list(dict.fromkeys(each.collective for each in calls))) or "messages"
            ranks = max((each.in_domain * each.domains for each in calls), default=0)
            rows.append(
                (
                    COMMUNICATION[part],
                    "NVLink" if tier == "NVLink" else "network",
                    f"{what} of {ranks:,} ranks",
                    time(seconds),
                    percent(seconds / whole[tier]) if whole[tier] > seconds else "100.0 %",
                    WHY[part],
                )
            )
    if (copies := found.parts["offload"]) > 0:
        host = ("copies from and to the host", "link to the host", "copies", time(copies), "", WHY["offload"])
        rows.append(host)
    if not rows:
        return '<section id="waits"><h2>What is exposed, and why</h2><p>No communication is exposed.</p></section>'
    columns = ("communication", "over", "what", "exposed", "of its time", "because")
    head = "".join(f'<th scope="col"{_STYLES.get(each, "")}>{each}</th>' for each in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(
            f"<td{_STYLES.get(column, '')}>{escape(each)}</td>" for column, each in zip(columns[1:], rest, strict=True)
        )
        + "</tr>"
        for first, *rest in rows
    )
    return (
        '<section id="waits"><h2>What is exposed, and why</h2><p class="finding">Communication for which ranks wait,'
        " with the part of its time that computing does not hide.</p>"
        f'<div class="scroll open"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>'
    )


_LEFT = ' style="text-align:left"'
_STYLES = {"over": _LEFT, "what": _LEFT, "because": ' style="text-align:left;white-space:normal;min-width:16em"'}
"""How columns of words look."""


def changes(found: Estimate, better: Sequence[tuple[str, float, int]]) -> tuple[str, str, str] | None:
    """A section of what would make the job faster, or let it fit: each change with its step and its memory in bytes.

    None if there is nothing to say.
    """
    rows = better if found.fits else [(each.said, each.step_s, each.memory_bytes) for each in found.changes]
    if not rows:
        return None
    title = "What would make it faster" if found.fits else "What would make it fit"
    heads = ("change", "step", *(["shorter by"] if found.fits else []), "memory")
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(said)}</th><td>{escape(time(step_s))}</td>'
        + (f"<td>{escape(percent(1 - step_s / found.step_s))}</td>" if found.fits else "")
        + f"<td>{escape(memory(nbytes))}</td></tr>"
        for said, step_s, nbytes in rows
    )
    said = "Each is a single change of the job, estimated." if found.fits else "Each is estimated as a job of its own."
    content = (
        f'<p class="finding">{said}</p><div class="scroll open"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
    return ("changes", title, content)


def _of_file(found: Estimate) -> str:
    file = found.job.constants_file
    return "" if file is None else f" of {file}"


def _origin(found: Estimate, inside: Detail, more: More) -> str:
    job, on = found.job.job, found.job.machine
    off = inside.listed_s / inside.step_s - 1
    said = [
        *trust(found),
        "The step adds up kernels by models of measured ones, and collectives by a model of NCCL.",
        f"Executed pass by pass, it differs by {percent(abs(off))}.",
        *more.assumptions,
        *([] if (note := getattr(found.job.architecture, "note", None)) is None else [note]),
        *([] if on.derived is None else [on.derived]),
    ]
    rows = (
        ("Software", f"{found.job.framework}, constants {found.job.constants}{_of_file(found)}"),
        ("Calibrated", on.calibrated(job.ranks)),
        ("NVLink", f"{on.domain} accelerators"),
        ("Network", f"{scaled(8 * on.nic_bytes_per_s, 'b/s')} for each accelerator"),
        ("Version", f"syncline {_core.version()}"),
    )
    terms = "".join(f"<div><dt>{term}</dt><dd>{escape(text)}</dd></div>" for term, text in rows)
    notes = "".join(f"<li>{escape(each)}</li>" for each in said)
    return (
        '<section id="origin"><h2>How the numbers were obtained</h2>'
        f'<dl class="origin">{terms}</dl><ul>{notes}</ul></section>'
    )

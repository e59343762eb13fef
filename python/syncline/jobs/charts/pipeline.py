"""The pipeline as a Gantt chart: what each stage does when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import percent, time
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.jobs.detail import Detail
    from syncline.jobs.estimation import Estimate

SPANS = 20_000
"""The most spans of a pipeline that are drawn."""
_UNIT_PS = 10_000
"""Times of the pipeline are whole multiples of this, in picoseconds."""
_PASSES = {
    "forward": ("forward", "compute"),
    "backward": ("backward", "backward"),
    "input": ("gradients of inputs", "backward"),
    "weight": ("gradients of weights", "weight"),
    "both": ("forward and backward at once", "both"),
    "update": ("optimizer", "memory"),
    "message": ("exposed communication", "exposed"),
    "bubble": ("bubble", "bubble"),
}
"""Kinds of spans: their names and colours; passes first."""
_WAITS = ("message", "bubble")


def chart(estimate: Estimate, detail: Detail) -> Chart | None:
    """A row for each stage: its turns, exposed messages, bubbles, the exchange of gradients, the optimizer."""
    stages = len(detail.memory)
    if stages < 2:
        return None
    spans = sorted((each.begin_s, each.stage, each.kind, each.end_s, each.micro_batch + 1) for each in detail.spans)
    cut = len(spans) > SPANS
    until = spans[SPANS][0] if cut else detail.listed_s
    rows = [(begin, end, stage, str(kind), number) for begin, stage, kind, end, number in spans[:SPANS]]
    rows += _bubbles(rows, stages, min(until, detail.pipeline_s))
    if not cut:
        ended = detail.pipeline_s + detail.exchange_s
        for stage in range(stages):
            if detail.exchange_s > 0:
                rows.append((detail.pipeline_s, ended, stage, "message", 0))
            rows.append((ended, detail.listed_s, stage, "update", 0))
    used = [kind for kind in _PASSES if any(row[3] == kind for row in rows)]
    sums = [[0.0] * len(used) for _ in range(stages)]
    for begin, end, stage, kind, _ in rows:
        sums[stage][used.index(kind)] += min(end, until) - begin
    ps = [(round(begin * 1e12) // _UNIT_PS, round(end * 1e12) // _UNIT_PS) for begin, end, *_ in rows]
    job = estimate.job.job
    each = job.tensor * job.context * job.data
    return Chart(
        "pipeline",
        "The pipeline, stage by stage",
        _agreement(detail),
        "A row is a rank of a stage. Blocks are its forward and backward passes, numbered by micro-batch;"
        " recomputation counts as backward. Below them are the waits: for exposed messages, for other stages"
        " (bubble), and at the end for gradients and parameters. Every pass begins as early as it can: when the"
        " one before it on its stage has ended, and its input is there.",
        {
            "stages": [f"stage {stage}" for stage in range(stages)],
            "ranks": [stage * each for stage in range(stages)],
            "kinds": [_PASSES[kind][0] for kind in used],
            "colours": [_PASSES[kind][1] for kind in used],
            "passes": sum(kind not in _WAITS for kind in used),
            "unit_ps": _UNIT_PS,
            "until": round(until * 1e12) // _UNIT_PS,
            "row": [row[2] for row in rows],
            "kind": [used.index(row[3]) for row in rows],
            "start": [begin for begin, _ in ps],
            "duration": [end - begin for begin, end in ps],
            "micro_batch": [0 if row[3] in (*_WAITS, "update") else row[4] for row in rows],
            "sums": [rounded(each) for each in sums],
        },
        (f"The first {SPANS:,} of {len(spans):,} passes and waits are drawn; the rest repeats.",) if cut else (),
    )


def _agreement(detail: Detail) -> str:
    off = detail.listed_s / detail.step_s - 1
    longer = f"{percent(abs(off))} {'more' if off > 0 else 'less'} than" if abs(off) >= 0.0005 else "as"
    return f"Executed pass by pass, the step takes {time(detail.listed_s)}: {longer} the estimate says."


def _bubbles(
    rows: Sequence[tuple[float, float, int, str, int]], stages: int, until: float
) -> list[tuple[float, float, int, str, int]]:
    """The gaps between the spans of each stage."""
    found = []
    ended = [0.0] * stages
    least = until / 4_000
    for begin, end, stage, _, _ in sorted(rows):
        if begin - ended[stage] > least:
            found.append((ended[stage], begin, stage, "bubble", 0))
        ended[stage] = max(ended[stage], end)
    return found + [(at, until, stage, "bubble", 0) for stage, at in enumerate(ended) if until - at > least]

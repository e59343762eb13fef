"""The chart of a pipeline's stages over time: what the traced rank of each computes, and what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncline.quantity import counted, percent, time
from syncline.report.html.chart import Chart, rounded
from syncline.report.html.stages import BUBBLE, EXPOSED, FORWARD, KINDS, SKEW, UPDATE, Stage, degree, names, passes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.report.html.source import Source

_FINEST = 4_000
"""Waits that are closer than the whole time divided by this are drawn as one block."""


def pipeline(source: Source) -> Chart | None:
    """A row for each stage: forward and backward passes of micro-batches, exposed communication, bubbles."""
    number, stages = degree(source), source.stages
    spans = source.spans
    if spans is None or len(stages) < 2:
        return None
    until = max(stage.end for stage in stages)
    cut = bool(spans["spans_left_out"] or spans["blocks_left_out"])
    unit = 10 ** max(len(str(until)) - 7, 0)
    micro_batches = max(source.summary.micro_batches or 1, 1)
    blocks: list[tuple[int, int, int, int, int]] = []
    sums: list[list[float]] = []
    for row, stage in enumerate(stages):
        own, spent = _blocks(stage, until, micro_batches)
        blocks += [(row, *block) for block in own]
        sums.append([each * 1e-12 for each in spent])
    called = names(stages, number)
    return Chart(
        "pipeline",
        "The pipeline, stage by stage",
        _finding(called, sums, until * 1e-12),
        "A row is one traced rank of a stage. Blocks are its forward and backward passes, numbered by micro-batch, with"
        " the communication and the updates within them; recomputation counts as backward. Below them are the waits of"
        " compute. Exposed communication: it waits for the network. Bubble: another stage has not sent its message yet,"
        " or still works after this one is done. Skew: another rank has not begun a collective yet. Waits that are very"
        " close together are drawn as one; the table has the time of each kind.",
        {
            "stages": called,
            "ranks": [stage.rank for stage in stages],
            "kinds": list(KINDS),
            "unit_ps": unit,
            "until": until // unit,
            "row": [block[0] for block in blocks],
            "kind": [block[1] for block in blocks],
            "start": [block[2] // unit for block in blocks],
            "duration": [block[3] // unit - block[2] // unit for block in blocks],
            "micro_batch": [block[4] for block in blocks],
            "sums": [rounded(each) for each in sums],
        },
        tuple(_notes(source, len(stages), number, until * 1e-12 if cut else None)),
    )


def _finding(names: Sequence[str], sums: Sequence[Sequence[float]], whole: float) -> str:
    bubbles = [each[BUBBLE] / whole for each in sums]
    most = max(range(len(names)), key=bubbles.__getitem__)
    exposed = sum(each[EXPOSED] for each in sums) / len(sums) / whole
    skew = sum(each[SKEW] for each in sums) / len(sums) / whole
    late = f", and {percent(skew)} skew" if skew > 0 else ""
    return (
        f"Of {time(whole)}, {percent(sum(bubbles) / len(bubbles))} is bubble on average, most of it in {names[most]}"
        f" ({percent(bubbles[most])}). Another {percent(exposed)} is exposed communication{late}."
    )


def _notes(source: Source, drawn: int, number: int, cut_s: float | None) -> Iterable[str]:
    if drawn < number:
        yield f"{drawn} of {counted(number, 'stage')} are drawn: those with a rank in `trace.ranks`."
    if cut_s is not None:
        yield (
            f"Cut at {time(cut_s)} of {time(source.summary.total_time_s)}: the trace is full. A higher"
            " `trace.max_spans` shows the rest."
        )


def _blocks(stage: Stage, until: int, micro_batches: int) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """The blocks of a stage (kind, start, end and micro-batch), and the time that it spent on each kind."""
    runs = passes(stage.compute)
    sums = [0] * len(KINDS)
    found = []
    counts: dict[tuple[int, int], int] = {}
    starts = sorted({run.least for run in runs if run.kind == FORWARD})
    for run in runs:
        sums[run.kind] += run.busy
        sums[UPDATE] += run.updates
        # If a stage has several parts of the model, number the micro-batches of each part separately.
        part = max((start for start in starts if start <= run.least), default=0)
        number = counts[run.kind, part] = counts.get((run.kind, part), 0) + 1
        found.append((run.kind, run.start, run.end, 0 if run.kind == UPDATE else (number - 1) % micro_batches + 1))
    waits = [(kind, start, end) for start, end, kind in sorted(stage.waits)]
    for kind, start, end in waits:
        sums[kind] += end - start
    return [*found, *_joined(waits, until // _FINEST)], sums


def _joined(waits: Iterable[tuple[int, int, int]], pause: int) -> list[tuple[int, int, int, int]]:
    joined: list[tuple[int, int, int, int]] = []
    for kind, start, end in waits:
        if joined and joined[-1][0] == kind and start - joined[-1][2] <= pause:
            joined[-1] = (kind, joined[-1][1], end, 0)
        else:
            joined.append((kind, start, end, 0))
    return joined

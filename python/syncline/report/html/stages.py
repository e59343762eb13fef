"""Derives the stages of a pipeline from spans of their traced ranks: passes of micro-batches, and waits."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.report.html.source import Source

FORWARD, BACKWARD, UPDATE = range(3)
"""Passes."""
EXPOSED, BUBBLE, SKEW = range(3, 6)
"""Waits."""
KINDS = ("forward", "backward", "update", "exposed communication", "bubble", "skew")
"""Names of passes and waits, by number; those of waits are names of tracks, too."""
_PARTS = {" forward": FORWARD, " input grad": BACKWARD, " weight grad": BACKWARD, " update": UPDATE}
"""Pass of a compute span, by the ending of its label."""


@dataclass
class MicroBatchPass:
    """The compute spans of one pass of one micro-batch."""

    kind: int
    start: int
    end: int
    least: int
    """Lowest number of its layers."""
    most: int
    """Highest number of its layers."""
    last: int
    """Number of its last layer."""
    count: int = 1
    busy: int = 0
    updates: int = 0
    """Time of updates between its layers; not in ``busy``."""


@dataclass
class Stage:
    """The compute and the waits of one traced rank; times are in picoseconds."""

    rank: int
    compute: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Start, end, pass, number of the layer."""
    waits: list[tuple[int, int, int]] = field(default_factory=list)
    """Start, end, kind."""

    @property
    def first_layer(self) -> int:
        """Number of its first layer, which gives the order of stages."""
        return min((layer for *_, layer in self.compute), default=0)

    @property
    def end(self) -> int:
        """End of its last compute span or wait."""
        return max([0, *(end for _, end, *_ in self.compute), *(end for _, end, _ in self.waits)])


def degree(source: Source) -> int:
    """Number of stages of the job; 1 without a pipeline."""
    found = re.search(r"\bpipeline (\d+)", source.summary.parallelism)
    return int(found[1]) if found else 1


def traced(source: Source) -> list[Stage]:
    """The stages with a traced rank, in the order of stages; empty without a pipeline."""
    layers = source.table("layers", "compute_s")
    if degree(source) < 2 or layers is None or source.spans is None:
        return []
    return sorted(_stages(source.spans, layers["layer"]), key=lambda stage: stage.first_layer)


def names(stages: Sequence[Stage], number: int) -> list[str]:
    """Names of the stages: by number if all are traced, else by rank."""
    return [f"stage {row}" if len(stages) == number else f"rank {stage.rank}" for row, stage in enumerate(stages)]


def stages_of(source: Source) -> dict[str, str]:
    """The name of each layer's stage; empty without a pipeline, or if not all stages are traced."""
    stages = source.stages
    if len(stages) < 2 or len(stages) != degree(source):
        return {}
    layers = (source.table("layers") or {})["layer"]
    held = zip(names(stages, len(stages)), stages, strict=True)
    return {layers[number]: name for name, stage in held for number in {layer for *_, layer in stage.compute}}


def _stages(spans: dict[str, Any], layers: Sequence[str]) -> Iterable[Stage]:
    """The stages of traced ranks that compute."""
    numbers = {name: number for number, name in enumerate(layers)}
    stages = [Stage(rank) for rank in spans["ranks"]]
    # A dimension may have the name of a wait: its track comes after those that every run has.
    own = {spans["tracks"].index(name): name for name in ("compute", *KINDS[EXPOSED:])}
    labels = [_known(label, numbers) for label in spans["labels"]]
    columns = (spans[each] for each in ("rank", "track", "start_ps", "duration_ps", "label"))
    for rank, track, start, duration, label in zip(*columns, strict=True):
        stage, end = stages[rank], start + duration
        match own.get(track):
            case "compute" if (known := labels[label]) is not None:
                stage.compute.append((start, end, *known))
            case ("exposed communication" | "bubble" | "skew") as wait:
                stage.waits.append((start, end, KINDS.index(wait)))
    return [stage for stage in stages if stage.compute]


def _known(label: str, numbers: dict[str, int]) -> tuple[int, int] | None:
    """Pass and number of the layer of a compute span with this label; None for any other label."""
    for ending, kind in _PARTS.items():
        if label.endswith(ending) and (number := numbers.get(label.removesuffix(ending))) is not None:
            return kind, number
    return None


def passes(compute: Iterable[tuple[int, int, int, int]]) -> list[MicroBatchPass]:
    """Divides compute into passes of micro-batches. A forward pass goes up through the layers, a backward pass down.

    Recomputation before a backward pass is part of that pass. Updates form their own pass, except those that begin
    during another pass: they are between its layers, and ``updates`` of that pass has their time.
    """
    work = sorted(compute)
    found = _of_micro_batches([each for each in work if each[2] != UPDATE])
    runs = sorted(found, key=lambda run: run.start)
    updates: list[MicroBatchPass] = []
    for start, end, kind, layer in work:
        if kind != UPDATE:
            continue
        before = bisect_right(runs, start, key=lambda run: run.start) - 1
        last = updates[-1] if updates else None
        if before >= 0 and start < runs[before].end:
            runs[before].updates += end - start
        elif last is not None and (before < 0 or runs[before].start < last.start):
            _extend(last, _alone(start, end, kind, layer))
        else:
            updates.append(_alone(start, end, kind, layer))
    return sorted([*runs, *updates], key=lambda run: run.start)


def _of_micro_batches(work: Sequence[tuple[int, int, int, int]]) -> list[MicroBatchPass]:
    """Forward and backward passes."""
    runs: list[MicroBatchPass] = []
    for start, end, kind, layer in work:
        last = runs[-1] if runs else None
        if last is not None and last.kind == kind and _follows(kind, last.last, layer):
            _extend(last, _alone(start, end, kind, layer))
        else:
            runs.append(_alone(start, end, kind, layer))
    whole = next((run.count for run in runs if run.kind == FORWARD), 0)
    found: list[MicroBatchPass] = []
    for run in runs:
        if run.kind == FORWARD and 2 * run.count < whole:
            run.kind = BACKWARD
        last = found[-1] if found else None
        goes_on = last is not None and run.kind == last.kind == BACKWARD and run.most <= last.least + whole // 2
        if last is not None and goes_on:
            _extend(last, run)
        else:
            found.append(run)
    return found


def _alone(start: int, end: int, kind: int, layer: int) -> MicroBatchPass:
    """A run with the compute of one layer."""
    return MicroBatchPass(kind, start, end, layer, layer, layer, 1, end - start)


_NEAR = 8
"""Maximum number of layers by which consecutive spans of a forward pass are apart: layers between them take no time."""


def _follows(kind: int, before: int, layer: int) -> bool:
    """Whether ``layer`` continues a pass of this kind whose last layer is ``before``."""
    if kind == FORWARD:
        return before < layer <= before + _NEAR
    return layer <= before


def _extend(run: MicroBatchPass, by: MicroBatchPass) -> None:
    run.end, run.last = by.end, by.last
    run.least, run.most = min(run.least, by.least), max(run.most, by.most)
    run.count += by.count
    run.busy += by.busy

"""The stages of a pipeline as their traced ranks show them: passes of micro-batches, and waits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncline.report.html.source import Source

FORWARD, BACKWARD, UPDATE = range(3)
"""Passes."""
_PARTS = {" forward": FORWARD, " input grad": BACKWARD, " weight grad": BACKWARD, " update": UPDATE}
"""How labels of compute end, and which pass they belong to."""


@dataclass
class Run:
    """Compute without a change of pass or micro-batch."""

    kind: int
    start: int
    end: int
    least: int
    """Lowest number of its layers."""
    most: int
    """Highest."""
    last: int
    """Number of the layer that it ends with."""
    count: int = 1
    busy: int = 0


@dataclass
class Stage:
    """What one traced rank did, in picoseconds."""

    rank: int
    compute: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Start, end, pass, number of the layer."""
    waits: list[tuple[int, int]] = field(default_factory=list)
    received: set[int] = field(default_factory=set)
    """When messages of other stages came."""

    @property
    def first_layer(self) -> int:
        """By which stages are in order."""
        return min((layer for *_, layer in self.compute), default=0)

    @property
    def end(self) -> int:
        """When it computed or waited last."""
        return max([0, *(end for _, end, *_ in self.compute), *(end for _, end in self.waits)])


def degree(source: Source) -> int:
    """How many stages the job has."""
    found = re.search(r"\bpipeline (\d+)", source.summary.parallelism)
    return int(found[1]) if found else 1


def traced(source: Source) -> list[Stage]:
    """What traced ranks of stages did, in the order of stages; nothing where there is no pipeline."""
    layers = source.table("layers", "compute_s")
    if degree(source) < 2 or layers is None or source.spans is None:
        return []
    return sorted(_stages(source.spans, layers["layer"]), key=lambda stage: stage.first_layer)


def names(stages: Sequence[Stage], number: int) -> list[str]:
    """Stages by number, where all are traced."""
    return [f"stage {row}" if len(stages) == number else f"rank {stage.rank}" for row, stage in enumerate(stages)]


def stages_of(source: Source) -> dict[str, str]:
    """The name of each layer's stage; nothing where there are none, or not all are traced."""
    stages = source.stages
    if len(stages) < 2 or len(stages) != degree(source):
        return {}
    layers = (source.table("layers") or {})["layer"]
    held = zip(names(stages, len(stages)), stages, strict=True)
    return {layers[number]: name for name, stage in held for number in {layer for *_, layer in stage.compute}}


def _stages(spans: dict[str, Any], layers: Sequence[str]) -> Iterable[Stage]:
    """What each traced rank with compute did."""
    numbers = {name: number for number, name in enumerate(layers)}
    stages = [Stage(rank) for rank in spans["ranks"]]
    tracks = spans["tracks"]
    labels = [_known(label, numbers) for label in spans["labels"]]
    receives = [label.endswith(" receive") for label in spans["labels"]]
    columns = (spans[each] for each in ("rank", "track", "start_ps", "duration_ps", "label"))
    for rank, track, start, duration, label in zip(*columns, strict=True):
        stage, end = stages[rank], start + duration
        match tracks[track]:
            case "compute" if (known := labels[label]) is not None:
                stage.compute.append((start, end, *known))
            case "exposed communication":
                stage.waits.append((start, end))
            case "communication" if receives[label]:
                stage.received.add(end)
    return [stage for stage in stages if stage.compute]


def _known(label: str, numbers: dict[str, int]) -> tuple[int, int] | None:
    """Pass and layer of compute with this label."""
    for ending, kind in _PARTS.items():
        if label.endswith(ending) and (number := numbers.get(label.removesuffix(ending))) is not None:
            return kind, number
    return None


def passes(compute: Iterable[tuple[int, int, int, int]]) -> list[Run]:
    """Passes of single micro-batches. A forward pass goes up through the layers, a backward pass down.

    What is computed again before a backward pass is part of it.
    """
    runs: list[Run] = []
    for start, end, kind, layer in sorted(compute):
        last = runs[-1] if runs else None
        if last is not None and last.kind == kind and _follows(kind, last.last, layer):
            _extend(last, Run(kind, start, end, layer, layer, layer, 1, end - start))
        else:
            runs.append(Run(kind, start, end, layer, layer, layer, 1, end - start))
    whole = next((run.count for run in runs if run.kind == FORWARD), 0)
    found: list[Run] = []
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


_NEAR = 8
"""Layers between which others take no time."""


def _follows(kind: int, before: int, layer: int) -> bool:
    """Whether a layer's compute goes on with the pass that has come to another layer."""
    if kind == FORWARD:
        return before < layer <= before + _NEAR
    return kind == UPDATE or layer <= before


def _extend(run: Run, by: Run) -> None:
    run.end, run.last = by.end, by.last
    run.least, run.most = min(run.least, by.least), max(run.most, by.most)
    run.count += by.count
    run.busy += by.busy

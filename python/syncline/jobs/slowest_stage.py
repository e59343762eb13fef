"""The slowest stage of a pipeline: why it is slow, and which layers of chunks would balance the stages.

All stages wait for the slowest one, which sets the pace of the pipeline. Times are those of the estimate
(:mod:`~syncline.jobs.blocks`), and the balanced layers are estimated like any other job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING

from syncline.errors import SynclineError
from syncline.estimate.switches import LEAST
from syncline.jobs.blocks import blocks
from syncline.jobs.estimation import estimate
from syncline.quantity import percent, time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.jobs.blocks import Block, Blocks
    from syncline.jobs.estimation import Estimate

SLOWER = 0.03
"""By how much the slowest stage exceeds the mean of others before it is named."""
_AS_SLOW = 0.01
"""By how much a stage may be faster than the slowest one and count as equally slow. If half of the stages are, none is
named: the others are short, rather than these long."""
_REASON = 0.25
"""Part of that time which a reason explains, so that it is named beside the first one."""


@dataclass(frozen=True)
class Layout:
    """Layers of chunks that balance the stages of a job."""

    chunk_layers: tuple[int, ...]
    """As in job files: layers of each chunk, in the order of the model."""
    estimate: Estimate
    """The job with these."""


@dataclass(frozen=True)
class SlowestStage:
    """The slowest stage of a pipeline that is not balanced."""

    found: Estimate
    """The job."""
    stage: int
    """Its number, from 0."""
    blocks: Blocks
    """Its blocks."""

    @property
    def others_s(self) -> float:
        """Seconds of a micro-batch in other stages, their mean."""
        return fmean(each for stage, each in enumerate(self.found.stages_s) if stage != self.stage)

    @property
    def slower(self) -> float:
        """By what part it is slower than the mean of the others."""
        return self.found.stages_s[self.stage] / self.others_s - 1

    @cached_property
    def balanced(self) -> Layout | None:
        """Layers of chunks with which the step is shortest, if it is shorter by 1 %; None if none were found.

        Layers move one by one from the longest chunk of the slowest stage to the shortest one of the fastest stage, as
        long as that shortens the step.
        """
        best, detailed = self.found, self.blocks
        counts = [_layers(chunk) for chunk in detailed.chunks]
        for _ in range(self.found.job.architecture.layers):
            moved = _moved(best, detailed, counts)
            if moved is None:
                break
            job = replace(best.job, job=best.job.job.changed(split="even", chunk_layers=moved))
            try:
                other = estimate(job)
            except SynclineError:
                break
            if other.step_s >= best.step_s or (self.found.fits and not other.fits):
                break
            best, detailed, counts = other, blocks(job), moved
        if best.step_s > (1 - LEAST) * self.found.step_s:
            return None
        return Layout(tuple(counts), best)

    @property
    def said(self) -> str:
        """The stage, why it is slow, and what would balance the pipeline."""
        count = len(self.found.stages_s)
        where = (
            f"Stage {self.stage}{', the last one,' if self.stage == count - 1 else ''} sets the pace of the pipeline"
        )
        longer = (
            f"a micro-batch takes it {time(self.found.stages_s[self.stage])}, {percent(self.slower)} more than the mean"
            f" of the others, because {self._why()}."
        )
        return f"{where}: {longer} {self._remedy()}"

    def _remedy(self) -> str:
        layout = self.balanced
        if layout is None:
            return "Moving single layers to other chunks would not shorten the step by 1 %."
        after = layout.estimate.step_s
        layers = ", ".join(map(str, layout.chunk_layers))
        return (
            f"With parallel.chunk_layers=[{layers}], the step would take {time(after)},"
            f" {percent(1 - after / self.found.step_s)} less."
        )

    def _why(self) -> str:
        """The reasons that explain most of the difference, the largest one first."""
        stages = range(len(self.found.stages_s))
        held = [[block for chunk in of_stage for block in self.blocks.chunks[chunk]] for of_stage in self.blocks.stages]
        layers = [[_seconds(block) for block in of_stage if block.kind == "layer"] for of_stage in held]
        outputs = [sum(_seconds(block) for block in of_stage if block.kind == "output") for of_stage in held]
        mine, rest = self.stage, [stage for stage in stages if stage != self.stage]
        count = fmean(len(layers[stage]) for stage in rest)
        every = [seconds for stage in rest for seconds in layers[stage]]
        each = fmean(every) if every else 0.0
        own = fmean(layers[mine]) if layers[mine] else each
        more = {
            "output": outputs[mine] - fmean(outputs[stage] for stage in rest),
            "layers": (len(layers[mine]) - count) * each,
            "longer": len(layers[mine]) * (own - each),
        }
        words = {
            "output": f"its output layer and loss take {time(outputs[mine])}"
            + (f", as long as {outputs[mine] / each:.1f} layers" if each > 0 else ""),
            "layers": f"it has {len(layers[mine])} layers, and the others {count:.3g} on average",
            "longer": f"its layers take {time(own)} each, and those of the others {time(each)} on average",
        }
        ranked = sorted(more, key=lambda name: -more[name])
        difference = self.found.stages_s[mine] - self.others_s
        named = [name for name in ranked if name == ranked[0] or more[name] > _REASON * difference]
        return ", and ".join(words[name] for name in named)


def slowest_stage(found: Estimate) -> SlowestStage | None:
    """The slowest stage of a job's pipeline.

    None without a pipeline, if stages differ by less than 3 %, or if half of them are as slow.
    """
    times = found.stages_s
    if len(times) < 2:
        return None
    stage = max(range(len(times)), key=lambda each: times[each])
    as_slow = sum(each >= (1 - _AS_SLOW) * times[stage] for each in times)
    if as_slow > 1 and 2 * as_slow >= len(times):
        return None
    slowest = SlowestStage(found, stage, blocks(found.job))
    return slowest if slowest.slower >= SLOWER else None


def _layers(chunk: Sequence[Block]) -> int:
    return sum(block.kind == "layer" for block in chunk)


def _seconds(block: Block) -> float:
    """What a block computes of a micro-batch, seconds."""
    shares = [block.dense, *([] if block.experts is None else [block.experts.share])]
    return sum(share.forward_s + share.input_s + share.weight_s for share in shares)


def _moved(found: Estimate, detailed: Blocks, counts: Sequence[int]) -> list[int] | None:
    """Layers of chunks with one moved from the slowest stage to the fastest one; None if it has none."""
    times = found.stages_s
    slow = max(range(len(times)), key=lambda stage: times[stage])
    fast = min(range(len(times)), key=lambda stage: times[stage])
    length = [sum(map(_seconds, chunk)) for chunk in detailed.chunks]
    sources = [chunk for chunk in detailed.stages[slow] if counts[chunk] > 0]
    if not sources or slow == fast:
        return None
    source = max(sources, key=lambda chunk: length[chunk])
    target = min(detailed.stages[fast], key=lambda chunk: length[chunk])
    moved = list(counts)
    moved[source] -= 1
    moved[target] += 1
    return moved

"""Memory of a rank while its passes run, by kind and stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.estimate.screen import KINDS
from syncline.quantity import memory
from syncline.report.html.chart import Chart, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncline.jobs.detail import Detail
    from syncline.jobs.estimation import Estimate

POINTS = 40_000
"""The most points of memory that are drawn."""
_CONSTANT = ("context", "buffers", "weights", "gradients", "optimizer", "gathered")
_CHANGING = ("activations", "logits", "working", "fragmentation")


def chart(estimate: Estimate, detail: Detail) -> Chart:
    """Memory over the step, by kind and stage."""
    stages = detail.memory
    most = [stage.most for stage in stages]
    fullest = max(range(len(stages)), key=most.__getitem__)
    every = max(1, -(-sum(len(stage.points) for stage in stages) // POINTS))
    kept = [stage.points if every == 1 else _thinned(stage.points, every) for stage in stages]
    off = most[fullest] / estimate.memory_bytes - 1
    agrees = (
        "That is the estimate's peak."
        if abs(off) < 0.0005
        else f"The estimate's peak is {memory(estimate.memory_bytes)}: it adds the most of each kind."
    )
    fullest_name = f"of stage {fullest} " if len(stages) > 1 else ""
    return Chart(
        "estimate_memory",
        "Memory over the step",
        f"A rank {fullest_name}needs {memory(most[fullest])} of {memory(estimate.capacity)}. {agrees}",
        "Memory of a rank of one stage while its passes run. Weights, gradients, optimizer states and buffers stay. A"
        " forward pass adds the activations of its micro-batch, which its backward pass frees; logits exist around the"
        " loss, and a layer needs working memory while it computes backward. Fragmentation is a part of all that"
        " comes and goes. The dashed line is what an accelerator has.",
        {
            "kinds": [KINDS[name] for name in (*_CONSTANT, *_CHANGING)],
            "stages": [f"stage {stage}" for stage in range(len(stages))] if len(stages) > 1 else ["each rank"],
            "capacity": estimate.capacity,
            "fullest": fullest,
            "time": [rounded([point.at_s for point in points]) for points in kept],
            "bytes": [
                [
                    *([getattr(stage.peak, name)] for name in _CONSTANT),
                    *([round(getattr(point, name)) for point in points] for name in _CHANGING),
                ]
                for stage, points in zip(stages, kept, strict=True)
            ],
        },
        (f"One point in {every} is drawn, and the fullest.",) if every > 1 else (),
    )


def _thinned(points: Sequence[Any], every: int) -> list[Any]:
    peak = max(range(len(points)), key=lambda at: points[at].total)
    return [point for at, point in enumerate(points) if at % every == 0 or at in (peak, len(points) - 1)]

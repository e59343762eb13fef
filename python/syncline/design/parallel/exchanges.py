"""What layers exchange, as scenarios have it: tokens of experts, gradients, parameters.

Gradients and parameters follow ZeRO (Rajbhandari et al. 2020, 5) and HSDP as the crate ``estimate`` has them:
reduce-scatters and all-gathers, for each unit and micro-batch with ZeRO-3, and all-reduces of parts among ranks that
hold the same part.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.estimate import Job
    from syncline.jobs.blocks import Experts

KEPT = 2
"""The stage of ZeRO in which ranks keep only their part of gradients."""
DIVIDED = 3
"""The lowest stage of ZeRO in which ranks divide the parameters that they compute with."""
ELEMENT_BYTES = 2
"""Bytes of an element that collectives do not cut."""
EXPERT, SHARD, DATA = "expert", "shard", "data"
"""Axes: ranks that divide experts, that divide a copy, and copies."""


@dataclass(frozen=True)
class Axes:
    """The axes of a job in its scenario."""

    mesh: dict[str, Any]
    """Those of all but experts, as `parallel` has them."""
    of_experts: dict[str, Any]
    """Those of experts, as a mesh of `parallel.meshes` has them."""
    hybrid: bool
    """Whether fewer ranks than have copies divide one of them (HSDP, or ZeRO in groups)."""
    gathers: bool
    """Whether parameters are gathered for each use (ZeRO-3). In a pipeline they stay gathered over the step."""

    @classmethod
    def of(cls, how: Job) -> Axes:
        """The axes of a job."""
        replicas = how.data * how.context
        shards = min(how.shard_group, replicas) if how.zero else replicas
        hybrid = shards < replicas and replicas % shards == 0
        mesh: dict[str, Any] = {"tensor": how.tensor}
        if hybrid:
            mesh["axes"] = {SHARD: shards}
        mesh["data"] = replicas // shards if hybrid else replicas
        ranks = how.expert * how.expert_tensor
        copies = max(replicas * how.tensor // ranks, 1)
        # Kernels for dispatch send a token to all ranks that divide an expert; else each of them sends to its like.
        parts = 1 if how.dispatcher == "fused" else how.expert_tensor
        experts: dict[str, Any] = {"tensor": parts, "data": copies}
        if ranks > parts:
            experts["axes"] = {EXPERT: ranks // parts}
        return cls(mesh, experts, hybrid, how.zero >= DIVIDED and how.pipeline == 1)

    def ranks(self, along: list[str], *, experts: bool) -> int:
        """Ranks of a group along some axes of the mesh of experts, or of that of all else."""
        mesh = self.of_experts if experts else self.mesh
        return prod(mesh["data"] if name == DATA else mesh["axes"][name] for name in along)

    @property
    def shards(self) -> list[str]:
        """The axes of ranks that divide a copy."""
        return [SHARD] if self.hybrid else [DATA]

    @property
    def shard_ranks(self) -> int:
        """Ranks that divide a copy."""
        return self.ranks(self.shards, experts=False)

    @property
    def copies(self) -> list[str]:
        """The axes of all ranks that have the same gradients to sum."""
        return [SHARD, DATA] if self.hybrid else [DATA]


def tokens(experts: Experts, axes: Axes) -> Iterator[dict[str, Any]]:
    """Dispatch and combine of a micro-batch's tokens, forward and backward, and again where experts are recomputed."""
    if experts.bytes <= 0:
        return
    exchange = _Of(axes, experts=True)
    # The backward pass begins with what it computes again, then sends gradients of outputs to experts.
    before = ["before_backward"] * (3 if experts.repeats else 1)
    for when in ("before_forward", "after_forward", *before, "after_input_grad"):
        yield exchange(when, "all_to_all", experts.bytes, [EXPERT])


def gradients(
    how: Job, trained: float, gathered: float, axes: Axes, *, experts: bool = False
) -> Iterator[dict[str, Any]]:
    """What copies of a layer exchange, of which a rank trains `trained` parameters and gathers `gathered` bytes."""
    copies, shards = ([DATA], [DATA]) if experts else (axes.copies, axes.shards)
    trained, gathered = round(trained), round(gathered)
    if not (trained or gathered) or axes.ranks(copies, experts=experts) == 1:
        return
    summed = trained * how.gradient_bytes
    exchange = _Of(axes, experts=experts)
    if how.zero == 0:
        yield exchange("after_weight_grad", "all_reduce", summed, copies)
        return
    waits = {}
    if axes.gathers:
        # The next unit's parameters come while one computes, or only when a unit needs them.
        for when in ("before_use",) if how.overlap.parameters else ("before_forward", "before_backward"):
            yield exchange(when, "all_gather", gathered, shards)
        waits = {} if how.overlap.gradients else {"blocks": True}
    if summed > 0:
        # ZeRO-2 keeps only its part of the sum, so every micro-batch reduces its own; and so does ZeRO-3.
        each = {"each_micro_batch": True} if how.zero == KEPT or axes.gathers else {}
        yield {**exchange("after_weight_grad", "reduce_scatter", summed, shards), **each, **waits}
        if axes.hybrid and not experts:
            # Ranks that hold the same part sum its gradients.
            each = each if how.zero == KEPT else {}
            yield {**exchange("after_weight_grad", "all_reduce", summed / axes.shard_ranks, [DATA]), **each, **waits}
    if not axes.gathers:
        # The next step begins while they come, or once they are there.
        yield exchange("before_step" if how.overlap.parameters else "after_update", "all_gather", gathered, shards)


@dataclass(frozen=True)
class _Of:
    """Makes exchanges of layers on one of the meshes."""

    axes: Axes
    experts: bool

    def __call__(self, when: str, collective: str, size: float, along: list[str]) -> dict[str, Any]:
        """An exchange along axes of the mesh: its size is rounded so that all ranks have equal parts of whole elements.

        Only then one rank can represent all. It changes a size by less than an element for each rank.
        """
        unit = ELEMENT_BYTES * self.axes.ranks(along, experts=self.experts)
        return {
            "when": when,
            "collective": collective,
            "bytes": f"{max(round(size / unit), 1) * unit}B",
            "axis": along[0] if len(along) == 1 else along,
        }

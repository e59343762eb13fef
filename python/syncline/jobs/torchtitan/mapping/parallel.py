"""Axes of parallelism, FSDP and experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncline.jobs.given import Given
    from syncline.jobs.settings import Settings


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many ranks each axis has."""

    tensor: int
    pipeline: int
    context: int
    replicate: int
    """Replicas of the parameters: data parallelism without FSDP."""
    shard: int
    """Ranks of FSDP, without those of context parallelism."""

    @property
    def sharded(self) -> bool:
        """Whether FSDP shards parameters, which it does with one rank of everything, too."""
        return self.shard * self.context > 1 or self.replicate == 1


def degrees(settings: Settings, given: Given) -> Degrees:
    """The degrees of a job, and the number of its accelerators, which it sets.

    By default, FSDP has all ranks that other axes leave.
    """
    tensor, pipeline, context, replicate = (
        settings.whole(f"parallelism.{name}_degree", 1) or 1
        for name in ("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel_replicate")
    )
    others = tensor * pipeline * context * replicate
    shard = settings.whole("parallelism.data_parallel_shard_degree", -1, least=-1)
    gpus, said = given.gpus, given.gpus_said
    if gpus is None and shard is not None and shard > 0:
        gpus, said = others * shard, "the product of all degrees"
    settings.put("cluster.accelerator", given.accelerator, note=given.accelerator_said)
    if gpus is None:
        settings.problem("gpus", "the number of accelerators is not in the file", help="add --gpus N")
        gpus = others
    settings.put("cluster.gpus", gpus, note=said)
    if shard is None or shard < 1:
        shard = max(gpus // others, 1)
    elif gpus != others * shard:
        settings.problem(
            "parallelism.data_parallel_shard_degree",
            f"the product of all degrees is not {gpus} accelerators",
            allowed=str(max(gpus // others, 1)),
        )
    return Degrees(tensor, pipeline, context, replicate, shard)


def tensor(settings: Settings, degree: int) -> None:
    """Tensor parallelism, with sequence parallelism."""
    settings.put("parallel.tensor", degree, "parallelism.tensor_parallel_degree")
    if degree > 1:
        settings.put("parallel.sequence_parallel", value=True, note="torchtitan's tensor parallelism has it")


def context(settings: Settings, degree: int) -> None:
    """Context parallelism, and how ranks exchange keys and values."""
    settings.put("parallel.context", degree, "parallelism.context_parallel_degree")
    rotate = "parallelism.context_parallel_rotate_method"
    method = settings.word(rotate, "allgather", "alltoall", default="allgather")
    if degree > 1:
        note = settings.default_note(rotate)
        settings.put("parallel.context_method", "ring" if method == "alltoall" else "all_gather", rotate, note=note)


def data(settings: Settings, degrees: Degrees) -> None:
    """FSDP, and replicas of what it shards."""
    keeps = settings.word("parallelism.fsdp_reshard_after_forward", "default", "always", "never", default="default")
    names = (
        "parallelism.data_parallel_shard_degree",
        "parallelism.data_parallel_replicate_degree",
        "parallelism.fsdp_reshard_after_forward",
    )
    default = settings.default_note(*names)
    note = f"{default}: FSDP over all data-parallel ranks" if default else ""
    stage = 0 if not degrees.sharded else 2 if keeps == "never" else 3
    settings.put("parallel.zero", stage, *names, note=note)
    if keeps == "always" and degrees.pipeline > 1:
        settings.warnings.append("fsdp_reshard_after_forward: estimates keep the parameters of a pipeline's stage")
    if degrees.sharded and degrees.replicate > 1:
        group = degrees.shard * degrees.context
        settings.put("parallel.shard_group", group, "parallelism.data_parallel_replicate_degree")


def experts(settings: Settings, tensor: int) -> None:
    """How experts are divided, and what dispatches tokens to them.

    Without expert parallelism, tensor parallelism divides them like all else.
    """
    names = ("parallelism.expert_parallel_degree", "parallelism.expert_tensor_parallel_degree")
    expert, inside = settings.whole(names[0], 1) or 1, settings.whole(names[1], 1) or 1
    settings.put("parallel.expert", expert, names[0])
    if expert > 1:
        settings.put("parallel.expert_tensor", inside, names[1])
    elif tensor > 1:
        settings.put("parallel.expert_tensor", tensor, note="without expert parallelism, that of tensor parallelism")
    name = "parallelism.expert_parallel_comm_backend"
    backend = settings.word(name, "standard", "deepep", default="standard")
    if expert > 1:
        note = settings.default_note(name)
        settings.put("dispatcher", "fused" if backend == "deepep" else "all_to_all", name, note=note)

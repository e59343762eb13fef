"""Predicts measured runs by estimates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from syncline.codes import Code
from syncline.estimate import Job, Offload, Overlap, of_cluster
from syncline.estimate import estimator as estimated
from syncline.estimate import software as stacks
from syncline.estimate.job import DISPATCH_MULTIPROCESSORS
from syncline.input.problem import error, raise_errors
from syncline.validation.prediction import Prediction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline import _core
    from syncline.clusters.known import Cluster
    from syncline.estimate.job import Adapted, Module, Recompute, Split
    from syncline.estimate.software import ConstantSet, Software
    from syncline.models.architecture import Architecture
    from syncline.validation.prediction import Predict
    from syncline.validation.runs import Run


_ADAPTED: Mapping[str, Adapted] = {"mlperf": "attention", "bridge": "qkv", "dgxc": "qkv"}
"""Which products have adapters: MLPerf's reference adapts attention; NeMo's recipes for performance (`target_modules =
['linear_qkv']`) queries, keys and values; others all."""


def job(run: Run) -> Job:
    """How a run trains."""
    splits: Mapping[str, Split] = {"ends": "ends", "layout": "rest", "cost": "cost"}
    recompute: Recompute = run.recompute or "none"
    if recompute == "selective" and run.recompute_modules == "operators":
        recompute = "operators"
    if recompute == "full" and run.recompute_modules == "all but qkv":
        recompute = "except_qkv"
    return Job(
        tensor=run.tp,
        sequence_parallel=run.sequence_parallel,
        pipeline=run.pp,
        virtual_stages=run.virtual_stages,
        schedule="1f1b" if run.schedule is None or run.schedule == "interleaved" else run.schedule,
        split=splits.get(run.split or "even", "even"),
        context=run.cp,
        # torchtitan's `context_parallel_rotate_method` is the all-gather by default.
        context_method="all_gather" if run.framework == "torchtitan" and run.cp > 1 else "ring",
        expert=run.ep,
        expert_tensor=run.etp,
        data=run.replicas,
        zero=run.zero,
        shard_group=run.shard_group or run.replicas * run.cp,
        micro_batch=run.micro_batch,
        micro_batches=run.micro_batches,
        sequence=run.sequence,
        precision=run.precision,
        gradient_bytes=4 if (run.gradient_type or "fp32") == "fp32" else 2,
        recompute=recompute,
        recompute_modules=_modules(run),
        fused_attention=run.attention != "unfused",
        attention_library=None if run.attention == "flash" or run.attention == "unfused" else run.attention,
        rope_fusion=run.rope_fusion is not False,
        overlap=Overlap(
            tensor=bool(run.overlap_tp),
            gradients=bool(run.overlap_gradients),
            parameters=bool(run.overlap_parameters),
            pipeline=bool(run.overlap_pipeline),
            experts=bool(run.overlap_experts),
        ),
        graphs=run.graphs or "none",
        dispatcher=run.dispatcher or "all_to_all",
        routing=run.routing or "random",
        dispatch_multiprocessors=run.dispatch_multiprocessors or DISPATCH_MULTIPROCESSORS,
        fused_experts=bool(run.fused_experts),
        low_precision_output_layer=bool(run.low_precision_output_layer),
        fp8_attention=bool(run.fp8_attention),
        low_precision_parameters=bool(run.low_precision_parameters),
        vocab_multiple=stacks.vocab_multiple(run.framework or "megatron"),
        adapters=run.lora or (16 if run.task == "lora" else None),
        adapted=_ADAPTED.get(run.dataset, "all"),
        offload=_offload(run),
    )


def _offload(run: Run) -> Offload:
    """What a run has in the host's memory: the activations of some layers, or inputs of modules."""
    if run.offload is None:
        return Offload()
    words = run.offload.split()
    if words[-1] == "layers":
        return Offload(layers=int(words[0]))
    return Offload.model_validate({"modules": words})


def _modules(run: Run) -> list[Module]:
    """The parts of a layer that a run computes again; none where whole layers or operators are."""
    if run.recompute != "selective" or run.recompute_modules == "operators":
        return []
    return cast("list[Module]", (run.recompute_modules or "").split())


def estimator(run: Run, architecture: Architecture, cluster: Cluster) -> _core.Estimator:
    """The estimator of a run.

    :raises SynclineError: the mesh does not divide the model, or no kernels of its accelerator or precision were
        measured.
    """
    return estimated(architecture, job(run), of_cluster(cluster), run.layers)


def predictor(sets: Mapping[str, ConstantSet] | None = None) -> Predict:
    """A predictor with given constants; by default, those of the package."""
    chosen = stacks.shipped() if sets is None else sets

    def predict(run: Run, architecture: Architecture, cluster: Cluster) -> Prediction:
        name = stacks.choose(chosen, run.framework or "megatron", cluster.accelerator)
        if name is None:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "no constants for this framework on this accelerator",
                    key="framework",
                    found=f"{run.framework} on {cluster.accelerator}",
                    allowed=", ".join(sorted({each for found in chosen.values() for each in found.frameworks})),
                )
            )
        return predicted(run, cluster, estimator(run, architecture, cluster), chosen[name].constants)

    return predict


MEMORY: Mapping[str, tuple[str, int | None]] = {
    "nanotron": ("reserved", 0),
    "simumax": ("allocated", None),
    "torchtitan": ("reserved", None),
}
"""Which memory a data set states, and of which stage: PyTorch's peak of tensors (``allocated``) or of its allocator
(``reserved``). Others state that of the whole accelerator, of the fullest stage."""


def predicted(run: Run, cluster: Cluster, estimate: _core.Estimator, software: Software) -> Prediction:
    """The step of a run with given constants, and its memory."""
    framework = run.framework or "megatron"
    parts, _ = estimate.step(software.model_dump_json(), framework)
    capacity = cluster.memory_bytes or math.inf
    kind, stage = MEMORY.get(run.dataset, ("total", None))
    whole = estimate.memory(framework)[0]["total"]
    stated = estimate.memory(framework, stage)[0][kind]
    return Prediction(step_s=parts.pop("step"), memory_bytes=stated, fits=whole <= capacity, parts=parts)

"""Predicts measured runs by estimates in closed form."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.input.problem import error, raise_errors
from syncline.nccl import load as load_nccl
from syncline.nccl.machine import to_core
from syncline.validation import software as stacks
from syncline.validation.prediction import Prediction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.validation.architecture import Architecture
    from syncline.validation.clusters import Cluster
    from syncline.validation.prediction import Predict
    from syncline.validation.runs import Run
    from syncline.validation.software import ConstantSet, Software

_KERNELS = files("syncline") / "data" / "kernels"
MACHINES = {
    "A100-SXM4-80GB": ("A100-SXM4-80GB", "a100-sxm"),
    "A100-SXM4-40GB": ("A100-SXM4-80GB", "a100-sxm"),
    "H100-SXM5-80GB": ("H100-SXM5-80GB", "h100-sxm"),
    "H200-SXM-141GB": ("H100-SXM5-80GB", "h200-sxm"),
    "B200-SXM-180GB": ("B200-SXM-180GB", "b200-sxm"),
    "GB200-NVL72": ("B200-SXM-180GB", "gb200"),
}
"""Kernels and NCCL of an accelerator: a file of kernel models, and a machine."""
MEASURED_RATE = {"A100-SXM4-80GB": 2.039e12, "H100-SXM5-80GB": 3.352e12, "B200-SXM-180GB": 8e12}


def model(run: Run, architecture: Architecture) -> dict[str, Any]:
    """The model of a run, for the core."""
    window, latent = architecture.window, architecture.latent
    attention: Any = "full"
    if latent is not None:
        attention = {"latent": latent.model_dump()}
    elif window is not None:
        attention = {"window": window.model_dump()}
    experts = architecture.experts
    routed = None
    if experts is not None:
        kept = ("count", "top_k", "ffn", "shared_ffn", "dense_layers", "every")
        routed = {name: getattr(experts, name) for name in kept}
    return {
        "hidden": architecture.hidden,
        "layers": run.layers or architecture.layers,
        "heads": architecture.heads,
        "kv_heads": architecture.keys_and_values,
        "head_dim": architecture.dimension,
        "ffn": architecture.ffn,
        "gated": architecture.gated,
        "vocab": architecture.vocab,
        "tied": architecture.tied,
        "rotary": architecture.positions == "rope",
        "dropout": architecture.family == "gpt",
        "attention": attention,
        "experts": routed,
        "prediction_layers": architecture.prediction_layers,
    }


def job(run: Run) -> dict[str, Any]:
    """How a run trains, for the core."""
    splits = {"ends": "ends", "layout": "ends", "cost": "cost"}
    recompute: str = run.recompute or "none"
    if recompute == "selective" and run.recompute_modules == "operators":
        recompute = "operators"
    return {
        "tensor": run.tp,
        "sequence_parallel": run.sequence_parallel,
        "pipeline": run.pp,
        "virtual_stages": run.virtual_stages,
        "split": splits.get(run.split or "even", "even"),
        "context": run.cp,
        "expert": run.ep,
        "expert_tensor": run.etp,
        "data": run.replicas,
        "zero": run.zero,
        "shard_group": run.shard_group or run.replicas * run.cp,
        "micro_batch": run.micro_batch,
        "micro_batches": run.micro_batches,
        "sequence": run.sequence,
        "precision": run.precision,
        "gradient_bytes": 4 if (run.gradient_type or "fp32") == "fp32" else 2,
        "recompute": recompute,
        "fused_attention": run.attention == "flash",
        "overlap": {
            "tensor": bool(run.overlap_tp),
            "gradients": bool(run.overlap_gradients),
            "parameters": bool(run.overlap_parameters),
            "pipeline": bool(run.overlap_pipeline),
        },
        "adapters": run.lora or (16 if run.task == "lora" else None),
    }


@cache
def _kernels(name: str) -> str:
    return (_KERNELS / f"{name}.json").read_text("utf-8")


def nccl(cluster: Cluster) -> str:
    """NCCL on a cluster, for the core: the machine's constants within a domain, and the cluster's network."""
    machine = to_core(load_nccl(MACHINES[cluster.accelerator][1]).content)
    network = dict(machine["network"])
    network |= {"gpus": cluster.domain, "nics": cluster.domain, "nic_rate": cluster.nic_bytes_per_s}
    return json.dumps({**machine, "network": network})


def estimator(run: Run, architecture: Architecture, cluster: Cluster) -> _core.Estimator:
    """The estimator of a run.

    :raises SynclineError: the mesh does not divide the model, or no kernels of its accelerator or precision were
        measured.
    """
    if cluster.accelerator not in MACHINES:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "no kernels of this accelerator were measured",
                key="accelerator",
                found=cluster.accelerator,
                allowed=", ".join(MACHINES),
            )
        )
    kernels = MACHINES[cluster.accelerator][0]
    ratio = (cluster.memory_bytes_per_s or 0.0) / MEASURED_RATE[kernels]
    return _core.Estimator(
        json.dumps(model(run, architecture)),
        json.dumps(job(run)),
        json.dumps({"domain": cluster.domain_in_use or cluster.domain}),
        _kernels(kernels),
        f"{kernels}.json",
        round(ratio, 3),
        nccl(cluster),
    )


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


def predicted(run: Run, cluster: Cluster, estimated: _core.Estimator, software: Software) -> Prediction:
    """The step of a run with given constants, and its memory."""
    parts, _ = estimated.step(software.model_dump_json())
    framework = run.framework or "megatron"
    capacity = cluster.memory_bytes or math.inf
    kind, stage = MEMORY.get(run.dataset, ("total", None))
    whole = estimated.memory(framework)[0]["total"]
    stated = estimated.memory(framework, stage)[0][kind]
    return Prediction(step_s=parts.pop("step"), memory_bytes=stated, fits=whole <= capacity, parts=parts)

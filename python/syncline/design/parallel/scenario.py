"""Configurations as scenarios, so that a simulation follows their messages through the network, with contention.

A chunk of layers of a stage becomes one layer, whose passes take the times of the estimate: with the part of
tensor-parallel collectives and of keys and values that is not hidden, as these stay within a layer. Messages between
stages, gradients and parameters are simulated: on NVLink within a domain, and through one network interface for each
accelerator between domains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from syncline.jobs.detail import detail
from syncline.models import accelerators

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syncline.jobs import TrainingJob
    from syncline.jobs.detail import Detail

NVLINK_LATENCY = "1us"
"""Latency of a link within an NVLink domain."""
NETWORK_LATENCY = "5us"
"""Latency between two domains, through all switches."""
DIVIDED = 2
"""The highest stage of ZeRO in which each rank holds all parameters of its layers."""
SCHEDULES: Mapping[str, str] = {"gpipe": "gpipe", "1f1b": "1f1b"}
"""Schedules that simulations have, by their names in jobs; interleaving is 1F1B with several chunks."""


def refusal(job: TrainingJob) -> str | None:
    """Why a job has no scenario of chunks; None if it has one."""
    how = job.job
    if how.schedule not in SCHEDULES:
        return f"simulations do not have the schedule {how.schedule}"
    if how.zero > DIVIDED:
        return "with ZeRO-3, parameters are gathered layer by layer, and not by chunks of layers"
    if job.architecture.experts is not None:
        return "gradients of experts have groups of their own"
    if how.ranks < 2:
        return "one accelerator has no network"
    if job.machine.card is None:
        return "nothing says the rate of the links that join these accelerators"
    if how.ranks % _domain(job):
        return "accelerators do not fill NVLink domains"
    return None


def _domain(job: TrainingJob) -> int:
    """Ranks of a job in an NVLink domain."""
    return min(job.machine.used or job.machine.domain, job.job.ranks)


def scenario(job: TrainingJob) -> dict[str, Any]:
    """The scenario of a job without :func:`refusal`, as a mapping that :func:`syncline.simulate` takes."""
    how, on = job.job, job.machine
    inside = detail(job)
    chunks = how.pipeline * how.virtual_stages
    replicas = how.data * how.context
    workload: dict[str, Any] = {
        "layers": [_layer(job, inside, chunk, chunks) for chunk in range(chunks)],
        "parallel": {
            "tensor": how.tensor,
            "data": replicas,
            **({"pipeline": how.pipeline} if how.pipeline > 1 else {}),
            "schedule": "interleaved" if how.virtual_stages > 1 else SCHEDULES[how.schedule],
            "virtual_stages": how.virtual_stages,
            "zero": how.zero,
            "overlap": "gradients" if how.overlap.gradients else "none",
        },
        "micro_batches": how.micro_batches,
        "precision": "bf16",
        "types": {"gradients": "fp32" if how.gradient_bytes == 4 else "bf16"},
        "optimizer": "none",
    }
    domain = _domain(job)
    nvlink = accelerators.find(on.accelerator).scale_up.bytes_per_s
    dims: list[dict[str, Any]] = [
        {"name": "nvlink", "shape": "switch", "size": domain, "rate": f"{nvlink}B/s", "latency": NVLINK_LATENCY}
    ]
    if how.ranks > domain:
        dims.append(
            {
                "name": "network",
                "shape": "switch",
                "size": -(-how.ranks // domain),
                "rate": f"{round(on.nic_bytes_per_s)}B/s",
                "latency": NETWORK_LATENCY,
            }
        )
    dims = [each for each in dims if each["size"] > 1]
    return {
        "schema": "syncline/1",
        "name": job.name,
        "workload": workload,
        "compute": "given",
        "fabric": {"dims": dims},
        "network": "flow",
    }


def _layer(job: TrainingJob, inside: Detail, chunk: int, chunks: int) -> dict[str, Any]:
    """A chunk of the model, with what one rank of it computes, holds and sends."""
    how = job.job
    stage, local = chunk % how.pipeline, chunk // how.pipeline
    own = [each for each in inside.spans if (each.stage, each.chunk, each.micro_batch) == (stage, local, 0)]
    spent = {
        kind: sum(each.end_s - each.begin_s for each in own if each.kind == kind) for kind in ("forward", "backward")
    }
    parameters = inside.memory[stage].peak.gradients / how.gradient_bytes / how.virtual_stages
    sent = next((each.bytes for each in inside.communication if each.part == "messages"), 0.0)
    half = _ps(spent["backward"] / 2)
    return {
        "name": f"chunk{chunk}",
        "block": chunk,
        "sharding": "replicated",
        "forward": _ps(spent["forward"]),
        # The message to the stage before leaves after both.
        "weight_grad": half,
        "input_grad": half,
        "update": _ps(inside.update_s / how.virtual_stages),
        "parameters": round(parameters),
        "inputs": round(sent / 2),
        "outputs": round(sent / 2) if chunk + 1 < chunks else 0,
    }


def _ps(seconds: float) -> str:
    return f"{round(seconds * 1e12)}ps"

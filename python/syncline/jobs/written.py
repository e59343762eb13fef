"""Writes a job as a job file, such as the best configuration of a search, for ``syncline estimate``."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.estimate import machine
from syncline.estimate.job import GRADIENT_BYTES, MOMENT_BYTES
from syncline.estimate.software import vocab_multiple
from syncline.input.dump import dump
from syncline.input.problem import error, raise_errors
from syncline.jobs.job_file import JobFile, JobParallel
from syncline.schemas import JOB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

    from syncline.estimate import Job
    from syncline.estimate.machines import Machine
    from syncline.jobs.training_job import TrainingJob

_SAME = (
    "precision", "recompute", "recompute_method", "recompute_layers", "recompute_modules", "graphs", "expert_load",
    "dispatcher", "fused_experts", "low_precision_output_layer", "fp8_attention", "low_precision_parameters",
    "first_layers_bf16", "last_layers_bf16", "rope_fusion", "routing",
)  # fmt: skip
"""Keys of a job file that are attributes of a job."""


def job_text(job: TrainingJob, model: str, folder: str, comment: str) -> str:
    """The job file of a job, without keys whose default counts.

    :param model: the model as job files name it: its name, or the path of its ``config.json``.
    :param folder: where the file is to be; paths in it are relative to that.
    :param comment: its first line.
    :raises SynclineError: no key of a job file says what the cluster is.
    """
    values = {
        "schema": JOB,
        "name": job.name[:200],
        "model": _relative(model, folder),
        "cluster": {**_cluster(job.machine, folder), "gpus": job.job.ranks},
        **({} if job.framework == JobFile.model_fields["framework"].default else {"framework": job.framework}),
        **({} if job.constants_file is None else {"constants": _relative(job.constants_file, folder)}),
        **dict(_keys(job.job, job.framework)),
    }
    return f"# {' '.join(comment.split())}\n{dump(values)}"


def _keys(job: Job, framework: str) -> Iterator[tuple[str, Any]]:
    axes = {**job.model_dump(), "chunk_layers": job.chunk_layers or None}
    # All data-parallel and context-parallel ranks hold a copy together where the file does not say it.
    ranks = job.data * job.context * (2 if job.schedule == "dualpipe" else 1)
    axes["shard_group"] = None if job.shard_group == ranks else job.shard_group
    yield from _changed("parallel", JobParallel, axes)
    yield "batch", {"sequence": job.sequence, "micro_batch": job.micro_batch, "global_batch": job.global_batch}
    types = {
        "gradients": next(name for name, size in GRADIENT_BYTES.items() if size == job.gradient_bytes),
        "moments": next(name for name, size in MOMENT_BYTES.items() if size == job.moment_bytes),
        "attention": (job.attention_library or "fused") if job.fused_attention else "unfused",
        "vocab_multiple": None if job.vocab_multiple == vocab_multiple(framework) else job.vocab_multiple,
        "lora": job.adapters,
        "lora_targets": job.adapted,
        "lora_experts": job.expert_adapters,
    }
    if job.dispatcher == "fused":
        types["dispatch_multiprocessors"] = job.dispatch_multiprocessors
    fields = JobFile.model_fields
    for name, value in {**{each: getattr(job, each) for each in _SAME}, **types}.items():
        if value != fields[name].get_default(call_default_factory=True):
            yield name, value
    for name in ("offload", "overlap"):
        yield from _changed(name, type(fields[name].default), getattr(job, name).model_dump())


def _changed(key: str, model: type[BaseModel], values: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A mapping of a job file with the values that are no defaults, if there are any."""
    fields = model.model_fields
    found = {
        name: values[name]
        for name, field in fields.items()
        if values[name] != field.get_default(call_default_factory=True)
    }
    if found:
        yield key, found


def _cluster(found: Machine, folder: str) -> dict[str, Any]:
    """The keys of a cluster that differ from those of commercial servers."""
    if found.sustained is not None:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "job files cannot state this cluster's own clock under load",
                key="--job",
                help="leave out --job, or give --accelerator in place of --cluster",
            )
        )
    keys: dict[str, Any] = {"accelerator": found.accelerator}
    domain = found.used or found.domain
    if found.own is not None:
        keys["accelerator"] = _relative(found.own.file, folder)
        keys |= {"nic_rate": _rate(found.nic_bytes_per_s), "domain": domain, "memory": _size(found.memory_bytes)}
        sold = replace(found, nccl=None)
    else:
        sold = machine(found.accelerator)
        if found.nic_bytes_per_s != sold.nic_bytes_per_s:
            keys["nic_rate"] = _rate(found.nic_bytes_per_s)
        if domain != sold.domain:
            keys["domain"] = domain
        if found.memory_bytes != sold.memory_bytes:
            keys["memory"] = _size(found.memory_bytes)
    if found.nccl is not None and found.nccl != sold.nccl:
        keys["nccl"] = _relative(found.nccl, folder) if found.nccl.endswith((".yaml", ".yml")) else found.nccl
    host, usual = found.host, sold.host
    for key, value, known in (
        ("host_rate", host.to_host, usual.to_host),
        ("host_memory_rate", host.memory_bytes_per_s, usual.memory_bytes_per_s),
    ):
        if value is not None and (value != known or found.own is not None):
            keys[key] = _rate(value)
    if host.memory_bytes is not None and (host.memory_bytes != usual.memory_bytes or found.own is not None):
        keys["host_memory"] = _size(host.memory_bytes)
    return keys


def _rate(bytes_per_s: float) -> str:
    return f"{8 * bytes_per_s:.0f}b/s"


def _size(size: float) -> str:
    return f"{size:.0f}B"


def _relative(path: str, folder: str) -> str:
    """A path as a file in ``folder`` names it; a name, such as that of a model, stays."""
    found = Path(path)
    if not found.exists():
        return path
    if found.is_dir():
        found /= "config.json"
    try:
        there = os.path.relpath(found, folder or ".")
    except ValueError:  # on another drive
        there = str(found.resolve())
    return there if there.endswith((".json", ".yaml", ".yml")) or "/" in there else f"./{there}"

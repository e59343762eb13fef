"""A training job that can be estimated: what a job file describes, checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from syncline import _core
from syncline.codes import Code
from syncline.errors import SynclineError
from syncline.estimate import Job, Offload, estimator, machine
from syncline.estimate.frameworks import unsupported
from syncline.estimate.job import DISPATCH_MULTIPROCESSORS, GRADIENT_BYTES, MOMENT_BYTES
from syncline.estimate.software import check_own, choose, shipped, vocab_multiple
from syncline.estimate.software import read as read_constants
from syncline.input.check import Whole, collect, in_order
from syncline.input.node import dotted
from syncline.input.problem import error, exception, raise_errors
from syncline.input.source import from_argument
from syncline.input.units import bytes_per_s
from syncline.jobs.checks import checked, model_first, replicas, without_experts, without_rotations
from syncline.jobs.job_file import JobCluster, JobFile
from syncline.jobs.other_files import refuse
from syncline.models.architecture import Decoder
from syncline.models.architectures import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from syncline.errors import Diagnostic
    from syncline.estimate import Machine, Software
    from syncline.estimate.software import ConstantSet
    from syncline.input.node import Key
    from syncline.input.source import Override, Source

_PLACES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("tensor", "pipeline", "virtual_stages", "context", "expert", "expert_tensor", "shard_group", "chunk_layers"),
        ("parallel",),
    ),
    **dict.fromkeys(("sequence", "micro_batch"), ("batch",)),
    **dict.fromkeys(
        ("accelerator", "gpus", "nic_rate", "domain", "memory", "nccl", "host_rate", "host_memory_rate"), ("cluster",)
    ),
    **dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab"), ("model",)),
}
"""The mappings that hold the keys about which the core's errors are."""
_KEYS = {"nic_bytes_per_s": "nic_rate", "memory_bytes": "memory", "expert_adapters": "lora_experts"}
"""Keys of a job file by arguments of :func:`~syncline.estimate.machine`, and by those of the core."""


@dataclass(frozen=True)
class TrainingJob:
    """A model, a machine, and how the one trains on the other."""

    name: str
    """Its name."""
    architecture: Decoder
    """The model."""
    machine: Machine
    """The cluster."""
    job: Job
    """Mesh, batches, precision, recomputation, overlap."""
    framework: str
    """The software that trains."""
    constants_file: str | None = None
    """A file of constants; None: those of the package count."""

    @cached_property
    def sets(self) -> Mapping[str, ConstantSet]:
        """Sets of constants, of which :attr:`constants` is the one that counts.

        :raises SynclineError: the file of constants cannot be read or is malformed.
        """
        return shipped() if self.constants_file is None else read_constants(self.constants_file)

    @cached_property
    def estimator(self) -> _core.Estimator:
        """What estimates its step and memory.

        :raises SynclineError: the mesh does not divide the model, or no kernels of the precision were measured.
        """
        return estimator(self.architecture, self.job, self.machine)

    @property
    def constants(self) -> str:
        """The name of the set of constants of its framework on its accelerator.

        :raises SynclineError: there are none.
        """
        sets = self.sets
        chosen = choose(sets, self.framework, self.machine.accelerator)
        if chosen is None and self.machine.own is not None:
            # No run was measured on a user's own accelerator: the framework's constants on others count.
            chosen = min(
                (name for name, each in sets.items() if self.framework in each.frameworks),
                key=lambda name: name != self.framework,
                default=None,
            )
        if self.constants_file is not None:
            wanted = f"{self.framework} on {self.machine.accelerator}"
            check_own(sets, chosen, self.constants_file, wanted)
        if chosen is None:
            able = [
                each
                for found in sets.values()
                if self.machine.accelerator.startswith(tuple(found.accelerators))
                for each in found.frameworks
            ]
            raise exception(
                error(
                    Code.BAD_VALUE,
                    f"no run of this framework on {self.machine.accelerator} was measured, so that it has no constants",
                    key="framework",
                    found=self.framework,
                    allowed=", ".join(sorted(able)),
                    help=f"write framework: {able[0]}" if able else None,
                )
            )
        return chosen

    @property
    def software(self) -> Software:
        """These constants."""
        return self.sets[self.constants].constants


def read_job(path: str, set: Iterable[Override] = ()) -> TrainingJob:
    """Reads a job file, or standard input if ``path`` is ``-``; ``set`` replaces some of its values.

    :raises SynclineError: the file cannot be read or is malformed, or the job cannot run; all problems are in it.
    """
    source = from_argument(path)
    source.override(set)
    return resolve(source)


def resolve(source: Source) -> TrainingJob:
    """The job that a source describes.

    :raises SynclineError: it is malformed, or the job cannot run; all problems are in it.
    """
    found, problems = collect(source, JobFile, Whole("the job file"))
    if found is None:
        refuse(source)
        raise_errors(*in_order(problems))
    problems = list(checked(source, found))
    try:
        if problems:
            raise_errors(*model_first(source, found, _model(source, found), problems))
        made = TrainingJob(
            found.name or (Path(source.file).stem if source.file else "job"),
            _model(source, found),
            _machine(source, found.cluster),
            _job(found),
            found.framework,
            None if found.constants is None else source.relative(found.constants),
        )
        made.sets  # noqa: B018 - reads the file of constants
        _precision(made)
        _host(made)
        if made.architecture.experts is None and (problems := list(without_experts(source, found))):
            raise_errors(*problems)
        if made.architecture.positions != "rope" and not found.rope_fusion:
            raise_errors(without_rotations(source))
        made.constants  # noqa: B018 - raises if there are no constants
        if problems := list(unsupported(made.framework, made.job)):
            raise_errors(*problems)
        made.estimator  # noqa: B018 - checks the mesh
    except SynclineError as problem:
        raise exception(*in_order(_placed(source, each) for each in problem.diagnostics)) from None
    return made


def _placed(source: Source, problem: Diagnostic) -> Diagnostic:
    """A problem of the core or of the machine, with its place in the file."""
    key = problem.get("key")
    if key is None or "place" in problem:
        return problem
    key = _KEYS.get(key, key)
    if problem["code"] == Code.MISSING_KEY and not key.startswith("host_"):
        problem = {**problem, "help": f"write {key} under cluster"}
    path: tuple[Key, ...] = (*_PLACES.get(key, ()), *key.split("."))
    mark = source.mark(path)
    return {**problem, "key": dotted(path), "place": mark.place()} if mark else {**problem, "key": dotted(path)}


def _model(source: Source, found: JobFile) -> Decoder:
    if isinstance(found.model, Decoder):
        return found.model
    from syncline.config.model_file import names_file, read_architecture

    if not names_file(found.model):
        return named(found.model)
    return read_architecture(source.relative(found.model))


def _machine(source: Source, found: JobCluster) -> Machine:
    """The cluster, with files relative to the job file."""
    own, nccl = found.accelerator, found.nccl
    return machine(
        source.relative(own) if own.endswith(".json") else own,
        nic_bytes_per_s=_rate(found.nic_rate),
        domain=found.domain,
        memory_bytes=_size(found.memory),
        nccl=source.relative(nccl) if nccl is not None and nccl.endswith((".yaml", ".yml")) else nccl,
        host_bytes_per_s=_rate(found.host_rate),
        host_memory_bytes=_size(found.host_memory),
        host_memory_bytes_per_s=_rate(found.host_memory_rate),
    )


def _job(found: JobFile) -> Job:
    """The job for the core, of a file whose mesh and batch divide."""
    parallel, batch = found.parallel, found.batch
    data = replicas(found)
    return Job(
        **parallel.model_dump(exclude={"shard_group", "chunk_layers"}),
        chunk_layers=parallel.chunk_layers or [],
        data=data,
        # DualPipe has each part of the model in two stages.
        shard_group=parallel.shard_group or data * parallel.context * (2 if parallel.schedule == "dualpipe" else 1),
        micro_batch=batch.micro_batch,
        micro_batches=batch.global_batch // (data * batch.micro_batch),
        sequence=batch.sequence,
        precision=found.precision,
        gradient_bytes=GRADIENT_BYTES[found.gradients],
        moment_bytes=MOMENT_BYTES[found.moments],
        recompute=found.recompute,
        recompute_method=found.recompute_method,
        recompute_layers=found.recompute_layers,
        recompute_modules=found.recompute_modules,
        fused_attention=found.attention != "unfused",
        attention_library=None if found.attention == "fused" or found.attention == "unfused" else found.attention,
        rope_fusion=found.rope_fusion,
        overlap=found.overlap,
        graphs=found.graphs,
        expert_load=found.expert_load,
        dispatcher=found.dispatcher,
        routing=found.routing,
        dispatch_multiprocessors=found.dispatch_multiprocessors or DISPATCH_MULTIPROCESSORS,
        fused_experts=found.fused_experts,
        low_precision_output_layer=found.low_precision_output_layer,
        fp8_attention=found.fp8_attention,
        low_precision_parameters=found.low_precision_parameters,
        first_layers_bf16=found.first_layers_bf16,
        last_layers_bf16=found.last_layers_bf16,
        vocab_multiple=found.vocab_multiple or vocab_multiple(found.framework),
        adapters=found.lora,
        adapted=found.lora_targets,
        expert_adapters=found.lora_experts,
        offload=Offload(**found.offload.model_dump()),
    )


def _rate(rate: str | None) -> float | None:
    return None if rate is None else bytes_per_s(rate)


def _size(size: str | None) -> float | None:
    return None if size is None else float(_core.parse_quantity("bytes", size))


def _precision(made: TrainingJob) -> None:
    """Some types have the models of wider ones, so that kernels do not tell what an accelerator computes in."""
    # Products of fp16 take the time of those of bf16.
    able = made.machine.precisions
    able = [able[0], "fp16", *able[1:]] if able[:1] == ["bf16"] else able
    if made.job.precision not in able:
        raise exception(
            error(
                Code.BAD_VALUE,
                f"{made.machine.accelerator} does not compute in {made.job.precision}",
                key="precision",
                found=made.job.precision,
                allowed=", ".join(able),
                nearest=next((each for each in ("fp8", "bf16", "fp16") if each in able), None),
            )
        )


def _host(made: TrainingJob) -> None:
    """What lies in the host's memory needs the rates of the host."""
    offload, host = made.job.offload, made.machine.host
    needed = []
    if offload and host.to_host is None:
        needed.append(("host_rate", "how fast copies between these accelerators and their hosts are", "25GB/s"))
    if offload.optimizer and host.memory_bytes_per_s is None:
        needed.append(("host_memory_rate", "the rate of the host's memory for each accelerator", "50GB/s"))
    if needed:
        raise exception(
            *(
                error(
                    Code.MISSING_KEY,
                    f"missing: {what}",
                    key=key,
                    found=made.machine.accelerator,
                    help=f"write it under `cluster`, such as {key}: {example}",
                )
                for key, what, example in needed
            )
        )

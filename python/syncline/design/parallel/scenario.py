"""Configurations as scenarios, so that a simulation follows their communication through the network, with contention.

Computing takes the times of the estimate, with the part of tensor-parallel collectives and of keys and values that is
not hidden, as these stay within a layer. Messages between stages, tokens to experts and back, gradients and parameters
are simulated: on NVLink within a domain, and through one network interface for each accelerator between domains.

A layer of the scenario is a chunk of a stage, or a part of one where something is exchanged within it: with experts,
what comes before them and the experts of a layer; with ZeRO-3, the units whose parameters are gathered one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

from syncline.codes import Code
from syncline.config.expand_nccl import resolved as resolved_nccl
from syncline.config.load import load
from syncline.design.parallel.exchanges import ELEMENT_BYTES, Axes, gradients, tokens
from syncline.estimate.measured import MEASURED
from syncline.input.problem import error
from syncline.jobs.blocks import blocks
from syncline.models import accelerators

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from syncline.config.load import Loaded
    from syncline.errors import Diagnostic
    from syncline.estimate import Job
    from syncline.jobs import TrainingJob
    from syncline.jobs.blocks import Block, Share

NVLINK_LATENCY = "100ns"
"""Latency of a link within an NVLink domain. What software adds to it is in NCCL's times."""
NETWORK_LATENCY = "1us"
"""Latency between two domains, through all switches."""
SCHEDULES: Mapping[str, str] = {"gpipe": "gpipe", "1f1b": "1f1b"}
"""Schedules that simulations have, by their names in jobs; interleaving is 1F1B with several chunks."""
BUCKET, BUCKET_OF_EACH = 40_000_000, 1_000_000
"""Gradients are reduced together, during the backward pass of a chunk, in buckets of the first number of parameters, or
of the second one for each rank that reduces them if that is more (Megatron Core, ``DistributedDataParallel``)."""
EXPERTS = "experts"
"""The mesh of ranks that divide experts, in scenarios."""


def refusal(job: TrainingJob) -> Diagnostic | None:
    """Why a job has no scenario, by the key of its file; None if it has one."""
    how = job.job
    if how.schedule not in SCHEDULES:
        return error(
            Code.BAD_VALUE,
            f"the schedule {how.schedule} cannot be simulated",
            key="parallel.schedule",
            found=how.schedule,
            allowed=", ".join(SCHEDULES),
            help="estimate the job without a simulation, or write schedule: 1f1b",
        )
    if how.schedule == "gpipe" and how.overlap.experts:
        return error(
            Code.BAD_VALUE,
            "with gpipe, no forward pass runs beside a backward pass to hide exchanges of experts",
            key="overlap.experts",
            found="true",
            help="write schedule: 1f1b, or leave out overlap.experts",
        )
    if how.schedule == "1f1b" and how.virtual_stages > 1 and how.micro_batches % how.pipeline:
        unit = how.data * how.micro_batch * how.pipeline
        least = how.global_batch // unit * unit
        return error(
            Code.BAD_VALUE,
            f"interleaved stages take {how.pipeline} micro-batches at a time, as many as there are stages",
            key="batch.global_batch",
            found=f"{how.micro_batches} micro-batches",
            allowed=f"multiples of {unit}, such as {f'{least} or ' if least else ''}{least + unit}",
            help=f"write global_batch: {least + unit}, or leave out virtual_stages",
        )
    if how.ranks < 2:
        help = "estimate the job without a simulation"
        return error(Code.BAD_VALUE, "one accelerator has no network", key="cluster.gpus", found="1", help=help)
    if job.machine.card is None:
        return error(
            Code.BAD_VALUE,
            "the rate of the links that join these accelerators is not known",
            key="cluster.accelerator",
            found=job.machine.accelerator,
            help=f"name kernels after an accelerator that is known, such as {', '.join(list(MEASURED)[:3])}",
        )
    size = domain(job)
    if how.ranks % size:
        less, whole = how.ranks // size * size, gcd(how.ranks, size)
        return error(
            Code.BAD_VALUE,
            f"{how.ranks} accelerators do not fill NVLink domains of {size}",
            key="cluster.gpus",
            found=str(how.ranks),
            allowed=f"multiples of {size}, such as {less} or {less + size}",
            help=f"or write domain: {whole} under `cluster`",
        )
    return None


def domain(job: TrainingJob) -> int:
    """Ranks of a job in an NVLink domain."""
    return min(job.machine.used or job.machine.domain, job.job.ranks)


def loaded(job: TrainingJob, events: int | None = None) -> Loaded:
    """The scenario of a job without :func:`refusal`, ready to run: NCCL is that of the job's cluster.

    It stops after a number of events, if one is given.
    """
    found = load({**scenario(job), "limits": {"events": events}})
    nccl = resolved_nccl(job.machine.nccl_machine, job.machine.nccl_name)
    collectives = {**found.resolved["collectives"], "nccl": {**nccl, "gpus_per_node": domain(job)}}
    return replace(found, resolved={**found.resolved, "collectives": collectives})


def scenario(job: TrainingJob) -> dict[str, Any]:
    """The scenario of a job without :func:`refusal`, as a mapping: NCCL is that of the machine that was measured."""
    how, on = job.job, job.machine
    axes = Axes.of(how)
    workload: dict[str, Any] = {
        "layers": list(_layers(job, axes)),
        "parallel": {
            **axes.mesh,
            **({"pipeline": how.pipeline} if how.pipeline > 1 else {}),
            **({"meshes": {EXPERTS: axes.of_experts}} if job.architecture.experts is not None else {}),
            "backward": "input_first",
            "schedule": "interleaved" if how.virtual_stages > 1 else SCHEDULES[how.schedule],
            "virtual_stages": how.virtual_stages,
            "overlap": "gradients" if how.overlap.gradients or axes.gathers else "none",
            "combined": job.architecture.experts is not None and how.overlap.experts,
            "updates": "together",
            "messages": "overlap" if how.overlap.pipeline else "block",
        },
        "micro_batches": how.micro_batches,
        "precision": "bf16",
        "types": {"gradients": "fp32" if how.gradient_bytes == 4 else "bf16"},
        "optimizer": "none",
    }
    size = domain(job)
    nvlink = accelerators.find(on.accelerator).scale_up.bytes_per_s
    dims: list[dict[str, Any]] = [
        {"name": "nvlink", "shape": "switch", "size": size, "rate": f"{nvlink}B/s", "latency": NVLINK_LATENCY}
    ]
    if how.ranks > size:
        dims.append(
            {
                "name": "network",
                "shape": "switch",
                "size": how.ranks // size,
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
        "collectives": {"nccl": on.nccl_name, "element": f"{ELEMENT_BYTES}B"},
        "network": "flow",
    }


@dataclass
class _Layer:
    """A layer of the scenario while it is put together."""

    name: str
    block: int
    """Layers with one number are on one stage, and ZeRO-3 gathers their parameters together."""
    forward_s: float = 0.0
    backward_s: float = 0.0
    update_s: float = 0.0
    parameters: float = 0.0
    gathered: float = 0.0
    trained: float = 0.0

    def add(self, share: Share) -> None:
        """Adds what a part of a block computes and holds."""
        self.forward_s += share.forward_s
        self.backward_s += share.input_s + share.weight_s
        self.update_s += share.update_s
        self.parameters += share.parameters
        self.gathered += share.gathered
        self.trained += share.trained

    def written(
        self, exchanges: Iterable[dict[str, Any]], elements: int, *, mesh: str | None = None, first: bool = False
    ) -> dict[str, Any]:
        """The layer as a scenario has it, which passes on this many elements.

        Nothing needs gradients of samples: a scenario leaves out what its ``first`` layer computes for its inputs.
        """
        return {
            "name": self.name,
            "block": self.block,
            "sharding": "replicated",
            **({} if mesh is None else {"mesh": mesh}),
            "forward": _ps(self.forward_s),
            # The message to the stage before leaves after both gradients, as do gradients to be reduced.
            **({"weight_grad": _ps(self.backward_s)} if first else {"input_grad": _ps(self.backward_s)}),
            "update": _ps(self.update_s),
            "parameters": round(self.parameters),
            "inputs": elements,
            "outputs": elements,
            "exchanges": list(exchanges),
        }


def _layers(job: TrainingJob, axes: Axes) -> Iterator[dict[str, Any]]:
    """The layers of the scenario."""
    how = job.job
    found = blocks(job)
    elements = found.message_bytes // 2
    tied = job.architecture.tied and how.pipeline > 1 and how.adapters is None
    first = True
    for chunk, held in enumerate(found.chunks):
        for at, part in enumerate(_parts(held, how, axes, first=chunk < how.pipeline, tied=tied)):
            # ZeRO-3 gathers each unit by itself; otherwise a stage holds whole blocks.
            number = at if axes.gathers else chunk
            own = _Layer(_name(part[-1]) if at + 1 < len(held) and part else f"chunk{chunk}", number)
            for block in part:
                own.add(block.dense)
            shares = {}
            if tied and part and part[-1].kind in {"embedding", "output"}:
                own.name = part[-1].kind
                # The first stage lends its table to the last one, which has a copy.
                shares = {"shares": "embedding", "parameters": 0} if own.name == "output" else {}
            exchanges = gradients(how, own.trained, own.gathered, axes)
            yield {**own.written(exchanges, elements, first=first), **shares}
            first = False
            experts = part[-1].experts if part else None
            if experts is not None:
                own = _Layer(f"{_name(part[-1])}_experts", number)
                own.add(experts.share)
                exchanges = gradients(how, own.trained, own.gathered, axes, experts=True)
                yield own.written([*tokens(experts, axes), *exchanges], elements, mesh=EXPERTS)


def _parts(held: Sequence[Block], how: Job, axes: Axes, *, first: bool, tied: bool) -> list[list[Block]]:
    """The blocks of a chunk in parts, each a layer of the scenario.

    They are units of ZeRO-3; otherwise they end with experts and with buckets of gradients, and a table that two stages
    have is one.
    """
    ends = {at for at, block in enumerate(held) if axes.gathers or block.experts is not None}
    if first and not axes.gathers:
        ends |= _buckets(held, how)
    if tied:
        ends |= {at for at, block in enumerate(held) if block.kind == "embedding"}
        ends |= {at - 1 for at, block in enumerate(held) if block.kind == "output" and at > 0}
    parts: list[list[Block]] = [[]]
    for at, block in enumerate(held):
        parts[-1].append(block)
        if at in ends and at + 1 < len(held):
            parts.append([])
    return parts


def _buckets(held: Sequence[Block], how: Job) -> set[int]:
    """The last blocks of buckets, in which a framework reduces gradients of a chunk and gathers its parameters.

    Only those of the first chunk of a stage matter: computing of earlier chunks hides those of later ones.
    """
    ends: set[int] = set()
    if not (how.overlap.gradients or how.overlap.parameters):
        return ends
    least = max(BUCKET, BUCKET_OF_EACH * how.data * how.context)
    parameters = 0.0
    for at in reversed(range(1, len(held))):
        parameters += held[at].dense.trained
        if parameters >= least:
            ends.add(at - 1)
            parameters = 0.0
    return ends


def _name(block: Block) -> str:
    return block.kind if block.layer is None else f"layer{block.layer}"


def _ps(seconds: float) -> str:
    return f"{round(seconds * 1e12)}ps"

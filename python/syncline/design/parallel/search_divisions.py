"""The search for the fastest division of a model that fits into memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING, Any

from syncline import _core
from syncline.codes import Code
from syncline.estimate import Job, Overlap, Software, error_bar, kind_of, mfu, model_text, tokens_per_s
from syncline.estimate.job import AXES, SCHEDULES
from syncline.estimate.software import choose, shipped
from syncline.input.problem import error, nearest, raise_errors
from syncline.models import accelerators
from syncline.quantity import counted, memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.estimate import ErrorBar, Machine
    from syncline.estimate.job import Precision, Schedule
    from syncline.models.architecture import Architecture

FRAMEWORK = "megatron"
"""The software whose constants count."""
TOKENS = 1 << 22
"""Fewest tokens of a step without a batch: four million, as the largest models are trained with."""


@dataclass(frozen=True)
class Request:
    """What is to be divided, and among what."""

    architecture: Architecture
    machine: Machine
    gpus: int
    sequence: int
    """Tokens of a sequence."""
    global_batch: int
    """Sequences of a step."""
    precision: Precision = "bf16"
    """Of linear layers: bf16, fp8, mxfp8 or nvfp4."""
    micro_batch: int = 8
    """Largest micro-batch, in sequences."""
    virtual_stages: int = 12
    """Most chunks of layers of a stage, in interleaved pipelines."""
    schedules: tuple[Schedule, ...] = ("1f1b",)
    """Orders in which the stages of a pipeline work."""
    context: int = 8
    """Largest context parallelism."""
    recompute: bool = True
    """Whether layers may be recomputed."""
    shard_parameters: bool = True
    """Whether data-parallel ranks may divide parameters (ZeRO-3)."""
    reserve: float = 0.04
    """Part of the memory that stays free."""
    variants: bool = False
    """Whether divisions are listed one by one that have the same axes and differ in chunks, micro-batch or
    recomputation; else the fastest one of them stands for all."""
    waiting: float = 1.0
    """What a second of waiting counts beside one of computing, from 0 to 1: 1 finds the fastest divisions, the part
    of its power that an accelerator draws while it waits those that take least energy."""
    keep: int = 10
    """How many divisions are returned, the best ones."""


@dataclass(frozen=True)
class Division:
    """A way to divide the model, with its step and its memory."""

    job: Mapping[str, Any]
    """Axes, batches, recomputation, as the core names them."""
    parts: Mapping[str, float]
    """Seconds of a step by part, without ``step``."""
    step_s: float
    """Seconds of a step."""
    memory: Mapping[str, int]
    """Bytes of the fullest rank by kind, without ``total``."""
    memory_bytes: int
    """All of them."""
    computing_s: float
    """Seconds of a step in which an accelerator computes, the mean over stages."""

    @property
    def accelerators(self) -> int:
        """Number of accelerators."""
        return self.how.ranks

    @property
    def plan(self) -> tuple[int, ...]:
        """Its axes, in the order of :data:`AXES`."""
        return tuple(self.job[name] for name in AXES)

    @property
    def how(self) -> Job:
        """The job, typed."""
        return Job.model_validate(self.job)


@dataclass(frozen=True)
class Found:
    """What a search found."""

    request: Request
    best: tuple[Division, ...]
    """The best divisions, the best one first."""
    possible: int
    """Divisions that model and batch allow."""
    fitting: int
    """Those that fit into memory."""
    capacity: int
    """Bytes of an accelerator that may be used."""
    errors: ErrorBar | None = None
    """Errors of estimates of jobs that are alike; None if none was measured, or constants were given."""

    def mfu(self, division: Division) -> float:
        """Operations that the model needs, over those that the accelerators could do in 16 bits (MFU)."""
        request = self.request
        return mfu(request.architecture, division.how, request.machine, division.step_s)

    def tokens_per_s(self, division: Division) -> float:
        """Tokens a second of an accelerator."""
        return tokens_per_s(division.how, division.step_s)


def batch_of(gpus: int | Sequence[int], sequence: int) -> int:
    """Sequences of a step if none are given: at least :data:`TOKENS`, in equal numbers for all accelerators.

    It is their number times a power of two: with several numbers, their least common multiple.
    """
    counts = [gpus] if isinstance(gpus, int) else list(gpus)
    common = lcm(*counts)
    wanted = -(-max(TOKENS // sequence, common) // common)
    return common << (wanted - 1).bit_length()


def search(request: Request, software: Software | None = None) -> Found:
    """Searches all divisions that the crate ``estimate`` knows.

    :raises SynclineError: none fits into memory, or model and batch allow none; kernels of the precision were not
        measured.
    """
    _check_precision(request)
    _check_schedules(request)
    name = choose(shipped(), FRAMEWORK, request.machine.accelerator) or FRAMEWORK
    constants = software or shipped()[name].constants
    base = Job(sequence=request.sequence, precision=request.precision, zero=1, overlap=_OVERLAP)
    space = {
        "ranks": request.gpus,
        "global_batch": request.global_batch,
        "micro_batch": request.micro_batch,
        "virtual_stages": request.virtual_stages,
        "schedules": request.schedules,
        "context": request.context,
        "recompute": request.recompute,
        "shard_parameters": request.shard_parameters,
        "variants": request.variants,
        "waiting": request.waiting,
    }
    capacity = int(request.machine.memory_bytes * (1 - request.reserve))
    machine = request.machine
    setting = (
        model_text(request.architecture),
        base.text(),
        json.dumps(space),
        machine.cluster(),
        constants.model_dump_json(),
    )
    best, possible, fitting, smallest = _core.search_parallel(
        setting, machine.texts(), FRAMEWORK, capacity, request.keep
    )
    if not best:
        _raise_none(request, possible, smallest, capacity)
    kind = kind_of(request.architecture)
    errors = error_bar(name, request.machine.accelerator, kind) if software is None else None
    return Found(request, tuple(_division(*each) for each in best), possible, fitting, capacity, errors)


_OVERLAP = Overlap(tensor=True, gradients=True, parameters=True, pipeline=True)


def _check_precision(request: Request) -> None:
    """Some types have the models of wider ones, so the kernels do not tell what an accelerator computes in."""
    card = accelerators.find(request.machine.accelerator)
    # Products of fp16 take the time of those of bf16.
    able = [each for each in card.precisions if each != "fp16"]
    if request.precision not in able:
        raise_errors(
            error(
                Code.BAD_VALUE,
                f"{card.name} does not compute in {request.precision}",
                key="precision",
                found=request.precision,
                allowed=", ".join(able),
            )
        )


def _check_schedules(request: Request) -> None:
    for name in request.schedules:
        if name not in SCHEDULES:
            raise_errors(
                error(
                    Code.BAD_VALUE,
                    "no such schedule of a pipeline",
                    key="schedules",
                    found=name,
                    allowed=", ".join(SCHEDULES),
                    nearest=nearest(name, SCHEDULES),
                )
            )


def _division(job: str, parts: dict[str, float], kinds: dict[str, int]) -> Division:
    step, total, computing = parts.pop("step"), kinds.pop("total"), parts.pop("computing")
    for kept in ("allocated", "reserved"):
        kinds.pop(kept)
    return Division(json.loads(job), parts, step, kinds, total, computing)


def _raise_none(request: Request, possible: int, smallest: tuple[str, int] | None, capacity: int) -> None:
    if smallest is None:
        raise_errors(
            error(
                Code.BAD_VALUE,
                "model and batch cannot be divided among so many accelerators",
                key="gpus",
                found=str(request.gpus),
                help=f"TP x PP x CP x DP has to be {request.gpus}, and DP has to divide the global batch of "
                f"{request.global_batch}: give another --gpus or --global-batch",
            )
        )
    job, needed = Job.model_validate_json(smallest[0]), smallest[1]
    raise_errors(
        error(
            Code.BAD_VALUE,
            f"none of {counted(possible, 'division')} fits into memory",
            key="gpus",
            found=str(request.gpus),
            notes=[f"the smallest one, {job.axes}, needs {memory(needed)} of {memory(capacity)}"],
            help="use more accelerators, ones with more memory, or shorter sequences",
        )
    )

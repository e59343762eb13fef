"""The search for the fastest configuration of a model that fits into memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from syncline import _core
from syncline.design.parallel.assumptions import FRAMEWORK, MOST_GPUS, MOST_SEQUENCES
from syncline.design.parallel.checks import check_request
from syncline.design.parallel.remedies import raise_indivisible, raise_too_large
from syncline.estimate import (
    Job,
    Machine,
    Overlap,
    Software,
    error_bar,
    kind_of,
    mfu,
    model_text,
    tokens_per_s,
)
from syncline.estimate.job import (
    AXES,
    GRADIENT_BYTES,
    MOMENT_BYTES,
    Dispatcher,
    Gradients,
    Graphs,
    Moments,
)
from syncline.estimate.software import check_own, choose, shipped, vocab_multiple
from syncline.estimate.software import read as read_constants
from syncline.estimate.switches import switches
from syncline.input.arguments import Arguments
from syncline.models.architecture import Architecture, Decoder
from syncline.quantity import time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from syncline.estimate import ErrorBar
    from syncline.estimate.job import Precision, Schedule
    from syncline.estimate.software import ConstantSet
    from syncline.estimate.switches import Switch

TOKENS = 1 << 22
"""Fewest tokens of a step without a batch: four million, as the largest models are trained with."""

Offloaded: TypeAlias = Literal["activations", "optimizer"]
"""What a search may offload to host memory."""


@dataclass(frozen=True)
class Request:
    """A model, the machine to train it on, and what the search may vary.

    :raises SynclineError: a value has the wrong type, or is out of its range; all of them are named.
    """

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
    """Schedules of the pipeline."""
    graphs: Graphs = "none"
    """Which kernels CUDA graphs launch."""
    dispatcher: Dispatcher = "all_to_all"
    """What dispatches tokens to experts."""
    gradients: Gradients = "fp32"
    """Type in which gradients are summed: fp32 or bf16."""
    moments: Moments = "fp32"
    """Type of Adam's two moments: fp32, bf16 or 8bit."""
    context: int = 8
    """Largest context parallelism."""
    recompute: bool = True
    """Whether layers may be recomputed."""
    shard_parameters: bool = True
    """Whether data-parallel ranks may shard parameters (ZeRO-3)."""
    offload: tuple[Offloaded, ...] = ()
    """What may be offloaded to host memory: activations of layers, optimizer states."""
    reserve: float = 0.04
    """Part of the memory that stays free."""
    variants: bool = False
    """Whether configurations are listed one by one that have the same axes and differ in chunks, micro-batch,
    recomputation or offload; else the fastest one of them stands for all."""
    waiting: float = 1.0
    """Weight of a second of waiting against a second of computing, from 0 to 1: 1 finds the fastest configurations; the
    part of its power that an accelerator draws while it waits finds those that take the least energy."""
    keep: int = 10
    """How many of the best configurations are returned."""
    constants: str | None = None
    """A file of ``syncline validate constants``; None: the constants of the package."""

    def __post_init__(self) -> None:
        """Checks all values."""
        with Arguments() as check:
            check.instance("architecture", self.architecture, Decoder, "what read_model returns")
            check.instance("machine", self.machine, Machine, "what syncline.estimate.machine returns")
            check.whole("gpus", self.gpus, most=MOST_GPUS)
            check.whole("sequence", self.sequence, most=1 << 24)
            check.whole("global_batch", self.global_batch, most=MOST_SEQUENCES)
            check.word("precision", self.precision, ("bf16", "fp8", "mxfp8", "nvfp4"))
            check.word("graphs", self.graphs, get_args(Graphs))
            check.word("dispatcher", self.dispatcher, get_args(Dispatcher))
            check.word("gradients", self.gradients, get_args(Gradients))
            check.word("moments", self.moments, get_args(Moments))
            check.whole("micro_batch", self.micro_batch, most=1024)
            check.whole("virtual_stages", self.virtual_stages, most=1024)
            check.whole("context", self.context, most=1024)
            check.instance("schedules", self.schedules, (tuple, list), "a tuple of names of schedules")
            check.instance("offload", self.offload, (tuple, list), "a tuple of activations and optimizer")
            for each in self.offload if isinstance(self.offload, (tuple, list)) else ():
                check.word("offload", each, get_args(Offloaded))
            for name in ("recompute", "shard_parameters", "variants"):
                check.flag(name, getattr(self, name))
            check.part("reserve", self.reserve)
            check.number("waiting", self.waiting, above=-1e-9, most=1)
            check.whole("keep", self.keep, most=1_000_000)
            if self.constants is not None:
                check.instance("constants", self.constants, str, "the path of a file of constants")
        if self.constants is not None:
            on = self.machine.accelerator
            chosen = self.constant_set if self.machine.own is not None else choose(self.sets, FRAMEWORK, on)
            check_own(self.sets, chosen, self.constants, f"{FRAMEWORK} on {on}")

    @cached_property
    def sets(self) -> Mapping[str, ConstantSet]:
        """Sets of constants, of which :attr:`constant_set` counts.

        :raises SynclineError: the file of constants cannot be read or is malformed.
        """
        return shipped() if self.constants is None else read_constants(self.constants)

    @property
    def constant_set(self) -> str:
        """The name of the set for :data:`FRAMEWORK` on the accelerator."""
        return choose(self.sets, FRAMEWORK, self.machine.accelerator) or FRAMEWORK

    @property
    def capacity(self) -> int:
        """Bytes of an accelerator that may be used."""
        return int(self.machine.memory_bytes * (1 - self.reserve))


@dataclass(frozen=True)
class Configuration:
    """A parallel configuration of the model, with its step and its memory."""

    job: Mapping[str, Any]
    """Axes, batches, recomputation, as the core names them."""
    parts: Mapping[str, float]
    """Seconds of a step by part, without ``step``."""
    step_s: float
    """Seconds of a step."""
    memory: Mapping[str, int]
    """Bytes of the fullest rank by kind, without ``total``."""
    memory_bytes: int
    """Bytes of the fullest rank."""
    computing_s: float
    """Seconds of a step in which an accelerator computes, the mean over stages."""
    host_bytes: int = 0
    """Bytes of such a rank in host memory."""

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
    """The result of a search."""

    request: Request
    best: tuple[Configuration, ...]
    """The best configurations, the best one first."""
    possible: int
    """Configurations that model and batch allow."""
    fitting: int
    """Those that fit into memory."""
    capacity: int
    """Bytes of an accelerator that may be used."""
    errors: ErrorBar | None = None
    """Errors of estimates of jobs that are alike; None if none was measured, or constants were given."""
    switches: tuple[Switch, ...] = ()
    """Settings of the software with which the best configuration is faster and fits, for models with experts."""
    without_offload: Configuration | None = None
    """The best configuration without offload; None if none fits, or if the search has no offload."""

    def mfu(self, configuration: Configuration) -> float | None:
        """Operations that the model needs, over those that the accelerators could do in 16 bits (MFU).

        None if the peak of an own accelerator is not known.
        """
        request = self.request
        return mfu(request.architecture, configuration.how, request.machine, configuration.step_s)

    def tokens_per_s(self, configuration: Configuration) -> float:
        """Tokens a second of an accelerator."""
        return tokens_per_s(configuration.how, configuration.step_s)


def batch_of(gpus: int | Sequence[int], sequence: int) -> int:
    """Sequences of a step if none are given: at least :data:`TOKENS`, in equal numbers for all accelerators.

    It is their number times a power of two: with several numbers, their least common multiple.
    """
    counts = [gpus] if isinstance(gpus, int) else list(gpus)
    common = lcm(*counts)
    wanted = -(-max(TOKENS // sequence, common) // common)
    return common << (wanted - 1).bit_length()


def search(request: Request, software: Software | None = None) -> Found:
    """Searches all configurations that the crate ``estimate`` knows.

    :raises SynclineError: none fits into memory, or model and batch allow none; kernels of the precision were not
        measured; or an argument is none of these.
    """
    with Arguments() as check:
        check.instance("request", request, Request, "a Request")
        if software is not None:
            check.instance("software", software, Software, "a Software")
    check_request(request)
    best, possible, fitting, smallest = _searched(request, software)
    if not best:
        if smallest is None:
            raise_indivisible(request)
        constants = _constants(request, software).model_dump_json()
        raise_too_large(request, constants, lambda other: _fastest(other, software), possible, smallest)
    kind = kind_of(request.architecture)
    is_known = software is None and request.machine.own is None and request.constants is None
    errors = error_bar(request.constant_set, request.machine.accelerator, kind) if is_known else None
    configurations = tuple(_configuration(*each) for each in best)
    best_job, text = configurations[0].how, _constants(request, software).model_dump_json()
    faster = switches(request.architecture, best_job, request.machine, FRAMEWORK, text)
    fast = tuple(each for each in faster if each.memory_bytes <= request.capacity)
    plain = _searched(replace(request, offload=(), keep=1), software)[0] if request.offload else []
    without = _configuration(*plain[0]) if plain else None
    return Found(request, configurations, possible, fitting, request.capacity, errors, fast, without)


_Searched: TypeAlias = tuple[list[tuple[str, dict[str, float], dict[str, int]]], int, int, tuple[str, int] | None]
"""The best configurations, how many there are and fit, and the one that needs the least memory if none fits."""


def _constants(request: Request, software: Software | None) -> Software:
    """The constants that count: those given, or those of :data:`FRAMEWORK` on the accelerator."""
    return software or request.sets[request.constant_set].constants


def _searched(request: Request, software: Software | None) -> _Searched:
    base = Job(
        sequence=request.sequence,
        precision=request.precision,
        zero=1,
        overlap=_OVERLAP,
        graphs=request.graphs,
        dispatcher=request.dispatcher,
        gradient_bytes=GRADIENT_BYTES[request.gradients],
        moment_bytes=MOMENT_BYTES[request.moments],
        vocab_multiple=vocab_multiple(FRAMEWORK),
    )
    space = {
        "ranks": request.gpus,
        "global_batch": request.global_batch,
        "micro_batch": request.micro_batch,
        "virtual_stages": request.virtual_stages,
        "schedules": request.schedules,
        "context": request.context,
        "recompute": request.recompute,
        "shard_parameters": request.shard_parameters,
        "offload": request.offload,
        "variants": request.variants,
        "waiting": request.waiting,
    }
    on = request.machine
    setting = (
        model_text(request.architecture),
        base.text(),
        json.dumps(space),
        on.cluster(),
        _constants(request, software).model_dump_json(),
    )
    host = on.host.memory_bytes
    capacity = (request.capacity, _MOST_BYTES if host is None else int(host))
    return _core.search_parallel(setting, on.texts(), FRAMEWORK, capacity, request.keep)


_MOST_BYTES = (1 << 64) - 1
"""Memory of a host about which nothing is known."""
_OVERLAP = Overlap(tensor=True, gradients=True, parameters=True, pipeline=True)


def _configuration(job: str, parts: dict[str, float], kinds: dict[str, int]) -> Configuration:
    step, total, computing = parts.pop("step"), kinds.pop("total"), parts.pop("computing")
    for kept in ("allocated", "reserved"):
        kinds.pop(kept)
    host = kinds.pop("host")
    return Configuration(json.loads(job), parts, step, kinds, total, computing, host)


def _fastest(request: Request, software: Software | None) -> str | None:
    """The fastest configuration of a request and its step; None if none fits."""
    best = _searched(replace(request, keep=1), software)[0]
    if not best:
        return None
    configuration = _configuration(*best[0])
    return f"{configuration.how.axes}, {time(configuration.step_s)} a step"

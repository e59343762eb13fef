"""Errors of a search that finds no configuration, with what would fit instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from syncline.codes import Code
from syncline.design.parallel.assumptions import FRAMEWORK, MOST_GPUS, MOST_SEQUENCES
from syncline.estimate import MEASURED, Job, machine
from syncline.estimate.fitting import changes_that_fit
from syncline.input.problem import error, raise_errors
from syncline.models import accelerators
from syncline.quantity import counted, memory, time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.design.parallel.search_configurations import Offloaded, Request

Fastest: TypeAlias = Callable[["Request"], "str | None"]
"""The fastest configuration of a request and its step, in words; None if none fits."""


def raise_indivisible(request: Request) -> NoReturn:
    """Says that model and batch do not divide among the accelerators.

    :raises SynclineError: always.
    """
    raise_errors(
        error(
            Code.BAD_VALUE,
            "model and batch cannot be divided among this number of accelerators",
            key="gpus",
            found=str(request.gpus),
            help=f"TP x PP x CP x DP has to be {request.gpus}, and DP has to divide the global batch of "
            f"{request.global_batch}: give another --gpus or --global-batch",
        )
    )


def raise_too_large(
    request: Request, constants: str, fastest: Fastest, possible: int, smallest: tuple[str, int]
) -> NoReturn:
    """Says that no configuration fits, and what would fit.

    :param constants: constants of software, as JSON.
    :param possible: how many configurations model and batch allow.
    :param smallest: the one that needs the least memory, as JSON, and its bytes.
    :raises SynclineError: always.
    """
    job, needed = Job.model_validate_json(smallest[0]), smallest[1]
    ways = list(_ways(request, constants, fastest, job))
    raise_errors(
        error(
            Code.BAD_VALUE,
            f"none of {counted(possible, 'configuration')} fits into memory",
            key="gpus",
            found=str(request.gpus),
            notes=[f"the smallest one, {job.axes}, needs {memory(needed)} of {memory(request.capacity)}", *ways],
            help="use one of these" if ways else "use more accelerators, ones with more memory, or shorter sequences",
        )
    )


def _ways(request: Request, constants: str, fastest: Fastest, job: Job) -> Iterator[str]:
    """What would fit: a changed smallest configuration, offload, more or larger accelerators, shorter sequences."""
    changes = changes_that_fit(
        request.architecture, job, request.machine, FRAMEWORK, constants, request.capacity, most=1
    )
    for change in changes:
        yield f"{job.axes} fits with {change.said}: {time(change.step_s)} a step"
    for way in (_by_offload, _by_more, _by_larger, _by_shorter):
        if (found := way(request, fastest)) is not None:
            yield found


def _by_offload(request: Request, fastest: Fastest) -> str | None:
    host = request.machine.host
    if host.to_host is None:
        return None
    able: tuple[Offloaded, ...] = ("activations",) if host.memory_bytes_per_s is None else ("activations", "optimizer")
    if set(able) <= set(request.offload) or (found := fastest(replace(request, offload=able))) is None:
        return None
    return f"{' '.join(f'--offload {each}' for each in able)}: {found}"


def _by_more(request: Request, fastest: Fastest) -> str | None:
    for times in (2, 4, 8, 16, 32, 64):
        gpus = request.gpus * times
        if gpus <= MOST_GPUS and (found := fastest(replace(request, gpus=gpus))) is not None:
            return f"{gpus} accelerators: {found}"
    return None


def _by_larger(request: Request, fastest: Fastest) -> str | None:
    larger = [name for name in MEASURED if accelerators.find(name).memory_bytes > request.machine.memory_bytes]
    for name in sorted(larger, key=lambda each: accelerators.find(each).memory_bytes):
        if request.precision in accelerators.find(name).precisions and (
            found := fastest(replace(request, machine=machine(name), constants=None))
        ):
            return f"{name}: {found}"
    return None


def _by_shorter(request: Request, fastest: Fastest) -> str | None:
    for parts in (2, 4, 8):
        if request.sequence % parts == 0 and request.global_batch * parts <= MOST_SEQUENCES:
            shorter = replace(request, sequence=request.sequence // parts, global_batch=request.global_batch * parts)
            if (found := fastest(shorter)) is not None:
                return f"sequences of {shorter.sequence:,} tokens: {found}"
    return None

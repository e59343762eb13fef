"""A communication hook for DDP that averages gradients by a communicator of this package, or by parameter hubs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.distributed as dist

from syncline.errors import SynclineError
from syncline.hub import Hub
from syncline.input.problem import bad_value
from syncline.runtime.communicator import Communicator
from syncline.runtime.rendezvous import Meeting
from syncline.torch.device import Local
from syncline.torch.elements import ELEMENTS, PAIRS, memory
from syncline.torch.queue import Queue
from syncline.torch.rendezvous import StoreRendezvous, interfaces
from syncline.torch.work import Operation, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.runtime.communicator import Pending
    from syncline.runtime.security import Security
    from syncline.runtime.settings import Plans, Resources, TimeLimits

    Average: TypeAlias = Callable[[Any, torch.Tensor], tuple[Local, Callable[[], list[Pending]]]]
    """Prepares a bucket for averaging: returns its memory, and a function that begins the operations."""


def join(
    group: dist.ProcessGroup | None = None,
    *,
    name: str = "hook",
    elastic: bool = False,
    meeting: Meeting | None = None,
    security: Security | None = None,
    plans: Plans | None = None,
    resources: Resources | None = None,
    limits: TimeLimits | None = None,
) -> Communicator:
    """Joins the ranks of a process group of another backend, or of the default group, for :func:`hook`.

    The ranks meet through the store of the group. Without a process group they meet as ``init_process_group`` does:
    through ``MASTER_ADDR`` and ``MASTER_PORT``, or the store of torchrun's agent. :class:`Elastic` needs ``elastic``
    and no process group, which would end with its first rank. Other options are as for ``Communicator.join``. Two
    communicators in one store need different names.

    Raises ``RuntimeError`` if there is no process group and the job is not elastic.
    """
    whole = group or dist.group.WORLD
    if whole is not None:
        store, rank, world = whole.get_group_store(), whole.rank(), whole.size()
    elif elastic:
        store, rank, world = next(dist.rendezvous("env://"))
    else:
        raise RuntimeError("torch.distributed has no process group yet: call init_process_group first")
    meeting = meeting or Meeting()
    return Communicator.join(
        rank,
        world,
        job=f"hook {name}",
        elastic=elastic,
        meeting=replace(
            meeting, interfaces=interfaces(store, meeting.interfaces), rendezvous=StoreRendezvous(store, name)
        ),
        security=security,
        plans=plans,
        resources=resources,
        limits=limits,
    )


def vectors(module: torch.nn.Module) -> dict[str, tuple[str, int]]:
    """Describes the gradients of a module as vectors of a job on hubs, for ``Hub.join`` and :func:`hook`.

    Raises ``SynclineError`` for parameters whose gradients hubs cannot average.
    """
    return {name: _vector(name, param) for name, param in _trained(module)}


def _trained(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    whole = module.module if isinstance(module, torch.nn.parallel.DistributedDataParallel) else module
    return [(name, param) for name, param in whole.named_parameters() if param.requires_grad]


def _vector(name: str, param: torch.Tensor) -> tuple[str, int]:
    pairs = PAIRS.get(param.dtype)
    dtype = pairs or param.dtype
    if dtype not in ELEMENTS or not dtype.is_floating_point:
        found = f"`{name}` of {str(param.dtype).removeprefix('torch.')}"
        allowed = "float16, bfloat16, float32, float64, complex"
        raise bad_value("hubs cannot average gradients of this type", found, allowed=allowed)
    return ELEMENTS[dtype], param.numel() * (2 if pairs else 1)


def hook(
    ranks: Communicator | Hub, module: torch.nn.Module | None = None, *, in_order: bool = False
) -> Callable[[Any, dist.GradBucket], torch.futures.Future[Any]]:
    """Returns a hook that averages gradients over ``ranks``, in place.

    Register it with DDP::

        ddp.register_comm_hook(None, syncline.torch.hook(ranks))

    With ``in_order`` results are the same bit for bit in every run. If an operation fails, ``backward()`` raises an
    error with the text of the ``SynclineError``, and the gradients must not be used.

    For a job on hubs, pass the ``module`` whose :func:`vectors` the job has::

        ddp.register_comm_hook(None, syncline.torch.hook(hub, ddp))

    Raises ``SynclineError`` (SL0102) if the vectors of the job are not the gradients of the module.
    """
    queue = Queue()
    average = _hub(ranks, module, in_order=in_order) if isinstance(ranks, Hub) else _ranks(ranks, in_order=in_order)

    def average_with_syncline(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        place, begin = average(bucket, buffer)
        work = BucketWork(bucket.index(), queue, place, begin, buffer)
        queue.put(work)
        return work.get_future()

    # DDP compares the annotations with types; annotations of this module are strings.
    average_with_syncline.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return average_with_syncline


def _ranks(ranks: Communicator, *, in_order: bool) -> Average:
    """Returns the function that averages a bucket by a plan."""

    def average(bucket: Any, buffer: torch.Tensor) -> tuple[Local, Callable[[], list[Pending]]]:
        if ranks.world > 1:
            # Divide before summing, as DDP does: the sum could overflow, for example in float16.
            buffer.div_(ranks.world)
        place = Local([buffer], reads=True, writes=True)
        return place, lambda: [ranks.all_reduce(memory(place.host), in_order=in_order)]

    return average


def _hub(hub: Hub, module: torch.nn.Module | None, *, in_order: bool) -> Average:
    """Returns the function that averages a bucket on hubs, which divide by the number of contributing ranks.

    DDP changes its buckets after the first step. Each parameter is therefore a vector, rather than each bucket.
    """
    if in_order:
        raise bad_value(
            "hubs take in_order only when a job is joined", "in_order", help="join with Hub.join(..., in_order=True)"
        )
    if module is None:
        raise bad_value("a hook for hubs needs the module", "none", help="call hook(hub, module)")
    known = vectors(module)
    for name, vector in known.items():
        if hub.keys.get(name) != vector:
            found = f"`{name}` is {hub.keys.get(name, 'not there')}, and the module has {vector}"
            raise bad_value(
                "the job's vectors are not the module's gradients",
                found,
                help="join with Hub.join(..., vectors(module))",
            )
    names = {id(param): name for name, param in _trained(module)}

    def average(bucket: Any, buffer: torch.Tensor) -> tuple[Local, Callable[[], list[Pending]]]:
        place = Local([buffer], reads=True, writes=True)
        params = bucket.parameters()

        def begin() -> list[Pending]:
            # For complex parameters, DDP's buffers contain real and imaginary parts.
            pairs = [1 if buffer.is_complex() or param.dtype not in PAIRS else 2 for param in params]
            parts = place.host.split([pair * param.numel() for pair, param in zip(pairs, params, strict=True)])
            return [hub.push_pull(names[id(param)], memory(part)) for param, part in zip(params, parts, strict=True)]

        return place, begin

    return average


class BucketWork(Work):
    """The operation on a bucket of gradients; the value of its future is one tensor."""

    def __init__(
        self, index: int, queue: Queue, place: Local, begin: Callable[[], list[Pending]], buffer: torch.Tensor
    ) -> None:
        super().__init__(Operation(f"bucket {index}", [place], begin, [buffer]), queue)

    def end(self, error: Exception | None, *, here: bool = False) -> None:
        """Ends the operation, and adds the bucket's number to an error."""
        if isinstance(error, SynclineError):
            first = error.diagnostics[0].copy()
            first["message"] += f", {self.what}"
            error = SynclineError([first, *error.diagnostics[1:]], error.exit_status)
        super().end(error, here=here)

    def value(self) -> Any:
        """Returns the value of the future."""
        return super().value()[0]

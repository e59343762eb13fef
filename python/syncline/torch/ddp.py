"""A communication hook for DDP: gradients are averaged by a communicator of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from syncline.errors import SynclineError
from syncline.runtime.communicator import Communicator
from syncline.torch.device import Local
from syncline.torch.elements import memory
from syncline.torch.queue import Queue
from syncline.torch.rendezvous import StoreRendezvous, interfaces
from syncline.torch.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncline.runtime.communicator import Pending


def join(group: dist.ProcessGroup | None = None, *, name: str = "hook", **settings: Any) -> Communicator:
    """Joins the ranks of a process group of another backend, or of the default group, for :func:`hook`.

    They meet through the store of the group. ``settings`` are those of ``Communicator.join``: ``rules``, ``order``,
    ``congestion``, ``pace``. Of two communicators on one group each needs a ``name`` of its own.
    """
    whole = group or dist.group.WORLD
    if whole is None:
        raise RuntimeError("torch.distributed has no process group yet: call init_process_group first")
    store = whole.get_group_store()
    settings["interfaces"] = interfaces(store, settings.get("interfaces"))
    meeting = StoreRendezvous(store, name)
    return Communicator.join(whole.rank(), whole.size(), rendezvous=meeting, job=f"hook {name}", **settings)


def hook(ranks: Communicator, *, in_order: bool = False) -> Callable[[Any, dist.GradBucket], torch.futures.Future[Any]]:
    """A hook that averages gradients with ``ranks``, in place.

    One line registers it::

        ddp.register_comm_hook(None, syncline.torch.hook(ranks))

    With ``in_order`` results are the same bit for bit in every run. Where something goes wrong ``backward()`` raises an
    error with the text of the ``SynclineError``, and the gradients are of no use.
    """
    queue = Queue()

    def average_with_syncline(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        if ranks.world > 1:
            # Before they are summed, as DDP does: sums of halves could be too large.
            buffer.div_(ranks.world)
        place = Local([buffer], reads=True, writes=True)

        def begin() -> list[Pending]:
            return [ranks.all_reduce(memory(place.host), in_order=in_order)]

        work = Bucket(bucket.index(), queue, place, begin, buffer)
        queue.put(work)
        return work.get_future()

    # DDP looks at the types, and not at their names.
    average_with_syncline.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return average_with_syncline


class Bucket(Work):
    """A bucket of gradients under way: its future is of one tensor."""

    def __init__(
        self, index: int, queue: Queue, place: Local, begin: Callable[[], list[Pending]], buffer: torch.Tensor
    ) -> None:
        super().__init__(f"bucket {index}", queue, [place], begin, [buffer])

    def end(self, error: Exception | None) -> None:
        """It is over; errors say which bucket it was."""
        if isinstance(error, SynclineError):
            first = error.diagnostics[0].copy()
            first["message"] += f", {self.what}"
            error = SynclineError([first, *error.diagnostics[1:]], error.exit_status)
        super().end(error)

    def value(self) -> Any:
        """What the future is of."""
        return super().value()[0]

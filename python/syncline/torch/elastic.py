"""Training that goes on where ranks are lost, and takes back those that are started again.

A step counts once all ranks that take part have all its gradients: the last thing of a backward pass is an operation that no
rank ends before every rank has begun it. So where it fails, and some rank is through with it, all have the step's gradients;
and where no rank is through with it, all survivors sum the step's gradients again. Parameters stay the same on all.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from syncline.errors import SynclineError
from syncline.runtime.memory import refusal
from syncline.torch.elements import memory

if TYPE_CHECKING:
    from syncline.runtime.communicator import Communicator

TRIES = 3
"""How often a step is begun again while nobody is lost, before it is given up."""


class Elastic:
    """Averages the gradients of a DDP module with the ranks of an elastic job, and goes on without ranks that are lost.

    ``ranks`` are a :class:`~syncline.runtime.Communicator` that was joined with ``elastic=True``. The module's own process
    group only has this process, and its gradients are on the CPU. Every step begins with :meth:`begin`::

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        ranks = Communicator.join(elastic=True)
        model = DistributedDataParallel(net)
        training = syncline.torch.Elastic(ranks, model, optimizer)
        while training.begin() < 1000:
            optimizer.zero_grad()
            loss(model(batch)).backward()
            optimizer.step()

    Where a rank is lost while gradients are summed, ``backward()`` sums those of the others, who are waited for as long as
    ``wait_s``, and returns: no step is lost. A rank that is started again runs the same program: its ``begin`` gets the
    parameters and the optimizer's state of the others, and says with which step they go on.
    """

    def __init__(
        self,
        ranks: Communicator,
        model: torch.nn.parallel.DistributedDataParallel,
        optimizer: torch.optim.Optimizer,
        *,
        wait_s: float = 0.0,
        in_order: bool = False,
    ) -> None:
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and parameter.device.type != "cpu":
                raise refusal(f"gradients of `{name}` are not in this host's memory", str(parameter.device), "cpu")
        if dist.get_world_size(model.process_group) != 1:
            found = f"{dist.get_world_size(model.process_group)} processes"
            raise refusal(
                "a process group ends with its first rank that is lost", found, "a group of this process alone"
            )
        self.ranks = ranks
        self.model = model
        self.optimizer = optimizer
        self._wait_s = wait_s
        self._in_order = in_order
        # Steps that count; none is known yet.
        self._steps = 0
        self._knows = False
        # Whether somebody waits to be let in, as all agreed at the end of the last step.
        self._called = False
        self._buckets: list[Bucket] = []

        def average_with_survivors(state: Any, bucket: Any) -> Any:
            return self._reduce(bucket)

        # DDP looks at the types, and not at their names.
        average_with_survivors.__annotations__ = {
            "bucket": dist.GradBucket,
            "return": torch.futures.Future[torch.Tensor],
        }
        model.register_comm_hook(None, average_with_survivors)

    @property
    def step(self) -> int:
        """How many steps count: the number of the one that is under way, from 0."""
        return self._steps

    def begin(self) -> int:
        """Begins a step, and says which, from 0: that of all ranks.

        The first time, ranks that have just come get parameters, buffers and the optimizer's state; later, ranks that
        wait are let in. Raises ``SynclineError`` (SL1201, SL1202) where this rank cannot go on.
        """
        if self._called:
            self.ranks.renew()
        if self._called or not self._knows:
            self._agree()
        self._called = False
        return self._steps

    def _reduce(self, bucket: Any) -> torch.futures.Future[Any]:
        """Begins to sum a bucket; with the last one, sees to it that the step counts."""
        if not self._knows:
            raise RuntimeError("a step begins with Elastic.begin()")
        mine = Bucket(bucket.buffer())
        self._buckets.append(mine)
        mine.begin(self.ranks, in_order=self._in_order)
        if bucket.is_last():
            buckets, self._buckets = self._buckets, []
            self._commit(buckets)
        return mine.future

    def _commit(self, buckets: list[Bucket]) -> None:
        """Ends a step, with as many ranks as there are."""
        tries = 0
        while not self._sum(buckets):
            before, steps = self.ranks.ranks, self._steps
            error = self.ranks.fault()
            self.ranks.renew(wait_s=self._wait_s)
            self._agree()
            if self._steps > steps:
                # Somebody is through with the step: so all its gradients have come, here, too.
                break
            tries = tries + 1 if self.ranks.ranks == before else 0
            if tries == TRIES and error is not None:
                raise error
            for bucket in buckets:
                bucket.begin(self.ranks, in_order=self._in_order)
        for bucket in buckets:
            bucket.end()

    def _sum(self, buckets: list[Bucket]) -> bool:
        """Waits until the step counts; whether it does, or some rank was lost."""
        try:
            for bucket in buckets:
                bucket.wait()
            self._end()
        except SynclineError:
            if self.ranks.fault() is None:
                raise
            return False
        return True

    def _end(self) -> None:
        """The operation that no rank ends before all have begun it; it also tells who is called."""
        called = torch.tensor([len(self.ranks.waiting)], dtype=torch.int32)
        self.ranks.all_reduce(memory(called), "max", keep=True).wait()
        self._steps += 1
        self._called = bool(called)

    def _agree(self) -> None:
        """Goes on with the step of whoever is furthest; whoever does not know anything is told the state."""
        for _ in range(TRIES + self.ranks.world):
            try:
                self._exchange()
                return
            except SynclineError:
                if (error := self.ranks.fault()) is None:
                    raise
                self.ranks.renew(wait_s=self._wait_s)
        raise error

    def _exchange(self) -> None:
        """What every rank knows, and the state for those who know nothing: of the first that is furthest."""
        own = torch.tensor([self._steps, int(self._knows)], dtype=torch.int64)
        all_of_them = torch.empty(2 * self.ranks.world, dtype=torch.int64)
        self.ranks.all_gather(memory(own), memory(all_of_them)).wait()
        known = all_of_them.view(-1, 2).tolist()
        furthest = max(steps for steps, _ in known)
        if not all(knows for _, knows in known):
            # Where nobody knows anything yet, the first rank's is what all begin with.
            able = [rank for rank, (steps, knows) in enumerate(known) if knows and steps == furthest]
            self._give(able[0] if able else 0)
        self._steps = furthest
        self._knows = True

    def _give(self, root: int) -> None:
        """Brings the state of one rank to those who know nothing."""
        length = torch.zeros(1, dtype=torch.int64)
        state = b""
        if self.ranks.rank == root:
            packed = io.BytesIO()
            torch.save({"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}, packed)
            state = packed.getvalue()
            length[0] = len(state)
        self.ranks.broadcast(memory(length), root).wait()
        packed_state = bytearray(state) if self.ranks.rank == root else bytearray(int(length))
        self.ranks.broadcast(packed_state, root).wait()
        if self.ranks.rank != root and not self._knows:
            read = torch.load(io.BytesIO(packed_state), weights_only=True)
            self.model.module.load_state_dict(read["model"])
            self.optimizer.load_state_dict(read["optimizer"])


class Bucket:
    """A bucket of gradients of a step: they stay as they are until the step counts."""

    def __init__(self, buffer: torch.Tensor) -> None:
        self.buffer = buffer
        self.result = torch.empty_like(buffer)
        self.future: torch.futures.Future[Any] = torch.futures.Future()
        self.pending: Any = None

    def begin(self, ranks: Communicator, *, in_order: bool) -> None:
        """Begins to sum it."""
        # Before they are summed, as DDP does: sums of halves could be too large.
        torch.div(self.buffer, ranks.world, out=self.result)
        self.pending = ranks.all_reduce(memory(self.result), in_order=in_order, keep=True)

    def wait(self) -> None:
        """Waits until it is summed; raises what ended that."""
        self.pending.wait()

    def end(self) -> None:
        """The step counts."""
        self.future.set_result(self.result)

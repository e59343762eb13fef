"""Training that goes on where ranks are lost, and takes back those that are started again.

A step counts once all ranks that take part have all its gradients: what is summed last is an operation that no rank
ends before every rank has begun it. So where it fails, and some rank is through with it, all have the step's gradients;
and where no rank is through with it, all survivors sum the step's gradients again. Parameters stay the same on all.
"""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from syncline.errors import SynclineError
from syncline.runtime.memory import refusal
from syncline.torch.buckets import lay
from syncline.torch.elements import memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syncline.runtime.communicator import Communicator, Pending

TRIES = 3
"""How often a step is begun again while nobody is lost, before it is given up."""


class Elastic:
    """Averages the gradients of a model over the ranks of an elastic job, and goes on without ranks that are lost.

    ``ranks`` are a :class:`~syncline.runtime.Communicator` that was joined with ``elastic=True``; neither DDP nor a
    process group of PyTorch is needed. Every step begins with :meth:`begin`, and gradients are averages over all ranks
    once ``optimizer.step()`` looks at them::

        ranks = Communicator.join(elastic=True)
        training = syncline.torch.Elastic(ranks, model, optimizer)
        while training.begin() < 1000:
            optimizer.zero_grad()
            loss(model(batch)).backward()
            optimizer.step()

    Buckets of gradients are summed while ``backward()`` still runs. Where a rank is lost, those of the others are
    summed: no step is lost. Lost ranks are waited for as long as ``wait_s``. A rank that is started again runs the same
    program: its ``begin`` gets the parameters and the optimizer's state of the others, and says with which step they
    go on.

    A parameter without gradient in a step has one of zeros. Gradients are dense, and in this host's memory.
    """

    def __init__(
        self,
        ranks: Communicator,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        wait_s: float = 0.0,
        in_order: bool = False,
        bucket_mb: float = 4.0,
    ) -> None:
        """Takes over the gradients of ``model`` that ``optimizer`` uses.

        They are summed in buckets of about ``bucket_mb`` MB, and with ``in_order`` in the order of ranks, so that runs
        are the same bit for bit. Raises ``SynclineError`` (SL0102) for parameters that it cannot take.
        """
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and parameter.device.type != "cpu":
                raise refusal(f"gradients of `{name}` are not in this host's memory", str(parameter.device), "cpu")
        if not bucket_mb > 0:
            raise refusal("a bucket has some bytes", f"bucket_mb={bucket_mb}", "more than 0")
        self.ranks = ranks
        self.model = model
        self.optimizer = optimizer
        self._wait_s = wait_s
        self._in_order = in_order
        self._buckets, _ = lay([{"params": list(model.parameters())}], bucket_mb * 1e6)
        if not self._buckets:
            raise refusal("there is nothing to train", "no parameter that requires a gradient", "at least one")
        self._places = {id(param): bucket for bucket in self._buckets for param in bucket.parameters}
        # Sums of this step that have begun: those of the first buckets, in their order.
        self._sums: list[Pending] = []
        self._lock = threading.Lock()
        self._held = False
        # Steps that count; none is known yet.
        self._steps = 0
        self._knows = False
        self._averaged = False
        # Whether somebody waits to be let in, as all agreed at the end of the last step.
        self._called = False
        trained = [param for bucket in self._buckets for param in bucket.parameters]
        self._hooks = [param.register_post_accumulate_grad_hook(self._came) for param in trained]
        self._hooks.append(optimizer.register_step_pre_hook(lambda *_: self.average()))

    @property
    def step(self) -> int:
        """How many steps count: the number of the one that is under way, from 0."""
        return self._steps

    def begin(self) -> int:
        """Begins a step, and says which, from 0: that of all ranks.

        The first time, ranks that have just come get parameters, buffers and the optimizer's state; later, ranks that
        wait are let in. Raises ``SynclineError`` (SL1201, SL1202) where this rank cannot go on.
        """
        if any(bucket.taken for bucket in self._buckets):
            raise refusal("gradients are on their way", "begin() after backward()", "optimizer.step() first")
        if self._called:
            self.ranks.renew()
        if self._called or not self._knows:
            self._agree()
        self._called = self._averaged = False
        return self._steps

    def average(self) -> None:
        """Sees to it that gradients are averages over all ranks, and that the step counts.

        ``optimizer.step()`` does so itself. Call it before gradients are looked at or clipped. Raises ``SynclineError``
        (SL1201, SL1202) where this rank cannot go on; gradients are then its own.
        """
        if self._averaged:
            return
        if not self._knows:
            raise refusal("a step has not begun", "average() or optimizer.step()", "begin() first")
        with torch.no_grad():
            for bucket in self._buckets:
                bucket.take_rest()
            self._begin_sums()
            self._commit()
            for bucket in self._buckets:
                bucket.give_back()
                bucket.reset()
        self._averaged = True

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Has gradients add up in ``backward()`` and not be summed yet: for all but the last before a step."""
        held, self._held = self._held, True
        try:
            yield
        finally:
            self._held = held

    def close(self) -> None:
        """Leaves gradients alone from now on. The ranks are the caller's."""
        for hook in self._hooks:
            hook.remove()

    def _came(self, param: torch.Tensor) -> None:
        """The gradient of a parameter is there."""
        if self._held or not self._knows:
            return
        with self._lock, torch.no_grad():
            if self._places[id(param)].take(param):
                self._begin_sums()

    def _begin_sums(self) -> None:
        """Begins to sum buckets that are complete, in their order: it is the same on all ranks."""
        while len(self._sums) < len(self._buckets):
            bucket = self._buckets[len(self._sums)]
            if not bucket.complete:
                return
            # Before they are summed, as DDP does: sums of halves could be too large.
            bucket.flat.div_(self.ranks.world)
            self._sums.append(self.ranks.all_reduce(memory(bucket.flat), in_order=self._in_order, keep=True))

    def _commit(self) -> None:
        """Ends a step, with as many ranks as there are."""
        tries = 0
        while not self._sum():
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
            self._sums.clear()
            for bucket in self._buckets:
                bucket.refill()
            self._begin_sums()
        self._sums.clear()

    def _sum(self) -> bool:
        """Waits until the step counts; whether it does, or some rank was lost."""
        try:
            for pending in self._sums:
                pending.wait()
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
            except SynclineError as raised:
                if self.ranks.fault() is None:
                    raise
                error = raised
                self.ranks.renew(wait_s=self._wait_s)
            else:
                return
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
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, packed)
            state = packed.getvalue()
            length[0] = len(state)
        self.ranks.broadcast(memory(length), root).wait()
        packed_state = bytearray(state) if self.ranks.rank == root else bytearray(int(length))
        self.ranks.broadcast(packed_state, root).wait()
        if self.ranks.rank != root and not self._knows:
            read = torch.load(io.BytesIO(packed_state), weights_only=True)
            self.model.load_state_dict(read["model"])
            self.optimizer.load_state_dict(read["optimizer"])

"""Training that goes on where ranks are lost, and takes back those that are started again.

A step counts once all ranks that take part have all its gradients: what is summed last is an operation that no rank
ends before every rank has begun it. So where it fails, and some rank is through with it, all have the step's gradients;
and where no rank is through with it, all survivors sum the step's gradients again. A step begins with such an
operation, too, so that nobody goes on, or ends, before all know that the last one counted. Parameters stay the same.
"""

from __future__ import annotations

import io
import threading
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from syncline.errors import SynclineError
from syncline.runtime.memory import refusal
from syncline.torch.buckets import lay
from syncline.torch.elements import memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        also: Sequence[Any] = (),
    ) -> None:
        """Takes over the gradients of ``model`` that ``optimizer`` uses.

        They are summed in buckets of about ``bucket_mb`` MB, and with ``in_order`` in the order of ranks, so that runs
        are the same bit for bit. ``also`` has what else a rank needs that is started again, such as schedulers of
        learning rates: anything with ``state_dict`` and ``load_state_dict``. Raises ``SynclineError`` (SL0102) for
        parameters that it cannot take.
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
        self._also = list(also)
        # Twice the steps that count, and one more once the next has begun on all ranks; none is known yet.
        self._progress = 0
        self._knows = False
        layout = repr([(bucket.name, bucket.size) for bucket in self._buckets])
        # Whether gradients are averages that no step of the optimizer has used.
        self._fresh = False
        self._layout = zlib.crc32(layout.encode())
        trained = [param for bucket in self._buckets for param in bucket.parameters]
        self._hooks = [param.register_post_accumulate_grad_hook(self._came) for param in trained]
        self._hooks.append(optimizer.register_step_pre_hook(self._before_step))

    @property
    def step(self) -> int:
        """How many steps count: the number of the one that is under way, from 0."""
        return self._progress // 2

    def begin(self) -> int:
        """Begins a step, and says which, from 0: that of all ranks.

        The first time, ranks that have just come get parameters, buffers and the optimizer's state; later, ranks that
        wait are let in. Raises ``SynclineError`` (SL1201, SL1202) where this rank cannot go on.
        """
        if any(bucket.taken for bucket in self._buckets):
            raise refusal("gradients are on their way", "begin() after backward()", "optimizer.step() first")
        if self._begun:
            raise refusal("a step has begun", f"begin() twice in step {self.step}", "backward() and optimizer.step()")
        if not self._knows:
            self._agree()
        while not self._begun:
            try:
                called = torch.tensor([len(self.ranks.waiting)], dtype=torch.int32)
                self.ranks.all_reduce(memory(called), "max", keep=True).wait()
            except SynclineError:
                if self.ranks.fault() is None:
                    raise
                self._renew()
            else:
                if called:
                    self.ranks.renew()
                    self._agree()
                else:
                    self._progress += 1
        return self.step

    @property
    def _begun(self) -> bool:
        """Whether a step is under way that does not count yet."""
        return self._progress % 2 == 1

    def average(self) -> None:
        """Sees to it that gradients are averages over all ranks, and that the step counts.

        ``optimizer.step()`` does so itself. Call it before gradients are looked at or clipped. Raises ``SynclineError``
        (SL1201, SL1202) where this rank cannot go on; gradients are then its own.
        """
        if not self._begun:
            raise refusal("a step has not begun", "gradients to be averaged", "begin() first, once for each step")
        if any(bucket.changed() for bucket in self._buckets if bucket.taken):
            raise refusal(
                "gradients were changed after they had gone to other ranks",
                "a change between backward() and optimizer.step(), such as clipping",
                "average() before it",
            )
        with torch.no_grad():
            for bucket in self._buckets:
                bucket.take_rest()
            self._begin_sums()
            self._commit()
            for bucket in self._buckets:
                bucket.give_back()
                bucket.reset()

    def _before_step(self, _: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """The optimizer is about to look at gradients."""
        # The first argument is the optimizer itself.
        if any(each is not None for each in (*args[1:], *kwargs.values())):
            raise refusal("gradients of a closure come too late", "step(closure)", "backward() before step()")
        # Somebody may have called `average` for this step.
        if self._begun or not self._fresh:
            self.average()
        self._fresh = False

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
        if self._held:
            return
        if not self._begun:
            raise refusal("a step has not begun", "backward()", "begin() first, once for each step")
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
            before, error = self.ranks.ranks, self.ranks.fault()
            self._renew()
            if not self._begun:
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
        self._fresh = True

    def _sum(self) -> bool:
        """Waits until the step counts; whether it does, or some rank was lost."""
        try:
            for pending in self._sums:
                pending.wait()
            # The operation that no rank ends before all have begun it.
            self.ranks.barrier().wait()
        except SynclineError:
            if self.ranks.fault() is None:
                raise
            return False
        self._progress += 1
        return True

    def _renew(self) -> None:
        """Goes on in a new epoch, where the communicator has failed."""
        self.ranks.renew(wait_s=self._wait_s)
        self._agree()

    def _agree(self) -> None:
        """Goes on where whoever is furthest does; whoever does not know anything is told the state."""
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
        own = torch.tensor([self._progress, int(self._knows), self._layout], dtype=torch.int64)
        all_of_them = torch.empty(3 * self.ranks.world, dtype=torch.int64)
        self.ranks.all_gather(memory(own), memory(all_of_them)).wait()
        known = all_of_them.view(-1, 3).tolist()
        furthest = max(progress for progress, _, _ in known)
        # Where nobody knows anything yet, the first rank's is what all begin with.
        able = [rank for rank, (progress, knows, _) in enumerate(known) if knows and progress == furthest]
        root = able[0] if able else 0
        if known[root][2] != self._layout:
            # The others go on without a rank that trains something else.
            self.ranks.close()
            found = ", ".join(bucket.name for bucket in self._buckets[:2])
            raise refusal("this rank trains another model than the others", found, "the same parameters and bucket_mb")
        if not all(knows for _, knows, _ in known):
            self._give(root)
        self._progress = furthest
        self._knows = True

    def _give(self, root: int) -> None:
        """Brings the state of one rank to those who know nothing."""
        length = torch.zeros(1, dtype=torch.int64)
        state = b""
        if self.ranks.rank == root:
            packed = io.BytesIO()
            also = [each.state_dict() for each in self._also]
            own = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "also": also}
            torch.save(own, packed)
            state = packed.getvalue()
            length[0] = len(state)
        self.ranks.broadcast(memory(length), root).wait()
        packed_state = bytearray(state) if self.ranks.rank == root else bytearray(int(length))
        self.ranks.broadcast(packed_state, root).wait()
        if self.ranks.rank != root and not self._knows:
            read = torch.load(io.BytesIO(packed_state), weights_only=True)
            self.model.load_state_dict(read["model"])
            self.optimizer.load_state_dict(read["optimizer"])
            for each, its in zip(self._also, read["also"], strict=True):
                each.load_state_dict(its)

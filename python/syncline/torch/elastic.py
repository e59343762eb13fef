"""Training that goes on after ranks are lost, and lets restarted ranks back in.

A step counts once all ranks that take part have all its gradients. Each step therefore ends with an operation that no
rank completes before every rank has begun it. If that operation fails, there are two cases. Either some rank has
completed it: then all ranks have the step's gradients, and the step counts. Or no rank has: then the survivors sum the
step's gradients again. Each step also begins with such an operation, so that no rank goes on, or ends, before all ranks
know that the last step counted. This way all ranks keep the same parameters.
"""

from __future__ import annotations

import io
import threading
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from syncline.errors import SynclineError
from syncline.input.problem import bad_value
from syncline.torch.buckets import make_buckets
from syncline.torch.device import Local
from syncline.torch.elements import memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from syncline.runtime.communicator import Communicator, Pending

TRIES = 3
"""How often a step is tried again without losing a rank, before it fails."""


class Elastic:
    """Averages the gradients of a model over the ranks of an elastic job, and goes on without ranks that are lost.

    ``ranks`` is a :class:`~syncline.runtime.Communicator` that was joined with ``elastic=True``; neither DDP nor a
    process group of PyTorch is needed. Begin every step with :meth:`begin`. The gradients that ``optimizer.step()``
    uses are averages over all ranks::

        ranks = syncline.torch.join(elastic=True)
        training = syncline.torch.Elastic(ranks, model, optimizer)
        while training.begin() < 1000:
            optimizer.zero_grad()
            loss(model(batch)).backward()
            optimizer.step()

    Buckets of gradients are summed while ``backward()`` still runs. If a rank is lost, the other ranks sum their
    gradients again, so no step is lost. They wait up to ``wait_s`` for lost ranks to come back. A restarted rank runs
    the same program: its ``begin`` gets the parameters and the optimizer's state from the others, and returns the step
    with which they go on.

    A parameter that has no gradient in a step gets a gradient of zeros. Gradients must be dense. Those on a GPU are
    copied through pinned memory, as with the backend ``syncline``.
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
        """Registers hooks on the parameters of ``model`` and on ``optimizer``.

        Gradients are summed in buckets of about ``bucket_mb`` MB; with ``in_order`` in the order of ranks, so that runs
        are the same bit for bit. ``also`` lists further objects whose state a restarted rank needs, such as
        learning-rate schedulers: anything with ``state_dict`` and ``load_state_dict``. Raises ``SynclineError``
        (SL0102) for parameters that cannot be trained this way.
        """
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and parameter.device.type not in ("cpu", "cuda"):
                found = str(parameter.device)
                raise bad_value(
                    f"the gradient of `{name}` is on a device of another kind", found, allowed="cpu or cuda"
                )
        if not bucket_mb > 0:
            raise bad_value("a bucket must have some bytes", f"bucket_mb={bucket_mb}", allowed="more than 0")
        self.ranks = ranks
        self.model = model
        self.optimizer = optimizer
        self._wait_s = wait_s
        self._in_order = in_order
        self._buckets, _ = make_buckets([{"params": list(model.parameters())}], bucket_mb * 1e6)
        if not self._buckets:
            raise bad_value(
                "there is nothing to train", "no parameter that requires a gradient", allowed="at least one"
            )
        self._places = {id(param): bucket for bucket in self._buckets for param in bucket.parameters}
        # Of this step, in the order of buckets: the memory of those that are complete, and the sums that have begun.
        self._memory: list[Local] = []
        self._sums: list[Pending] = []
        self._lock = threading.Lock()
        self._held = False
        self._also = list(also)
        # Twice the number of steps that count, plus one once the next step has begun on all ranks.
        self._progress = 0
        self._knows = False
        layout = repr([(bucket.name, bucket.size) for bucket in self._buckets])
        # Whether the gradients are averages that the optimizer has not used yet.
        self._fresh = False
        self._layout = zlib.crc32(layout.encode())
        trained = [param for bucket in self._buckets for param in bucket.parameters]
        self._hooks = [param.register_post_accumulate_grad_hook(self._gradient_ready) for param in trained]
        self._hooks.append(optimizer.register_step_pre_hook(self._before_step))

    @property
    def step(self) -> int:
        """The number of steps that count, which is also the number of the current step, from 0."""
        return self._progress // 2

    def begin(self) -> int:
        """Begins a step on all ranks, and returns its number, from 0.

        In its first call, a rank that has just joined gets parameters, buffers and the optimizer's state from the
        others. Later calls let in ranks that wait. Raises ``SynclineError`` (SL1201, SL1202) if this rank cannot go on.
        """
        if any(bucket.taken for bucket in self._buckets):
            raise bad_value(
                "gradients are being exchanged", "begin() after backward()", help="call optimizer.step() first"
            )
        if self._begun:
            found = f"begin() twice in step {self.step}"
            raise bad_value("a step has already begun", found, help="call backward() and optimizer.step() first")
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
        """Whether a step is under way, which does not count yet."""
        return self._progress % 2 == 1

    def average(self) -> None:
        """Waits until the gradients are averages over all ranks, and the step counts.

        ``optimizer.step()`` calls this itself. Call it before you read or clip gradients. Raises ``SynclineError``
        (SL1201, SL1202) if this rank cannot go on; the gradients are then those of this rank alone.
        """
        if not self._begun:
            raise bad_value("no step has begun", "gradients to average", help="call begin() once before each step")
        if any(bucket.changed() for bucket in self._buckets if bucket.taken):
            raise bad_value(
                "gradients were changed after they were sent to other ranks",
                "a change between backward() and optimizer.step(), such as clipping",
                help="call average() before you change them",
            )
        with torch.no_grad():
            for bucket in self._buckets:
                bucket.take_rest()
            self._begin_sums(wait=True)
            self._commit()
            for bucket in self._buckets:
                bucket.give_back()
                bucket.reset()

    def _before_step(self, _: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Averages gradients before the optimizer uses them; called by PyTorch."""
        # The first argument is the optimizer itself.
        if any(each is not None for each in (*args[1:], *kwargs.values())):
            raise bad_value(
                "gradients of a closure are computed too late", "step(closure)", help="call backward() before step()"
            )
        # The user may have called `average` for this step already.
        if self._begun or not self._fresh:
            self.average()
        self._fresh = False

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulates gradients without exchanging them; use it for every ``backward()`` of a step but the last."""
        held, self._held = self._held, True
        try:
            yield
        finally:
            self._held = held

    def close(self) -> None:
        """Removes the hooks. The communicator stays open."""
        for hook in self._hooks:
            hook.remove()

    def _gradient_ready(self, param: torch.Tensor) -> None:
        """Takes the gradient of a parameter; called by PyTorch once the gradient is computed."""
        if self._held:
            return
        if not self._begun:
            raise bad_value("no step has begun", "backward()", help="call begin() once before each step")
        with self._lock, torch.no_grad():
            if self._places[id(param)].take(param):
                self._begin_sums()

    def _begin_sums(self, *, wait: bool = False) -> None:
        """Begins to sum complete buckets, in the order of buckets, which is the same on all ranks.

        With ``wait`` this includes buckets that a GPU has not copied to the CPU yet.
        """
        while len(self._memory) < len(self._buckets) and self._buckets[len(self._memory)].complete:
            flat = self._buckets[len(self._memory)].flat
            # Divide before summing, as DDP does: the sum could overflow, for example in float16.
            flat.div_(self.ranks.world)
            place = Local([flat], reads=True, writes=True)
            place.prepare()
            self._memory.append(place)
        for place in self._memory[len(self._sums) :]:
            if wait:
                place.wait()
            elif not place.ready():
                return
            self._sums.append(self.ranks.all_reduce(memory(place.host), in_order=self._in_order, keep=True))

    def _commit(self) -> None:
        """Ends a step with the ranks that are left."""
        tries = 0
        while not self._sum():
            before, error = self.ranks.ranks, self.ranks.fault()
            self._renew()
            if not self._begun:
                # Another rank has completed the step. So this rank, too, has all its gradients.
                break
            tries = tries + 1 if self.ranks.ranks == before else 0
            if tries == TRIES and error is not None:
                raise error
            self._forget_sums()
            for bucket in self._buckets:
                bucket.refill()
            self._begin_sums(wait=True)
        for place in self._memory:
            place.finish()
            place.join()
        self._forget_sums()
        self._fresh = True

    def _forget_sums(self) -> None:
        self._sums.clear()
        self._memory.clear()

    def _sum(self) -> bool:
        """Waits until the step counts and returns true, or returns false if the communicator has failed."""
        try:
            for pending in self._sums:
                pending.wait()
            # No rank completes this operation before all ranks have begun it.
            self.ranks.barrier().wait()
        except SynclineError:
            if self.ranks.fault() is None:
                raise
            return False
        self._progress += 1
        return True

    def _renew(self) -> None:
        """Begins a new epoch after the communicator has failed."""
        self.ranks.renew(wait_s=self._wait_s)
        self._agree()

    def _agree(self) -> None:
        """Makes all ranks go on at the step of the rank that is furthest, and gives new ranks the state."""
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
        """Exchanges the progress of all ranks, and gives new ranks the state of the first rank that is furthest."""
        own = torch.tensor([self._progress, int(self._knows), self._layout], dtype=torch.int64)
        all_of_them = torch.empty(3 * self.ranks.world, dtype=torch.int64)
        self.ranks.all_gather(memory(own), memory(all_of_them)).wait()
        known = all_of_them.view(-1, 3).tolist()
        furthest = max(progress for progress, _, _ in known)
        # When the job begins, no rank has a state: all begin with that of the first rank.
        able = [rank for rank, (progress, knows, _) in enumerate(known) if knows and progress == furthest]
        root = able[0] if able else 0
        if known[root][2] != self._layout:
            # The others go on without this rank, which trains another model.
            self.ranks.close()
            found = ", ".join(bucket.name for bucket in self._buckets[:2])
            raise bad_value(
                "this rank trains another model than the others", found, allowed="the same parameters and bucket_mb"
            )
        if not all(knows for _, knows, _ in known):
            self._give(root)
        self._progress = furthest
        self._knows = True

    def _give(self, root: int) -> None:
        """Broadcasts the state of rank ``root``; ranks that have no state load it."""
        length = torch.zeros(1, dtype=torch.int64)
        state = b""
        if self.ranks.rank == root:
            packed = io.BytesIO()
            torch.save(self.state_dict(), packed)
            state = packed.getvalue()
            length[0] = len(state)
        self.ranks.broadcast(memory(length), root).wait()
        packed_state = bytearray(state) if self.ranks.rank == root else bytearray(int(length))
        self.ranks.broadcast(packed_state, root).wait()
        if self.ranks.rank != root and not self._knows:
            self._load(torch.load(io.BytesIO(packed_state), weights_only=True, map_location="cpu"))

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of this training: of the model, the optimizer and the objects in ``also``, and the step.

        Call it between ``optimizer.step()`` and :meth:`begin`. All ranks have the same state, so one may save it.
        """
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "also": [each.state_dict() for each in self._also],
            "step": self.step,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state of an earlier job, before the first :meth:`begin`, which then returns its step.

        Not all ranks need to load it: the others get it from those that do. Raises ``SynclineError`` (SL0102) if
        training has begun.
        """
        if self._knows:
            raise bad_value(
                "training has begun", "load_state_dict() after begin()", help="load the state before the first begin()"
            )
        self._load(state)
        self._progress, self._knows = 2 * int(state["step"]), True

    def _load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for each, its in zip(self._also, state["also"], strict=True):
            each.load_state_dict(its)

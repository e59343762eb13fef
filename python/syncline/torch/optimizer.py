"""An optimizer of PyTorch whose work is done by parameter hubs.

Gradients go to the hubs bucket by bucket while ``backward()`` still runs; the hubs average them, make parameters
better, and give these back.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from syncline.errors import SynclineError
from syncline.hub import Hub
from syncline.runtime.memory import refusal
from syncline.torch import groups
from syncline.torch.buckets import Bucket, lay
from syncline.torch.elements import memory
from syncline.torch.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from syncline.hub import Adam, Sgd

    Params: TypeAlias = Iterable[torch.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, torch.Tensor]]

SETTLED = ("keys", "optimizer", "together")
"""What a job on hubs is told by :class:`HubOptimizer` itself."""


class HubOptimizer(torch.optim.Optimizer):  # type: ignore[misc]  # the base is not known without PyTorch
    """Trains parameters on hubs.

    In a training loop it takes the place of an optimizer of PyTorch, and of DDP::

        optimizer = HubOptimizer(model.parameters(), Sgd(lr=0.1, momentum=0.9), "10.0.0.9")

    ``param_groups`` have the names of ``torch.optim.SGD`` or ``Adam``; groups may have settings of their own. Of what
    is in them only ``lr`` may change later, as schedulers do it: on all ranks before the same step. Once a rank's
    ``step()`` has returned, its parameters are those that the hubs have.

    Every parameter that ``requires_grad`` when the optimizer is made is trained: of ``float32`` and ``float64`` as it
    is, of ``float16`` and ``bfloat16`` by a ``float32`` copy that the hubs keep. One without gradient in a step has a
    gradient of zeros (so momentum and decay go on). Floats that are frozen are only made equal at the beginning.
    """

    def __init__(
        self,
        params: Params,
        optimizer: Sgd | Adam,
        hubs: str | Sequence[str] | None = None,
        *,
        bucket_mb: float = 4.0,
        overlap: bool = True,
        **settings: Any,
    ) -> None:
        """Joins a job on ``hubs``, and gives all ranks the same parameters.

        They are those of rank 0, or those of the job, where a rank joins later. Parameters are exchanged in buckets of
        about ``bucket_mb`` MB. With ``overlap`` a bucket goes to the hubs as soon as the gradients of its parameters
        are there; without, in ``step()``, so that they may be clipped before. All else (``rank``, ``world``, ``job``,
        ``policy``, ``in_order``, ``tls``, ...) is as for ``Hub.join``.

        Raises ``SynclineError`` where ranks do not meet, or their parameters differ in number, shape or type (SL1201,
        exit status 6), and where what is given is invalid (SL0102).
        """
        for name in SETTLED:
            if name in settings:
                raise refusal("HubOptimizer says this itself", f"`{name}`", "other settings of Hub.join")
        if not bucket_mb > 0:
            raise refusal("a bucket has some bytes", f"bucket_mb={bucket_mb}", "more than 0")
        self._made = False
        super().__init__(params, groups.defaults(optimizer))
        self._chosen = [groups.chosen(optimizer, group) for group in self.param_groups]
        self._rates = [each.lr for each in self._chosen]
        trained, self._frozen = lay(self.param_groups, bucket_mb * 1e6)
        if not trained:
            raise refusal("there is nothing to train", "no parameter that requires a gradient", "at least one")
        self._buckets = trained
        self._places = {id(param): bucket for bucket in trained for param in bucket.parameters}
        self._held = False
        self._lock = threading.Lock()
        self._queue = Queue()
        self.hub = self._join(hubs, settings)
        self._contributors = 0
        self._steps = min(self.hub.steps[bucket.name] for bucket in trained)
        self._begin()
        self._made = True
        params = [param for bucket in trained for param in bucket.parameters] if overlap else []
        self._hooks = [param.register_post_accumulate_grad_hook(self._came) for param in params]

    def _join(self, hubs: str | Sequence[str] | None, settings: dict[str, Any]) -> Hub:
        everything = [*self._buckets, *self._frozen]
        return Hub.join(
            hubs,
            {bucket.name: (bucket.element, bucket.size) for bucket in everything},
            optimizer={bucket.name: self._chosen[bucket.group] for bucket in self._buckets},
            together=[bucket.name for bucket in self._buckets],
            **settings,
        )

    def _begin(self) -> None:
        """Gives all ranks the same parameters, frozen ones, too."""
        everything = [*self._buckets, *self._frozen]
        for bucket in everything:
            bucket.gather_parameters()
        staged = {bucket.name: bucket.flat.cpu() for bucket in everything}
        self.hub.start({name: memory(flat) for name, flat in staged.items()})
        for bucket in everything:
            bucket.flat.copy_(staged[bucket.name])
            bucket.scatter()

    # What users of PyTorch know.

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """All groups are given when the optimizer is made: the job's ranks agree on its parameters when they join."""
        if getattr(self, "_made", False):
            raise refusal("a HubOptimizer takes no more parameters", "add_param_group", "groups when it is made")
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Waits until the hubs have made parameters better, and takes them.

        Every rank does every step. Raises ``SynclineError`` (SL1202, exit status 6) where a hub, a rank (by the job's
        policy) or the deadline ended an exchange; parameters are then as they were before the step.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self._check()
            for bucket in self._buckets:
                if bucket.work is None:
                    bucket.take_rest()
                    self._push(bucket)
            error: SynclineError | None = None
            for bucket in self._buckets:
                try:
                    bucket.wait()
                except SynclineError as raised:
                    # The others still write to their memory.
                    error = error or raised
            if error is not None:
                raise error
            self._contributors = min(bucket.contributors for bucket in self._buckets)
            self._steps += 1
            for bucket in self._buckets:
                bucket.scatter()
                bucket.reset()
        return loss

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Has gradients add up in ``backward()`` and not go to the hubs yet: for all but the last before a step."""
        held, self._held = self._held, True
        try:
            yield
        finally:
            self._held = held

    def state_dict(self) -> dict[str, Any]:
        """Settings of each group, such as ``lr``; no state of parameters.

        Momentum and the moments of Adam are on the hubs, for as long as the job has ranks there. A job that begins anew
        from a checkpoint begins with the parameters of the model, and with none of these.
        """
        return dict(super().state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes the learning rates of a checkpoint, on all ranks, for the next step. The rest has to be as it is."""
        if any(state_dict["state"].values()):
            found = f"state of {len(state_dict['state'])} parameters"
            raise refusal("the state of a HubOptimizer is on its hubs", found, "a state_dict of a HubOptimizer")
        super().load_state_dict(state_dict)
        groups.check(self.param_groups, self._chosen)

    # What is different.

    @property
    def steps(self) -> int:
        """How many steps are behind the job: those of this rank, and those before it joined."""
        return self._steps

    @property
    def contributors(self) -> int:
        """How many ranks had a part in the last step, at least: fewer where some are lost (``shrink``)."""
        return self._contributors

    def set_parameters(self) -> None:
        """Says that parameters are what the ranks have, such as those of a checkpoint that was loaded meanwhile.

        All ranks load the same and call this between the same two steps. Momentum and moments stay what they are.
        """
        if any(bucket.work is not None or bucket.taken for bucket in self._buckets):
            raise refusal("parameters are set between steps", "gradients that are on their way", "step() first")
        staged = []
        for bucket in self._buckets:
            bucket.gather_parameters()
            flat = bucket.flat.cpu()
            staged.append((flat, self.hub.set(bucket.name, memory(flat))))
        for _, exchange in staged:
            exchange.wait()

    def close(self) -> None:
        """Leaves the job. Parameters are free for another optimizer."""
        for hook in self._hooks:
            hook.remove()
        self.hub.close()

    # Gradients on their way.

    def _came(self, param: torch.Tensor) -> None:
        """The gradient of a parameter is there."""
        if self._held:
            return
        bucket = self._places[id(param)]
        with self._lock, torch.no_grad():
            if bucket.take(param):
                self._push(bucket)

    def _push(self, bucket: Bucket) -> None:
        """Sends a bucket; before the first of a step, what has changed since the last."""
        if all(each.work is None for each in self._buckets):
            self._tell()
        bucket.push(self.hub, self._queue)

    def _tell(self) -> None:
        """Tells the hubs learning rates that have changed."""
        groups.check(self.param_groups, self._chosen)
        for number, group in enumerate(self.param_groups):
            rate = float(group["lr"])
            if rate == self._rates[number]:
                continue
            for bucket in self._buckets:
                if bucket.group == number:
                    self.hub.set_learning_rate(rate, bucket.name)
            self._rates[number] = rate

    def _check(self) -> None:
        """That nothing was changed that the hubs have already."""
        for bucket in self._frozen:
            if any(param.requires_grad for param in bucket.parameters):
                found = "a parameter that was frozen when the optimizer was made"
                raise refusal("a HubOptimizer trains the parameters that it was made with", found, "a new HubOptimizer")
        gone = any(bucket.work is not None for bucket in self._buckets)
        for number, group in enumerate(self.param_groups):
            if gone and float(group["lr"]) != self._rates[number]:
                found = f"from {self._rates[number]} to {float(group['lr'])} between backward() and step()"
                raise refusal(
                    "a learning rate changed after gradients had gone to the hubs",
                    found,
                    "a change before backward(), or overlap=False",
                )
        if any(bucket.changed() for bucket in self._buckets):
            raise refusal(
                "gradients were changed after they had gone to the hubs",
                "a change between backward() and step(), such as clipping",
                "overlap=False",
            )
